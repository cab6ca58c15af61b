#!/usr/bin/env python3
"""Two versions of this project beside each other: the same work, in turn, best of several rounds.

    python3 benches/versions.py OLD NEW [--rounds N] [--only TEXT] [--json FILE]

OLD and NEW are folders with the programs of `cargo build --release -p maxitive-benches`
(`bench-engine`, `bench-optimizer-step`, `bench-metrics`, `bench-logistic`). Needs NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy

THREADS = 2
RULES = ["ucbopt", "ucbopt-adapt", "lcbopt-adapt", "sgd", "adamw", "ivon"]


class Asked:
    """A program that answers a line with a line of JSON."""

    def __init__(self, *command):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([str(word) for word in command], **pipes)

    def ask(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        # said once, when the data are read
        if answer.strip() == "ready":
            answer = self.process.stdout.readline()
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def seconds_in(answer):
    """The least time in an answer, in seconds."""
    for key, scale in [("seconds", 1.0), ("ms_best", 1e-3)]:
        if key in answer:
            times = answer[key]
            return scale * (min(times) if isinstance(times, list) else times)
    raise KeyError(f"no time in {answer}")


def engine(folder, net, mode, repeats):
    """One run of the engine's driver."""
    words = [os.path.join(folder, "bench-engine"), net, 128, THREADS, "best", mode, repeats]
    run = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True)
    return seconds_in(json.loads(run.stdout))


def works(scratch):
    """Name and, per folder, a function that gives the seconds of one round."""
    for net, mode, repeats in [
        ("lenet", "train", 400), ("resnet20", "train", 12), ("densenet121", "train", 3),
        ("lenet", "predict", 12), ("resnet20", "predict", 2), ("lenet", "samples", 1),
    ]:
        yield (f"engine: {net} {mode}",
               lambda folder, a=(net, mode, repeats): lambda: engine(folder, *a))
    for count in [10**5, 10**7]:
        for rule in RULES:
            repeats = 300 if count == 10**5 else 20
            request = f"step {rule} refuse {count} {THREADS} {repeats}"

            def start(folder, request=request):
                program = Asked(os.path.join(folder, "bench-optimizer-step"))
                return lambda: seconds_in(program.ask(request))

            yield f"rule: {rule}, {count:.0e} parameters", start
    random = numpy.random.default_rng(0)
    ins, outs = os.path.join(scratch, "ins"), os.path.join(scratch, "outs")
    random.normal(1.0, 1.0, 500_000).tofile(ins)
    random.normal(0.0, 1.0, 500_000).tofile(outs)

    def start_ood(folder):
        program = Asked(os.path.join(folder, "bench-metrics"), "ood", ins, outs)
        return lambda: seconds_in(program.ask())

    yield "metrics: out-of-domain, 1e6 scores", start_ood
    probabilities, labels = os.path.join(scratch, "p"), os.path.join(scratch, "y")
    rows = random.random((1_000_000, 10))
    (rows / rows.sum(1, keepdims=True)).tofile(probabilities)
    random.integers(0, 10, 1_000_000).astype(numpy.int64).tofile(labels)

    def start_in(folder):
        program = Asked(os.path.join(folder, "bench-metrics"), "in-domain", probabilities, labels, 10)
        return lambda: seconds_in(program.ask())

    yield "metrics: in-domain, 1e6 rows", start_in
    table = os.path.join(scratch, "design")
    x = random.normal(size=(1_000_000, 20))
    y = random.random(1_000_000) < 1 / (1 + numpy.exp(-x @ random.normal(size=20)))
    with open(table, "wb") as file:
        file.write(x.tobytes() + y.astype(numpy.uint8).tobytes())

    def start_logistic(folder):
        program = Asked(os.path.join(folder, "bench-logistic"), table, 1_000_000, 20, 1.0, THREADS)
        return lambda: seconds_in(program.ask())

    yield "logistic regression, 1e6 x 20", start_logistic


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    asked = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, start in works(scratch):
            if asked.only not in name:
                continue
            sides = [start(asked.old), start(asked.new)]
            times = [[], []]
            for number in range(asked.rounds + 1):
                for side in ([0, 1] if number % 2 == 0 else [1, 0]):
                    time = sides[side]()
                    # the first round warms up
                    if number:
                        times[side].append(time)
            old, new = min(times[0]), min(times[1])
            results.append({"work": name, "old_s": old, "new_s": new, "ratio": new / old})
            print(f"{name:40} {1e3 * old:10.3f} ms {1e3 * new:10.3f} ms  {new / old:.3f}", flush=True)
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
