#!/usr/bin/env python3
"""Training on a GPU: the engine beside PyTorch, on the same card in the same minutes.

    python3 benches/gpu/compare.py --maxitive PROGRAM [--only resnet20] [--rounds 3] [--seconds 2] [--within 540] [--out results.json]

needs no Rust: PROGRAM is a built `maxitive`, and PyTorch (2.11 was in mind) comes from the Python that runs this. Three networks
in f32 and in TF32, batch 128, AdamW: the engine with one run and with thirty in one launch, PyTorch eager, as a CUDA graph, and
compiled and as a graph in either memory layout. All sides of a network take turns, round after round. Besides: the mean of 64
weight samples of ResNet-20 on 10,000 images, and the time of the whole command that takes the first steps of LeNet.

Nothing is begun that would end after --within seconds, by what it took before; what was measured is written then, too, and says
what is missing. What the file of --out has and this run does not measure is kept, and every side has its date, so that parts can be measured
one after another.
Times over floor: the floor is the larger of the operations at the card's peak and the least memory traffic at its bandwidth.
Bytes and operations per kernel are measured by crates/engine/kernels/measure.py.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from torch_networks import networks

BATCH = 128
MANY = 30
SAMPLES = 64
IMAGES = 10_000
NETS = ("lenet", "resnet20", "densenet121")
PRECISIONS = ("f32", "tf32")
# least bytes of a step with FRN inside its neighbors; LeNet stays on the chip
TRAFFIC = {"lenet": 0.0, "resnet20": 0.52e9, "densenet121": 3.9e9}
# aims in ms for one run and for thirty together
AIMS = {("lenet", "f32"): (0.05, 0.4), ("resnet20", "f32"): (1.0, 25), ("resnet20", "tf32"): (0.6, 11),
        ("densenet121", "f32"): (4.5, 90), ("densenet121", "tf32"): (3, 45)}
ONE, ALL = "ours, 1 run", f"ours, {MANY} runs"
MODES = ("eager", "graph", "compiled, contiguous", "compiled, channels last")


class Failed(Exception):
    """What could not be measured, in one line."""


class Clock:
    """What is left of the time that was given, and how long things took."""

    def __init__(self, within, now=time.monotonic):
        self.now, self.begin, self.within, self.took = now, now(), within, {}

    def left(self):
        return self.within - (self.now() - self.begin)

    def run(self, what, expected, work):
        """Does the work if it would end in time: by what it took at most before, else by what is expected."""
        if max(self.took.get(what, 0.0), expected) > self.left():
            raise Failed(f"not begun: {self.left():.0f} s were left")
        start = self.now()
        try:
            return work()
        finally:
            self.took[what] = max(self.took.get(what, 0.0), self.now() - start)


class Ours:
    """The program, a fresh process each time."""

    def __init__(self, program, seconds, arguments):
        self.command = [str(program), "bench", "--device", "cuda", "--json", "--seconds", str(seconds), *arguments]
        self.expected = 2 * seconds + 5

    def record(self):
        try:
            done = subprocess.run(self.command, capture_output=True, text=True, timeout=600)
        except OSError as error:
            raise Failed(f"{self.command[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.command[0]}: no end after 600 s") from error
        if done.returncode:
            raise Failed(last_line(done.stderr) or f"{self.command[0]} ended with {done.returncode}")
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise Failed(f"{self.command[0]} printed no JSON: {done.stdout[:80]!r}") from error


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def training(program, seconds, net, precision, runs):
    """Milliseconds of a step of all runs."""
    side = Ours(program, seconds, ["--net", net, "--precision", precision, "--runs", str(runs), "--rule", "adamw", "--batch", str(BATCH)])

    def times():
        record = side.record()
        # operations of one run's step, for the floor
        side.operations = record["gflops"] * 1e9 * record["ms_best"] * 1e-3 / runs
        side.device_mb = record.get("device_mb")
        return [record["ms_best"], record["ms_median"]]

    side.times = times
    return side


def prediction(program, seconds):
    """Milliseconds of the mean over many samples."""
    side = Ours(program, seconds, ["--net", "resnet20", "--precision", "tf32", "--predict", str(SAMPLES)])

    def times():
        record = side.record()
        return [1e3 * record["s_best"], 1e3 * record["s_median"]]

    side.times = times
    return side


def start(program):
    """Milliseconds of the whole command that takes the first steps."""
    side = Ours(program, 0.001, ["--net", "lenet"])

    def times():
        begin = time.perf_counter()
        side.record()
        return [1e3 * (time.perf_counter() - begin)]

    side.times = times
    return side


def set_precision(torch, precision):
    word = "tf32" if precision == "tf32" else "ieee"
    torch.backends.cudnn.conv.fp32_precision = word
    torch.backends.cuda.matmul.fp32_precision = word
    torch.backends.cudnn.benchmark = True


class Torch:
    """One way of training one network in PyTorch."""

    expected = 10

    def __init__(self, torch, seconds, net, precision, mode):
        self.torch, self.seconds = torch, seconds
        set_precision(torch, precision)
        make, shape, classes, _ = networks()[net]
        torch.manual_seed(0)
        model = make().cuda()
        x = torch.randn(BATCH, *shape, device="cuda")
        labels = torch.arange(BATCH, device="cuda") % classes
        if mode.endswith("channels last"):
            model = model.to(memory_format=torch.channels_last)
            x = x.to(memory_format=torch.channels_last)
        rule = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True, capturable=True)
        call = model
        if mode.startswith("compiled"):
            torch._dynamo.reset()
            call = torch.compile(model)

        def step():
            rule.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(call(x), labels).backward()
            rule.step()

        self.work = step if mode == "eager" else captured(torch, step)
        self.work()
        torch.cuda.synchronize()

    def times(self):
        """Means of ten steps, for as long as was asked for."""
        torch, out = self.torch, []
        begin = time.perf_counter()
        while len(out) < 3 or time.perf_counter() - begin < self.seconds:
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            for _ in range(10):
                self.work()
            last.record()
            torch.cuda.synchronize()
            out.append(first.elapsed_time(last) / 10)
        return out


def captured(torch, step):
    """The work as a graph that is replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(kept=step):  # a graph does not hold what lies outside its pool
        graph.replay()

    return replay


