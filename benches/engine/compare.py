#!/usr/bin/env python3
"""Training and prediction: the engine beside PyTorch, on the same machine in the same minutes.

    python3 benches/engine/compare.py [--quick] [--only NAME] [--rounds 5] [--threads 2] [--venv FOLDER] [--out results.json]

makes a virtual environment (or uses the one given), builds the Rust side, and lets all contenders take turns, round after
round (three rounds at most where a round takes seconds, two where it takes longer). Both sides are warmed up and use the same number
of threads, batch 128 and f32. PyTorch runs eager, eager with channels_last and fused AdamW, and compiled (torch.compile). Training
includes forward pass, backward pass and AdamW; data are at hand. PyTorch predicts in batches of 128, or of 500 if that is faster.
Best and median over all rounds are printed as a table; ratios are best over best.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import ROOT, TORCH, add_environment_arguments, driver, enter_environment
from torch_networks import networks

BATCH = 128
IMAGES = 10_000
SAMPLES = 64


class Torch:
    """One way of training one network in PyTorch."""

    def __init__(self, net, mode):
        import torch
        self.torch = torch
        make, shape, classes, _ = networks()[net]
        torch.manual_seed(0)
        self.model = make()
        self.x = torch.randn(BATCH, *shape)
        self.y = torch.arange(BATCH) % classes
        if mode == "channels_last":
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.to(memory_format=torch.channels_last)
        self.call = torch.compile(self.model) if mode == "compile" else self.model
        self.rule = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=mode != "eager")
        self.step()
        self.step()

    def step(self):
        self.rule.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.cross_entropy(self.call(self.x), self.y)
        loss.backward()
        self.rule.step()

    def times(self, count):
        out = []
        for _ in range(count):
            start = time.perf_counter()
            self.step()
            out.append((time.perf_counter() - start) * 1e3)
        return out


class TorchPredict:
    """Probabilities of 10,000 images, for one or many sets of weights."""

    def __init__(self, net, samples, mode, batch):
        import torch
        self.torch = torch
        self.batch = batch
        make, shape, _, _ = networks()[net]
        self.model = make().eval()
        self.images = torch.randn(IMAGES, *shape)
        if mode == "channels_last":
            self.model = self.model.to(memory_format=torch.channels_last)
            self.images = self.images.to(memory_format=torch.channels_last)
        self.samples = [{k: v + 0.01 * torch.randn_like(v) for k, v in self.model.state_dict().items()}
                        for _ in range(samples)]

    def times(self, count):
        torch, out = self.torch, []
        for _ in range(count):
            start = time.perf_counter()
            with torch.inference_mode():
                total = 0.0
                for sample in self.samples:
                    if len(self.samples) > 1:
                        self.model.load_state_dict(sample)
                    total = total + torch.cat([self.model(x).softmax(1) for x in self.images.split(self.batch)])
                total /= len(self.samples)
            out.append((time.perf_counter() - start) * 1e3)
        return out


class Ours:
    """The Rust side: a fresh process each round."""

    def __init__(self, net, mode, threads, isa="best"):
        self.command = [str(BINARY), net, str(BATCH), str(threads), isa, mode]

    def times(self, count):
        text = subprocess.run([*self.command, str(count)], check=True, capture_output=True, text=True).stdout
        record = json.loads(text)
        return [record["ms_best"], record["ms_median"]]


def peak_memory(command):
    """Peak resident bytes of a process.

    The system counts the peak of the parent, too, so that a small process has to start it.
    """
    script = ("import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); "
              "_, status, usage = os.wait4(p.pid, 0); print(status, usage.ru_maxrss)")
    text = subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True, text=True).stdout
    status, kibibytes = map(int, text.split())
    assert status == 0, command
    return kibibytes * 1024


def predictors(net, samples):
    """PyTorch's ways of predicting."""
    return {f"{mode}, batch {batch}": TorchPredict(net, samples, mode, batch)
            for mode in ("eager", "channels_last") for batch in ((128, 500) if samples == 1 else (500,))}


