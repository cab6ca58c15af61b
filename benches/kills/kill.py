#!/usr/bin/env python3
"""Kills trainings at random moments, resumes them, and compares what they end with.

A training is done once without being disturbed. Then it is done again and again; each time it is
ended at random moments by SIGKILL, SIGTERM, SIGINT or SIGHUP and gone on with by `maxitive resume`.
What it leaves in the end, weights, states, curves and metrics, must have the same bits.

    cargo build --release -p maxitive
    python3 benches/kills/kill.py --kills 200
    python3 benches/kills/kill.py --kills 50 --device cuda --set train.epochs=100

Exit status 1 where a bit differs or a program fails by itself.
"""

import argparse
import hashlib
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SIGNALS = {name: getattr(signal, "SIG" + name) for name in ["KILL", "TERM", "INT", "HUP"]}
# what may differ: when and where it was computed, and how often it was interrupted
PASSING = {"timings", "hardware", "code", "seconds", "stretches", "name", "sha256"}

EMBEDDED = ['data.dataset="fashion-mnist-mini"', 'data.out_of_domain=["letters"]', "train.epochs=20"]


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if key not in PASSING}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def tensors(path):
    """The numbers of a safetensors file; its header may name times."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):]


def digest(folder):
    """What a run ended with, a digest a file."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        if not path.name.startswith("checkpoint"):
            found[path.name] = hashlib.sha256(tensors(path)).hexdigest()
    record = without_times(json.loads((folder / "record.json").read_text()))
    found["record.json"] = hashlib.sha256(json.dumps(record).encode()).hexdigest()
    return found


class Kills:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.done = dict.fromkeys(options.signals, 0)
        self.failures = []

    def start(self, folder):
        """Begins or goes on with the run of a folder."""
        o = self.options
        common = ["--device", o.device, "--quiet", "--checkpoint-seconds", "0"]
        if o.data_dir:
            common += ["--data-dir", o.data_dir]
        if (folder / "config.toml").exists():
            command = [o.program, "resume", str(folder), *common]
        else:
            sets = [part for value in o.set for part in ("--set", value)]
            command = [o.program, "train", o.config, "--out", str(folder), *sets, *common]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True)

    def disturbed(self, folder, kills, seconds):
        """A training with at most so many interruptions; true if it ended."""
        for _ in range(kills):
            name = self.random.choice(self.options.signals)
            process = self.start(folder)
            try:
                process.wait(self.random.uniform(0.0, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(SIGNALS[name])
                self.done[name] += 1
                process.communicate()
            if process.returncode == 0:
                return True
            if process.returncode not in (-SIGNALS[name], 128 + SIGNALS[name]):
                self.failures.append(f"exit {process.returncode}: {process.stderr}")
                return False
        process = self.start(folder)
        said = process.communicate()[1]
        if process.returncode != 0:
            self.failures.append(f"exit {process.returncode}: {said}")
        return process.returncode == 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="target/release/maxitive")
    parser.add_argument("--config", default="fashion-mnist-lenet/ivon")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE",
                        help="by default 20 epochs on the embedded pictures")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--together", type=int, default=10, help="kills of one training")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.set = EMBEDDED if options.set is None else options.set
    return options


def main():
    options = arguments()
    kills = Kills(options)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="maxitive-kills-"))
    began = time.monotonic()
    if not kills.disturbed(folder / "whole", 0, 0.0):
        sys.exit(f"the undisturbed training failed: {kills.failures}")
    seconds = time.monotonic() - began
    want, trainings, different = digest(folder / "whole"), 0, []
    while sum(kills.done.values()) < options.kills and not kills.failures:
        run = folder / f"run-{trainings}"
        left = options.kills - sum(kills.done.values())
        if kills.disturbed(run, min(left, options.together), 0.6 * seconds):
            got = digest(run)
            different += [f"{run.name}/{name}" for name in want if got.get(name) != want[name]]
        trainings += 1
        shutil.rmtree(run)
    shutil.rmtree(folder)
    report = {"config": options.config, "device": options.device, "trainings": trainings,
              "seconds_undisturbed": round(seconds, 2), "kills": kills.done,
              "files_compared": len(want), "different": different, "failures": kills.failures}
    print(json.dumps(report, indent=2))
    sys.exit(1 if different or kills.failures else 0)


if __name__ == "__main__":
    main()