class TorchPredict:
    """The mean of the probabilities of 10,000 images over many sets of weights: a graph of one batch, replayed."""

    expected = 10

    def __init__(self, torch, seconds):
        self.torch, self.seconds = torch, seconds
        set_precision(torch, "tf32")
        make, shape, classes, _ = networks()["resnet20"]
        model = make().cuda().eval()
        self.images = torch.randn(IMAGES, *shape, device="cuda").split(1000)
        self.sums = torch.zeros(IMAGES, classes, device="cuda").split(1000)
        self.weights = list(model.parameters())
        self.samples = [[w + 0.01 * torch.randn_like(w) for w in self.weights] for _ in range(SAMPLES)]
        self.x, self.out = self.images[0].clone(), None
        torch._dynamo.reset()
        call = torch.compile(model)

        def forward():
            with torch.inference_mode():
                self.out = call(self.x).softmax(1)

        self.forward = captured(torch, forward)

    def times(self):
        torch, out = self.torch, []
        begin = time.perf_counter()
        while len(out) < 3 or time.perf_counter() - begin < self.seconds:
            torch.cuda.synchronize()
            at = time.perf_counter()
            with torch.inference_mode():
                for sample in self.samples:
                    torch._foreach_copy_(self.weights, sample)
                    for x, sums in zip(self.images, self.sums):
                        self.x.copy_(x)
                        self.forward()
                        sums.add_(self.out)
            torch.cuda.synchronize()
            out.append(1e3 * (time.perf_counter() - at))
        return out


