#!/usr/bin/env python3
"""One optimizer step: this crate beside torch, on the same machine in the same minutes.

    python3 benches/optimizer_step/compare.py

makes a virtual environment (or uses the one given by --venv), builds the Rust side, and then lets all
contenders take turns, round after round: `cbopt` (ucbopt, ucbopt-adapt, with both treatments of unusable gradients),
torch.optim.AdamW(fused=True), the same rules written with torch's foreach operations, and plain streams over memory.
Writes results.json and results.md.

Bytes per parameter that a step must move (f32): parameters and state are read and written, the gradient is read:
AdamW and ucbopt 28, ucbopt-adapt 36. The test of the gradients that `refuse` makes beforehand reads 4 more; they are left out of
GB/s, and counted in the last figure in brackets. Streaming bandwidth is the best median of all plain streams, of either
side, that write.

Our arrays lie in large pages if the system grants them on request, as the state of the rules always does; torch's lie where torch
puts them. With --torch-large-pages torch asks for large pages, too (THP_MEM_ALLOC_ENABLE=1, not its default), and the
results are written to results-large-pages.json and .md.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import ROOT, TORCH, add_environment_arguments, driver, enter_environment


class Ours:
    """The Rust side, asked over a pipe."""

    def __init__(self):
        self.process = subprocess.Popen(
            [str(driver("optimizer-step"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def step(self, rule, policy, count, threads, repeats):
        return self.ask(f"step {rule} {policy} {count} {threads} {repeats}")

    def stream(self, kind, count, threads, repeats):
        return self.ask(f"stream {kind} {count} {threads} {repeats}")


def torch_side(torch):
    """name -> function(count) -> (step function, bytes); one flat tensor, which suits torch best."""

    def tensors(count, names):
        generator = torch.Generator().manual_seed(1)
        theta = torch.rand(count, generator=generator) - 0.5
        grad = (torch.rand(count, generator=generator) - 0.5) * 0.02
        return theta, grad, [torch.zeros(count) for _ in range(names)]

    def adamw(count):
        theta, grad, _ = tensors(count, 0)
        parameter = torch.nn.Parameter(theta)
        parameter.grad = grad
        optimizer = torch.optim.AdamW([parameter], lr=1e-4, weight_decay=2e-4, fused=True)
        return optimizer.step, 28 * count

    def foreach_ucbopt(count):
        theta, grad, (m, h) = tensors(count, 2)
        h.fill_(0.05)
        state = {"theta": [theta], "m": [m], "h": [h], "t": 0}
        return lambda: step_ucbopt(torch, state, [grad], 1e-4, PAPER_UCBOPT), 28 * count

    def foreach_ucbopt_adapt(count):
        theta, grad, (m, h, c) = tensors(count, 3)
        h.fill_(0.05)
        c.fill_(float("inf"))
        state = {"theta": [theta], "m": [m], "h": [h], "c": [c], "t": 0}
        return lambda: step_ucbopt_adapt(torch, state, [grad], 1e-4, PAPER_ADAPT), 36 * count

    def stream_copy(count):
        a, b = torch.zeros(count), torch.ones(count)
        return lambda: a.copy_(b), 8 * count

    def stream_add(count):
        a, b = torch.zeros(count), torch.ones(count)
        return lambda: a.add_(b), 12 * count

    def stream_mul(count):
        a = torch.ones(count)
        return lambda: a.mul_(0.999), 8 * count

    return {
        "torch AdamW fused": adamw,
        "torch foreach ucbopt": foreach_ucbopt,
        "torch foreach ucbopt-adapt": foreach_ucbopt_adapt,
        "stream torch copy": stream_copy,
        "stream torch add": stream_add,
        "stream torch mul": stream_mul,
    }


PAPER_UCBOPT = dict(beta1=0.9, beta2=0.99999, weight_decay=2e-3, vartheta=8e-6, eps=None)
PAPER_ADAPT = dict(beta1=0.9, beta2=0.99999, beta3=1.001, weight_decay=2e-3, gamma=0.9, eps=1e-8)


def moments(torch, state, grads, hyper):
    state["t"] += 1
    torch._foreach_lerp_(state["m"], grads, 1 - hyper["beta1"])
    torch._foreach_mul_(state["h"], hyper["beta2"])
    torch._foreach_addcmul_(state["h"], grads, grads, 1 - hyper["beta2"])


def descend(torch, state, denominator, lr, hyper):
    numerator = torch._foreach_div(state["m"], 1 - hyper["beta1"] ** state["t"])
    torch._foreach_add_(numerator, state["theta"], alpha=hyper["weight_decay"])
    torch._foreach_addcdiv_(state["theta"], numerator, denominator, -lr)


def step_ucbopt(torch, state, grads, lr, hyper):
    moments(torch, state, grads, hyper)
    denominator = torch._foreach_add(state["h"], hyper["weight_decay"] - hyper["vartheta"])
    descend(torch, state, denominator, lr, hyper)


def step_ucbopt_adapt(torch, state, grads, lr, hyper):
    moments(torch, state, grads, hyper)
    denominator = torch._foreach_add(state["h"], hyper["weight_decay"])
    torch._foreach_mul_(state["c"], hyper["beta3"])
    torch._foreach_minimum_(state["c"], denominator)
    torch._foreach_add_(denominator, state["c"], alpha=-hyper["gamma"])
    torch._foreach_add_(denominator, hyper["eps"])
    descend(torch, state, denominator, lr, hyper)


def check_foreach(torch):
    """The foreach forms are the rules: they reproduce a golden trajectory."""
    for name, case_name, step in (("ucbopt", "vartheta_zero", step_ucbopt),
                                  ("ucbopt_adapt", "paper_fmnist_eps_added", step_ucbopt_adapt)):
        cases = json.loads((ROOT / "golden" / "optimizers" / f"{name}.json").read_text())["cases"]
        case = next(c for c in cases if c["name"] == case_name)
        theta = torch.tensor(case["theta0"])
        hyper = case["hyper"]
        state = {"theta": [theta], "m": [torch.zeros_like(theta)], "h": [torch.full_like(theta, hyper["hess_init"])],
                 "c": [torch.full_like(theta, float("inf"))], "t": 0}
        for lr, grad, after in zip(case["lr"], case["grads"], case["after"]):
            step(torch, state, [torch.tensor(grad)], lr, hyper)
            want = torch.tensor(after["theta"])
            error = (state["theta"][0] - want).abs().max() / want.abs().max()
            assert error < 1e-5, (name, error)


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def time_torch(step, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def note_on_load(load):
    """What the load of the machine means for the figures."""
    if load <= 0.5:
        return ""
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        return "Other programs were waiting: the benchmark ran with real-time priority.\n"
    return "Other programs were running: these figures are provisional.\n"


OURS = [(rule, policy) for rule in ("ucbopt", "ucbopt-adapt", "adamw") for policy in ("refuse", "skip")]
STREAMS = ("copy", "triad", "update")


def measure(torch, ours, count, threads, rounds):
    """name -> {bytes, seconds: one median per round}."""
    repeats = max(3, min(200, 20_000_000 // count))
    found = {}

    def note(name, byte_count, seconds):
        entry = found.setdefault(name, {"bytes": byte_count, "seconds": [], "best": []})
        entry["seconds"].append(median(seconds))
        entry["best"].append(min(seconds))

    steps = {name: make(count) for name, make in torch_side(torch).items()}
    turns = []
    for rule, policy in OURS:
        turns.append(lambda rule=rule, policy=policy: (
            f"cbopt {rule} ({policy})", ours.step(rule, policy, count, threads, repeats)))
    for kind in STREAMS:
        turns.append(lambda kind=kind: (f"stream plain {kind}", ours.stream(kind, count, threads, repeats)))
    for name, (step, byte_count) in steps.items():
        turns.append(lambda name=name, step=step, byte_count=byte_count: (
            name, {"bytes": byte_count, "seconds": time_torch(step, repeats)}))
    for turn in turns:  # one round to warm up
        turn()
    for number in range(rounds):
        start = number * 5 % len(turns)
        for turn in turns[start:] + turns[:start]:
            time.sleep(0.02)  # let the other side's threads go to sleep
            name, answer = turn()
            note(name, answer["bytes"], answer["seconds"])
    return found


def summarize(results, threads, statistic):
    """Tables; a contender's time is the median over the rounds, or its best step (for a machine that is not quiet)."""
    pick = {"median": lambda entry: median(entry["seconds"]), "best": lambda entry: min(entry["best"])}[statistic]
    lines = [f"Threads: {threads}. Bandwidth in GB/s (10^9 bytes) and time of one step: {statistic} over the rounds.", ""]
    for count, found in results.items():
        rate = {name: entry["bytes"] / pick(entry) / 1e9 for name, entry in found.items()}
        stream = max(value for name, value in rate.items() if name.startswith("stream"))
        adamw = rate["torch AdamW fused"]
        lines += [f"## {int(count):,} parameters", "",
                  f"Streaming bandwidth: {stream:.1f} GB/s.", "",
                  "| contender | step | GB/s | of streaming | per byte, over torch AdamW fused | over foreach |",
                  "|---|---|---|---|---|---|"]
        for name, entry in found.items():
            seconds = pick(entry)
            foreach = ""
            for rule in ("ucbopt", "ucbopt-adapt"):
                if name.startswith(f"cbopt {rule} ("):
                    other = pick(found[f"torch foreach {rule}"])
                    foreach = f"{other / seconds:.2f}x"
            moved = ""
            if name.endswith("(refuse)"):
                moved = f" ({rate[name] * (1 + 4 * int(count) / entry['bytes']) / adamw:.2f}x)"
            lines.append(f"| {name} | {seconds * 1e3:.3f} ms | {rate[name]:.1f} | {rate[name] / stream:.0%} "
                         f"| {rate[name] / adamw:.2f}x{moved} | {foreach} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=lambda text: [int(float(s)) for s in text.split(",")], default=[10**5, 10**7, 10**8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--statistic", choices=("median", "best"), default="median")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--torch-large-pages", action="store_true", help="let torch ask for large pages, too")
    add_environment_arguments(parser)
    arguments = parser.parse_args()
    if arguments.torch_large_pages:
        os.environ["THP_MEM_ALLOC_ENABLE"] = "1"
    enter_environment(arguments, TORCH)
    import torch

    torch.set_num_threads(arguments.threads)
    check_foreach(torch)
    ours = Ours()
    load_before = os.getloadavg()
    results = {}
    with torch.no_grad():
        for count in arguments.sizes:
            results[str(count)] = measure(torch, ours, count, arguments.threads, arguments.rounds)
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                     platform.processor())
    record = {"torch": torch.__version__, "processor": processor, "threads": arguments.threads,
              "rounds": arguments.rounds, "load_before": load_before, "load_after": os.getloadavg(), "results": results}
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = "results-large-pages" if arguments.torch_large_pages else "results"
    (arguments.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    text = summarize(results, arguments.threads, arguments.statistic)
    head = ("# One optimizer step\n\n"
            f"torch {torch.__version__}, {processor}; load of the machine before the run {load_before[0]:.1f}, "
            f"after it {record['load_after'][0]:.1f}.\n"
            + note_on_load(load_before[0])
            + ("torch asked for large pages (THP_MEM_ALLOC_ENABLE=1).\n" if arguments.torch_large_pages else "") +
            "Made by `compare.py`, which says what is counted.\n\n")
    (arguments.out / f"{name}.md").write_text(head + text)
    print(text)


main()
