#!/usr/bin/env python3
"""Training curves on the processor and on a GPU, in f32 and in TF32: do they differ by more than seeds do?

    python3 benches/curves/compare.py --maxitive PROGRAM --data-dir DATA [--config cifar10-resnet20/ucbopt] [--network densenet121]
        [--epochs 30] [--seeds 3] [--sides cpu cuda-f32 cuda-tf32] [--threads 6] --work FOLDER [--out results.json]

needs no Rust: PROGRAM is a built `maxitive`. Every side trains the same config with the same seeds, hence from the same weights
and in the same order; what differs is the order of sums and, in TF32, the rounding of factors, after which a training goes its own
way. For every epoch and every number of the curves: the means over the seeds, and their difference over the standard error that
the seeds give it. Finished runs in --work are not trained again, so that a side can be added later.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import apart

# device and precision of a side
SIDES = {"cpu": ("cpu", "f32"), "cuda-f32": ("cuda", "f32"), "cuda-tf32": ("cuda", "tf32")}
NUMBERS = ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")


def train(program, config, settings, seeds, threads, data, side, work):
    """The records of a side, one for each seed."""
    device, precision = SIDES[side]
    folder = work / side
    folder.mkdir(parents=True, exist_ok=True)
    sweep = folder / "sweep.toml"
    sweep.write_text(f'name = "curves"\nconfigs = ["{config}"]\n[grid]\nseed = {list(range(seeds))}\n')
    command = [str(program), "sweep", str(sweep), "--out", str(folder / "runs"), "--device", device, "--data-dir", str(data)]
    for setting in [*settings, f"train.precision={precision}"]:
        command += ["--set", setting]
    if device == "cpu":
        # a training has as many threads as are left for it
        command += ["--jobs", str(seeds), "--threads", str(max(threads, seeds))]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{side}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    records = [json.loads(path.read_text()) for path in sorted((folder / "runs").glob("*/record.json"))]
    if len(records) != seeds:
        sys.exit(f"{side}: {len(records)} records in {folder / 'runs'}, expected {seeds}")
    for record in records:
        found = record["device"].split(":")[0], record["precision"]
        if found != (device, precision):
            sys.exit(f"{side}: a record says {found[0]} and {found[1]}")
    return records


def curve(records, number):
    """One number of all seeds, epoch after epoch."""
    return [[record["curves"][epoch][number] for record in records] for epoch in range(len(records[0]["curves"]))]


def distance(a, b):
    """The difference of two means over its standard error."""
    said = apart(a, b)
    return said["difference"] / said["standard_error"] if said["difference"] else 0.0


def compare(one, other):
    """What is said of two sides: for every number all epochs' distances in standard errors, and the last epoch's means."""
    said = {}
    for number in NUMBERS:
        pairs = list(zip(curve(one, number), curve(other, number)))
        distances = [distance(a, b) for a, b in pairs]
        a, b = pairs[-1]
        said[number] = {
            "last": [statistics.mean(a), statistics.mean(b)],
            "last_deviation": [statistics.stdev(a), statistics.stdev(b)],
            "last_standard_errors": distances[-1],
            "epochs_within_two": sum(abs(d) <= 2 for d in distances),
            "epochs": len(distances),
            "mean_standard_errors": statistics.mean(distances),
            "standard_errors": distances,
        }
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maxitive", type=Path, required=True, help="the built program")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--config", default="cifar10-resnet20/ucbopt", help="name of a built-in config")
    parser.add_argument("--network", help="another network than the config's")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--threads", type=int, default=6, help="of the processor, for all its trainings together")
    parser.add_argument("--work", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--out", type=Path, help="JSON file for all distances and curves")
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds is at least 2: a deviation is asked for")

    settings = [f"train.epochs={arguments.epochs}", "data.out_of_domain=[]"]
    if arguments.network:
        settings.append(f"network.name={arguments.network}")
    records = {
        side: train(arguments.maxitive.resolve(), arguments.config, settings, arguments.seeds, arguments.threads,
                    arguments.data_dir.resolve(), side, arguments.work)
        for side in arguments.sides
    }
    comparisons = {}
    sides = list(records)
    for i, one in enumerate(sides):
        for other in sides[i + 1:]:
            comparisons[f"{one} / {other}"] = said = compare(records[one], records[other])
            print(f"{one} beside {other}, {arguments.seeds} seeds, {arguments.epochs} epochs")
            print(f"{'':20} {'last epoch':>24} {'SE':>6} {'within 2 SE':>12} {'mean SE':>8}")
            for number, s in said.items():
                print(f"{number:20} {s['last'][0]:11.4f} {s['last'][1]:12.4f} {s['last_standard_errors']:6.2f} "
                      f"{s['epochs_within_two']:6} of {s['epochs']:<3} {s['mean_standard_errors']:7.2f}")
    if arguments.out:
        first = next(iter(records.values()))[0]
        kept = {
            "config": arguments.config,
            "network": first["network"],
            "dataset": first["dataset"],
            "seeds": arguments.seeds,
            "epochs": arguments.epochs,
            "hardware": {side: r[0]["hardware"] for side, r in records.items()},
            "code": first["code"],
            "comparisons": comparisons,
            "curves": {side: {number: curve(r, number) for number in NUMBERS} for side, r in records.items()},
        }
        arguments.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
