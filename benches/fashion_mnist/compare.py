#!/usr/bin/env python3
"""LeNet on Fashion-MNIST: the engine's validation loss beside PyTorch's.

    python3 benches/fashion_mnist/compare.py FOLDER [--seeds 8] [--epochs 3] [--threads 2] [--venv FOLDER] [--out FILE]

FOLDER holds the official train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz. The script makes a virtual environment (or uses the
one given) and builds the Rust side. The last 6,000 training images are held out; LeNet is trained on the other 54,000 with SGD
(momentum 0.9, constant rate, batch 128). For every seed both sides start from the same parameters, PyTorch's defaults, and see
the same batches in the same order, so that they differ by rounding alone; rounding grows, because training is chaotic, and
seeds say by how much runs differ anyway. Prints a table and writes results.json beside this file.
"""
import argparse
import gzip
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import TORCH, add_environment_arguments, apart, driver, enter_environment

HERE = Path(__file__).resolve().parent
TRAIN, HELD_OUT, BATCH, RATE, MOMENTUM = 54_000, 6_000, 128, 0.03, 0.9
MEAN, DEVIATION = 0.2860, 0.3530


def lenet(torch, seed):
    nn = torch.nn
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def train_torch(torch, model, images, labels, order, held_out):
    """The same work as the driver."""
    rule = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    entropy = torch.nn.functional.cross_entropy
    begin, losses = time.perf_counter(), []
    for epoch in order:
        total = 0.0
        for positions in epoch.split(BATCH):
            rule.zero_grad()
            loss = entropy(model(images[positions]), labels[positions])
            loss.backward()
            rule.step()
            total += loss.item() * len(positions)
        losses.append(total / len(epoch))
    seconds = time.perf_counter() - begin
    with torch.inference_mode():
        logits = model(images[held_out])
        loss = entropy(logits.double(), labels[held_out]).item()
        accuracy = (logits.argmax(1) == labels[held_out]).double().mean().item()
    return {"train_loss": losses, "loss": loss, "accuracy": accuracy, "seconds": round(seconds, 3)}


def compare(sides):
    """Means, spreads, their difference in standard errors, and the difference of pairs."""
    ours, torch = ([run["loss"] for run in sides[who]] for who in ("ours", "torch"))
    pairs = [a - b for a, b in zip(ours, torch)]
    return {**apart(ours, torch),
            "largest_pair_difference": max(map(abs, pairs)),
            "first_epoch_largest_pair_difference": max(
                abs(a["train_loss"][0] - b["train_loss"][0]) for a, b in zip(sides["ours"], sides["torch"]))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the official files")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    add_environment_arguments(parser)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    args = parser.parse_args()
    if args.seeds < 2:
        parser.error("at least two seeds are needed to tell noise from difference")
    enter_environment(args, TORCH)
    import numpy as np
    import torch

    torch.set_num_threads(args.threads)
    binary = driver("fashion-mnist")
    raw = {part: gzip.decompress((args.data / f"train-{part}-idx{n}-ubyte.gz").read_bytes())
           for part, n in (("images", 3), ("labels", 1))}
    pixels = np.frombuffer(raw["images"], np.uint8, offset=16).reshape(-1, 1, 28, 28)
    images = (torch.from_numpy(pixels.copy()).float() / 255 - MEAN) / DEVIATION
    labels = torch.from_numpy(np.frombuffer(raw["labels"], np.uint8, offset=8).astype(np.int64))
    assert len(images) == len(labels) == TRAIN + HELD_OUT, "this is not the official training set"
    held_out = torch.arange(TRAIN, TRAIN + HELD_OUT)

    sides = {"ours": [], "torch": []}
    print(f"{'seed':>4}  {'ours':>8}  {'PyTorch':>8}  validation loss after {args.epochs} epochs")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for part, data in raw.items():
            (folder / part).write_bytes(data)
        (folder / "held-out").write_bytes(held_out.numpy().astype("<u4").tobytes())
        for seed in range(args.seeds):
            model = lenet(torch, seed)
            start = torch.cat([p.detach().flatten() for p in model.parameters()])
            generator = torch.Generator().manual_seed(1000 + seed)
            order = torch.stack([torch.randperm(TRAIN, generator=generator) for _ in range(args.epochs)])
            (folder / "parameters").write_bytes(start.numpy().astype("<f4").tobytes())
            (folder / "order").write_bytes(order.numpy().astype("<u4").tobytes())
            command = [str(binary), str(folder), str(args.threads), str(RATE), str(MOMENTUM), str(BATCH)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            sides["ours"].append(json.loads(answer))
            sides["torch"].append(train_torch(torch, model, images, labels, order, held_out))
            print(f"{seed:>4}  {sides['ours'][-1]['loss']:8.4f}  {sides['torch'][-1]['loss']:8.4f}", flush=True)
    result = compare(sides)
    for who in sides:
        print(f"{who}: mean {result['mean'][who]:.4f}, deviation over seeds {result['deviation'][who]:.4f}")
    print(f"the means are {result['standard_errors_apart']:.2f} standard errors apart; "
          f"with the same start and order, losses differ by at most {result['largest_pair_difference']:.4f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__, "threads": args.threads,
              "epochs": args.epochs, "batch": BATCH, "rate": RATE, "momentum": MOMENTUM, "runs": sides, **result}
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    if result["standard_errors_apart"] > 3:
        sys.exit("the validation losses differ by more than seeds explain")


if __name__ == "__main__":
    main()