def measure(sides, rounds, clock):
    """Times of all sides in turn, and why a side has none; what failed once is not tried again."""
    made, times, missing = {}, {who: [] for who in sides}, {}
    for number in range(rounds):
        for who, make in sides.items():
            if who in missing:
                continue
            try:
                if who not in made:
                    # compiling takes minutes
                    made[who] = clock.run(f"{who}: made", 60 if "compiled" in who else 5, make)
                times[who] += clock.run(who, made[who].expected, made[who].times)
            except Failed as error:
                missing[who] = str(error)
            except Exception as error:  # PyTorch's errors are of many kinds
                missing[who] = f"{type(error).__name__}: {last_line(str(error))}"[:300]
        print(f"  round {number + 1} of {rounds}, {clock.left():.0f} s left", file=sys.stderr)
    # a side that was only stopped by the clock has its times
    return made, times, missing


def floor_ms(net, precision, operations, card):
    """The larger of operations and traffic of one run's step."""
    compute = operations / (card[precision] * 1e12)
    return 1e3 * max(compute, TRAFFIC[net] / (card["bandwidth"] * 1e12))


def summary(net, precision, made, times, missing, card):
    """What is said about one network in one precision."""
    sides = {who: {"ms_best": min(values), "ms_median": statistics.median(values), "measurements": len(values)}
             for who, values in times.items() if values}
    aims = AIMS.get((net, precision), (None, None))
    for who, runs, aim in ((ONE, 1, aims[0]), (ALL, MANY, aims[1])):
        if who not in sides:
            continue
        side, floor = sides[who], runs * floor_ms(net, precision, made[who].operations, card)
        side |= {"floor_ms": floor, "over_floor": side["ms_best"] / floor, "device_mb": made[who].device_mb}
        if aim is not None:
            side |= {"aim_ms": aim, "met": side["ms_best"] <= aim}
    return compared({"sides": sides, "missing": missing})


def compared(entry):
    """The same with PyTorch's best mode, and its time over ours: it trains its runs one after another."""
    torch = {who: side["ms_best"] for who, side in entry["sides"].items() if who in MODES}
    if torch:
        best = min(torch, key=torch.get)
        entry["torch_best"] = {"mode": best, "ms": torch[best]}
        for who, runs in ((ONE, 1), (ALL, MANY)):
            if who in entry["sides"]:
                entry["sides"][who]["torch_over_ours"] = runs * torch[best] / entry["sides"][who]["ms_best"]
    return entry


def show(name, entry):
    print(f"{name}:")
    for who, side in entry["sides"].items():
        line = f"  {who:26}{side['ms_best']:10.4f} ms best {side['ms_median']:10.4f} median"
        if "over_floor" in side:
            line += f", {side['over_floor']:.1f} of floor {side['floor_ms']:.4f}"
        if "torch_over_ours" in side:
            line += f", PyTorch {side['torch_over_ours']:.2f} times as long"
        if "met" in side:
            line += f", aim {side['aim_ms']} {'met' if side['met'] else 'missed'}"
        print(line)
    for who, why in entry["missing"].items():
        print(f"  {who:26}missing: {why}")


def load_torch():
    """PyTorch with a GPU, or a reason in one line."""
    try:
        import torch
    except ImportError:
        raise SystemExit("compare.py: this Python has no torch; --without-torch measures our side alone") from None
    if not torch.cuda.is_available():
        raise SystemExit("compare.py: PyTorch finds no GPU on this machine; the comparison needs one")
    return torch


def check_ours(program):
    """Ends with the program's own words where it finds no GPU."""
    try:
        Ours(program, 0.001, ["--net", "lenet"]).record()
    except Failed as error:
        raise SystemExit(f"compare.py: our side does not run: {error}") from None