def own_arguments():
    """What the user wrote, without what names a place on this machine."""
    shown, skip = [], False
    for word in sys.argv[1:]:
        if word in ("--venv", "--index-url", "--out"):
            skip = True
        elif skip:
            skip = False
        else:
            shown.append(word)
    return shown


def machine():
    """The processor in the system's words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores, {model}"


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without torch.compile")
    parser.add_argument("--only", default="", help="only work whose name contains this, such as 'LeNet train'")
    add_environment_arguments(parser)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory-child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    enter_environment(args, TORCH)
    import torch
    torch.set_num_threads(args.threads)
    if args.memory_child:
        Torch("resnet20", "eager").times(2)
        return
    BINARY = driver("engine")

    t, full = args.threads, not args.quick
    work = [
        ("LeNet train step", 200, 99, lambda: {
            "ours": Ours("lenet", "train", t), "ours avx2": Ours("lenet", "train", t, "avx2"),
            **{m: Torch("lenet", m) for m in ("eager", "channels_last", *["compile"] * full)}}),
        ("ResNet-20-FRN train step", 4, 3, lambda: {
            "ours": Ours("resnet20", "train", t), "ours without Winograd": Ours("resnet20", "direct", t),
            **{m: Torch("resnet20", m) for m in ("eager", *["compile"] * full)}}),
        ("DenseNet-121-FRN train step", 1, 2, lambda: {
            "ours": Ours("densenet121", "train", t), **{m: Torch("densenet121", m) for m in ("eager", *["compile"] * full)}}),
        ("LeNet, 10,000 images", 5, 99, lambda: {"ours": Ours("lenet", "predict", t), **predictors("lenet", 1)}),
        ("LeNet, 10,000 images, 64 samples", 1, 2, lambda: {"ours": Ours("lenet", "samples", t), **predictors("lenet", SAMPLES)}),
        ("ResNet-20-FRN, 10,000 images", 1, 3, lambda: {"ours": Ours("resnet20", "predict", t), **predictors("resnet20", 1)}),
    ]
    work = [(name, count, rounds, make()) for name, count, rounds, make in work if args.only in name]
    times = {name: {who: [] for who in sides} for name, _, _, sides in work}
    for number in range(args.rounds):
        for name, count, rounds, sides in work:
            if number >= rounds:
                continue
            for who, side in sides.items():
                times[name][who] += side.times(count)
        print(f"round {number + 1} of {args.rounds} done", file=sys.stderr)

    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    record = {"date": datetime.date.today().isoformat(), "commit": commit, "command": " ".join(["python3 benches/engine/compare.py", *own_arguments()]),
              "machine": machine(), "torch": torch.__version__, "threads": t, "batch": BATCH, "work": {}}
    print(f"{'work':36}{'side':24}{'best ms':>11}{'median ms':>11}{'ratio':>8}")
    for name, sides in times.items():
        ours = min(sides["ours"])
        record["work"][name] = {}
        for who, values in sides.items():
            best, median = min(values), statistics.median(values)
            record["work"][name][who] = {"ms_best": best, "ms_median": median, "ratio": best / ours}
            print(f"{name:36}{who:24}{best:11.3f}{median:11.3f}{best / ours:8.2f}")
    if args.only in "ResNet-20-FRN, peak memory":
        measure_memory(record, t)
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")


def measure_memory(record, t):
    """Peak memory of a process that trains ResNet-20-FRN."""
    child = [sys.executable, str(Path(__file__).resolve()), "--memory-child", "--threads", str(t)]
    memory = {"ours": peak_memory([str(BINARY), "resnet20", str(BATCH), str(t), "best", "train", "2"]), "eager": peak_memory(child)}
    record["resnet20_peak_bytes"] = memory
    for who, value in memory.items():
        print(f"{'ResNet-20-FRN, peak memory':36}{who:24}{value / 2**20:9.0f} MiB{'':11}{value / memory['ours']:8.2f}")


if __name__ == "__main__":
    main()
