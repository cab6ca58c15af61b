#!/usr/bin/env python3
"""The Python package on the CPU, in turn with what it stands beside.

    python3 benches/python/cpu.py [--threads 2] [--rounds 9] [--programs FOLDER]

Needs PyTorch, scikit-learn and the package maxitive. One optimizer step of 1e7 parameters: maxitive.torch,
the Rust kernel from its own driver (bench-optimizer-step, which is built unless a folder has it), and the
foreach form. Then maxitive.evaluate on 1e6 x 10 probabilities beside scikit-learn (numpy where that has
none), and how much memory the call takes beyond the arrays.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import driver, enter_environment, scikit_learn_metrics

COUNT = 10**7
REPEATS = 10


def processor_seconds(process):
    """Seconds that the threads of a process have computed: on a busy machine they say more."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) * 1e-9


def steps(threads, rounds):
    import torch

    from maxitive.torch import LCBOptAdapt, UCBOpt, UCBOptAdapt

    torch.set_num_threads(threads)
    program = subprocess.Popen([str(driver("optimizer-step"))], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)

    def kernel(rule):
        before = processor_seconds(program.pid)
        program.stdin.write(f"step {rule} refuse {COUNT} {threads} {REPEATS}\n")
        program.stdin.flush()
        times = json.loads(program.stdout.readline())["seconds"]
        return min(times), (processor_seconds(program.pid) - before) / REPEATS

    def ours(optimizer):
        times = []
        before = processor_seconds(os.getpid())
        for _ in range(REPEATS):
            start = time.perf_counter()
            optimizer.step()
            times.append(time.perf_counter() - start)
        return min(times), (processor_seconds(os.getpid()) - before) / REPEATS

    for make in [UCBOpt, UCBOptAdapt, LCBOptAdapt]:
        sides = {}
        for foreach in [None, True]:
            p = torch.nn.Parameter(torch.randn(COUNT))
            p.grad = torch.randn(COUNT)
            sides[foreach] = make([p], lr=1e-4, foreach=foreach)
        # the first round is not counted
        rows = [(kernel(make._id), ours(sides[None]), ours(sides[True])) for _ in range(rounds + 1)][1:]
        rust, fused, foreach = (min(row[side][0] for row in rows) for side in range(3))
        busy = [statistics.median(row[side][1] for row in rows) for side in range(3)]
        print(f"{make.__name__:12} kernel {1e3 * rust:.2f} ms, maxitive.torch {1e3 * fused:.2f} ms "
              f"({rust / fused:.2f} of its throughput), foreach {1e3 * foreach:.2f} ms "
              f"({foreach / fused:.1f} times); processor time, median {1e3 * busy[0]:.1f}, "
              f"{1e3 * busy[1]:.1f} ({busy[0] / busy[1]:.2f}), {1e3 * busy[2]:.1f} ms "
              f"({busy[2] / busy[1]:.1f} times)")
    program.stdin.close()
    program.wait()


def status(key):
    """A number of kilobytes that Linux knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1])


def evaluate(rounds):
    import numpy as np
    import sklearn.metrics  # noqa: F401, so that no round waits for it

    import maxitive

    rng = np.random.default_rng(0)
    # far from zero, where scikit-learn's log loss cuts off
    probs = rng.random((1_000_000, 10)) ** 2 + 1e-3
    probs /= probs.sum(1, keepdims=True)
    labels = rng.integers(0, 10, 1_000_000)

    def theirs():
        return scikit_learn_metrics(probs, labels, 20)

    maxitive.evaluate(probs[:1000], labels[:1000])
    # the peak so far is that of making the arrays: it is forgotten
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    found = maxitive.evaluate(probs, labels).in_domain
    added = status("VmHWM") - before
    best = [float("inf")] * 2
    for _ in range(rounds):
        for side, call in enumerate([lambda: maxitive.evaluate(probs, labels), theirs]):
            start = time.perf_counter()
            answer = call()
            best[side] = min(best[side], time.perf_counter() - start)
    worst = max(abs(found[key] - value) for key, value in answer.items())
    print(f"evaluate 1e6 x 10: maxitive {1e3 * best[0]:.1f} ms, scikit-learn {1e3 * best[1]:.0f} ms "
          f"({best[1] / best[0]:.1f} times), largest difference {worst:.1e}; "
          f"{added / 1024:.0f} MiB beyond the arrays of {probs.nbytes / 2**20:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--programs", type=Path, help="folder with built programs")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    # the package is where this Python is: no other environment is entered
    os.environ["MAXITIVE_BENCH_ENVIRONMENT"] = "1"
    enter_environment(arguments, [])
    evaluate(arguments.rounds)
    steps(arguments.threads, arguments.rounds)


if __name__ == "__main__":
    main()
