#!/usr/bin/env python3
"""LeNet on Fashion-MNIST: UCBOpt in PyTorch beside `maxitive train` with the same settings.

    python3 benches/python/lenet.py DATA [--epochs 10] [--seeds 3] [--threads 1] [--program maxitive]

DATA holds the folder fashion-mnist with its four files. Needs PyTorch and the package maxitive.
Both sides train on the first 54,000 images with the paper's settings (batch 128, warm-up of 5
epochs, cosine; starts and orders are drawn by each on its own) and evaluate the last weights on the
10,000 test images. Prints the metrics of every run, and for each metric the difference of the means
over the deviation that the seeds would give it.
"""
import argparse
import gzip
import json
import math
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

METRICS = ["accuracy", "nll", "ece", "brier", "auroc"]
# the paper's settings, as in configs/fashion-mnist-lenet/ucbopt.toml
HYPER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99999, "weight_decay": 2e-3, "hess_init": 0.05, "vartheta": 8e-6}
BATCH, WARMUP, TRAINED = 128, 5, 54_000
MEAN, DEVIATION = 0.2860, 0.3530


def rate(epoch, epochs):
    if epoch < WARMUP:
        return 1 / WARMUP + (1 - 1 / WARMUP) * epoch / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (epoch - WARMUP) / max(epochs - WARMUP, 1)))


def read(data, part):
    import numpy as np
    import torch

    def idx(kind, header):
        raw = gzip.open(data / "fashion-mnist" / f"{part}-{kind}-ubyte.gz").read()
        return np.frombuffer(raw, np.uint8, offset=header)

    images = torch.tensor(idx("images-idx3", 16).reshape(-1, 1, 28, 28).astype("float32") / 255)
    return (images - MEAN) / DEVIATION, torch.tensor(idx("labels-idx1", 8).astype("int64"))


def in_torch(data, epochs, seed):
    import torch
    from torch import nn

    import maxitive
    from maxitive.torch import UCBOpt

    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )
    images, labels = (part[:TRAINED] for part in read(data, "train"))
    optimizer = UCBOpt(model.parameters(), **HYPER)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: rate(epoch, epochs))
    for _ in range(epochs):
        for some in torch.randperm(TRAINED).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
        schedule.step()
    images, labels = read(data, "t10k")
    with torch.no_grad():
        probs = torch.cat([model(some).double().softmax(1) for some in images.split(1000)])
    return maxitive.evaluate(probs.numpy(), labels.numpy()).in_domain


def in_rust(program, data, epochs, seed, threads):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        subprocess.run(
            [program, "train", "fashion-mnist-lenet/ucbopt", "--out", out, "--data-dir", data, "--threads", str(threads), "--device", "cpu",
             "--set", f"train.epochs={epochs}", "--set", f"seed={seed}", "--set", "data.out_of_domain=[]"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        record = json.loads((out / "record.json").read_text())
    last = next(one for one in record["evaluations"] if one["checkpoint"] == "final")
    return last["in_domain"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--program", default="maxitive")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    sides = {"PyTorch": [], "maxitive train": []}
    for seed in range(arguments.seeds):
        for side, found in sides.items():
            start = time.perf_counter()
            if side == "PyTorch":
                metrics = in_torch(arguments.data, arguments.epochs, seed)
            else:
                metrics = in_rust(arguments.program, arguments.data, arguments.epochs, seed, arguments.threads)
            found.append(metrics)
            shown = "  ".join(f"{name} {metrics[name]:.4f}" for name in METRICS)
            print(f"{side:14} seed {seed}  {shown}  ({time.perf_counter() - start:.0f} s)", flush=True)
    if arguments.seeds < 2:
        return
    for name in METRICS:
        ours, theirs = ([one[name] for one in found] for found in sides.values())
        gap = statistics.mean(ours) - statistics.mean(theirs)
        noise = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / arguments.seeds)
        print(f"{name:9} {statistics.mean(ours):.4f} ± {statistics.stdev(ours):.4f} in PyTorch, "
              f"{statistics.mean(theirs):.4f} ± {statistics.stdev(theirs):.4f} in maxitive train: "
              f"difference {gap:+.4f}, {abs(gap) / noise:.1f} deviations")


if __name__ == "__main__":
    main()