def write(out, record):
    """The record, with what an older one has that this run did not measure: other work, and other sides of the same."""
    if out is None:
        return
    try:
        old = json.loads(out.read_text())
    except FileNotFoundError:
        old = {"work": {}}
    kept = old["work"] | record["work"]
    for work, entry in kept.items():
        # each side says when it was measured, since the record's date is that of its last run
        before = {who: {"date": old["date"]} | side for who, side in old["work"].get(work, {"sides": {}})["sides"].items()}
        now = {who: side | {"date": record["date"]} for who, side in record["work"].get(work, {"sides": {}})["sides"].items()}
        if before or now:
            sides = before | now
            kept[work] = compared({"sides": sides, "missing": {who: why for who, why in entry["missing"].items() if who not in sides}})
    unasked = {key: old[key] for key in ("card", "torch") if record["torch"] is None and key in old}
    record = record | unasked | {"work": kept}
    partial = out.with_name(out.name + ".part")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.replace(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maxitive", type=Path, required=True, help="the built program")
    parser.add_argument("--only", default="", help="only work whose name contains this: 'resnet20', 'lenet f32', 'samples', 'start'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement")
    parser.add_argument("--within", type=float, default=540.0, help="seconds for everything")
    parser.add_argument("--without-torch", action="store_true", help="our side alone")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes minutes")
    parser.add_argument("--f32-tflops", type=float, default=67.0, help="the card's peak without TF32")
    parser.add_argument("--tf32-tflops", type=float, default=402.0)
    parser.add_argument("--bandwidth", type=float, default=4.3, help="TB/s of the card's memory")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    clock = Clock(args.within)
    torch = None if args.without_torch else load_torch()
    check_ours(args.maxitive)
    card = {"f32": args.f32_tflops, "tf32": args.tf32_tflops, "bandwidth": args.bandwidth}
    version = subprocess.run([str(args.maxitive), "--version"], capture_output=True, text=True).stdout.strip()
    name = torch.cuda.get_device_name() if torch else "not asked: without torch"
    record = {"date": datetime.date.today().isoformat(), "maxitive": version, "card": name, "peaks": card,
              "torch": torch.__version__ if torch else None, "batch": BATCH, "rounds": args.rounds, "seconds": args.seconds, "work": {}}
    modes = [mode for mode in MODES if not (args.no_compile and "compiled" in mode)]
    for net in NETS:
        for precision in PRECISIONS:
            work = f"{net} {precision}"
            if args.only not in work:
                continue
            sides = {who: lambda runs=runs: training(args.maxitive, args.seconds, net, precision, runs) for who, runs in ((ONE, 1), (ALL, MANY))}
            if torch:
                sides |= {mode: lambda mode=mode: Torch(torch, args.seconds, net, precision, mode) for mode in modes}
            made, times, missing = measure(sides, args.rounds, clock)
            record["work"][work] = summary(net, precision, made, times, missing, card)
            del made
            if torch:
                torch.cuda.empty_cache()
            show(work, record["work"][work])
            write(args.out, record)
    others = {f"resnet20 tf32, {SAMPLES} samples": (1000, {"ours": lambda: prediction(args.maxitive, args.seconds)}),
              "start": (2000, {"ours": lambda: start(args.maxitive)})}
    if torch and not args.no_compile:
        others[f"resnet20 tf32, {SAMPLES} samples"][1]["compiled"] = lambda: TorchPredict(torch, args.seconds)
    for work, (aim, sides) in others.items():
        if args.only not in work:
            continue
        _, times, missing = measure(sides, args.rounds, clock)
        found = {who: {"ms_best": min(values), "ms_median": statistics.median(values), "measurements": len(values)}
                 for who, values in times.items() if values}
        if "ours" in found:
            found["ours"] |= {"aim_ms": aim, "met": found["ours"]["ms_best"] <= aim}
        record["work"][work] = {"sides": found, "missing": missing}
        show(work, record["work"][work])
        write(args.out, record)
    incomplete = [work for work, entry in record["work"].items() if entry["missing"]]
    if not record["work"]:
        raise SystemExit(f"compare.py: no work has {args.only!r} in its name")
    if incomplete:
        print(f"incomplete: {', '.join(incomplete)}", file=sys.stderr)
        raise SystemExit(3)


if __name__ == "__main__":
    main()
