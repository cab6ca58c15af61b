#!/usr/bin/env python3
"""Pictures of one's own, from drawing them to predicting new ones, and validation accuracy beside PyTorch's.

    python3 benches/own_pictures/compare.py [--seeds 3] [--threads 2] [--venv FOLDER] [--out FILE]

First the way of a newcomer, each command timed: `draw.py` draws 600, 300 and 120 pictures of three classes, `mine.toml` is a
network for them, `sweep.toml` tries three learning rates, then report and predictions for ten new pictures. Then the same
network is trained by `maxitive` and by PyTorch on the same 816 pictures with AdamW (rate 0.003, 20 epochs, batches of 32, the same
schedule) and validated on the other 204, a fifth of every class. Starts and orders are drawn from the same distributions, not
shared, so that the two differ as seeds do. Prints a table and writes results.json beside this file.
"""
import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import TORCH, add_environment_arguments, apart, enter_environment, program

HERE = Path(__file__).resolve().parent
RATE, DECAY, HELD_OUT = 0.003, 2e-4, 5
WARMUP = 5  # the default of `schedule.warmup`


def walk(binary, folder):
    """The newcomer's commands and their seconds."""
    for file in ("mine.toml", "sweep.toml"):
        shutil.copy(HERE / file, folder)
    commands = {
        "draw": [sys.executable, str(HERE / "draw.py"), "."],
        "sweep": [binary, "sweep", "sweep.toml", "--out", "runs"],
        "report": [binary, "report", "runs", "-o", "report.html"],
    }
    seconds = {}

    def timed(name, command):
        begin = time.perf_counter()
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
        seconds[name] = round(time.perf_counter() - begin, 2)
        return answer

    for name, command in commands.items():
        timed(name, command)
    runs = {run.parent.name: json.loads(run.read_text()) for run in folder.glob("runs/*/record.json")}
    chosen = min(runs, key=lambda name: min(point["validation_loss"] for point in runs[name]["curves"]))
    answer = timed("predict", [binary, "predict", f"runs/{chosen}", "new", "--json"])
    rows = json.loads(answer)["pictures"]
    right = sum(Path(row["file"]).stem.split("-")[1] == row["class"] for row in rows)
    return {"seconds": seconds, "total_seconds": round(sum(seconds.values()), 2), "chosen": chosen,
            "validation_accuracy": {name: run["curves"][-1]["validation_accuracy"] for name, run in sorted(runs.items())},
            "new_pictures_right": right, "new_pictures": len(rows)}


def load(np, folder):
    """Pixels and labels of all training pictures, the last fifth held out: a fifth of every class."""
    from PIL import Image

    train, held_out = [], []
    for label, place in enumerate(sorted((folder / "shapes" / "train").iterdir())):
        pictures = [(np.asarray(Image.open(file)), label) for file in sorted(place.iterdir())]
        train += pictures[len(pictures) // HELD_OUT:]
        held_out += pictures[:len(pictures) // HELD_OUT]
    pixels, labels = zip(*train, *held_out)
    return np.stack(pixels), np.array(labels), len(train)


def ours(binary, np, folder, pixels, labels, seeds):
    """Validation accuracy and loss after the last epoch, by seed."""
    arrays = {"train_images": pixels, "train_labels": labels, "test_images": pixels[:3], "test_labels": labels[:3]}
    np.savez(folder / "shapes.npz", **arrays)
    sweep = f"""name = "adamw"
configs = ["mine.toml"]
set = {{ data = {{ dataset = "shapes.npz", split = "index", validation_share = {1 / HELD_OUT} }}, \
optimizer = {{ rule = "adamw", lr = {RATE}, weight_decay = {DECAY} }} }}
grid = {{ seed = {list(range(seeds))} }}
"""
    (folder / "adamw.toml").write_text(sweep)
    command = [binary, "sweep", "adamw.toml", "--out", "adamw"]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    records = [json.loads((folder / f"adamw/mine-seed{seed}/record.json").read_text()) for seed in range(seeds)]
    return [{key: record["curves"][-1][f"validation_{key}"] for key in ("accuracy", "loss")} for record in records]


def network(torch):
    """The network of `mine.toml`, layer by layer."""
    nn, functional = torch.nn, torch.nn.functional

    class Same(nn.Conv2d):
        """Zeros so that a side of n gives ⌈n/stride⌉ outputs; an odd one goes to the end."""

        def forward(self, x):
            kernel, stride = self.kernel_size[0], self.stride[0]
            pads = [max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in x.shape[:1:-1]]
            return super().forward(functional.pad(x, [p for pad in pads for p in (pad // 2, pad - pad // 2)]))

    class Frn(nn.Module):
        def __init__(self, channels):
            super().__init__()
            start = {"gamma": 1.0, "beta": 0.0, "tau": 0.0}
            for name, value in start.items():
                setattr(self, name, nn.Parameter(torch.full((1, channels, 1, 1), value)))

        def forward(self, x):
            scale = torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-6)
            return torch.maximum(self.gamma * (x * scale) + self.beta, self.tau)

    class Residual(nn.Module):
        def __init__(self, inputs, channels, stride):
            super().__init__()
            self.body = nn.Sequential(Same(inputs, channels, 3, stride), Frn(channels),
                                      Same(channels, channels, 3), Frn(channels))
            self.shortcut = nn.Sequential(Same(inputs, channels, 1, stride), Frn(channels))

        def forward(self, x):
            return self.shortcut(x) + self.body(x)

    return nn.Sequential(Same(3, 16, 5, 2), Frn(16), Residual(16, 32, 2), Residual(32, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))


def train_torch(torch, config, images, labels, count, seed):
    """The same work, with seeds of PyTorch's."""
    torch.manual_seed(seed)
    model, epochs = network(torch), config["train"]["epochs"]
    rule = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    entropy = torch.nn.functional.cross_entropy
    for epoch in range(epochs):
        fall = 0.5 * (1 + math.cos(math.pi * (epoch - WARMUP) / (epochs - WARMUP)))
        rule.param_groups[0]["lr"] = RATE * ((epoch + 1) / WARMUP if epoch < WARMUP else fall)
        for positions in torch.randperm(count).split(config["train"]["batch"]):
            rule.zero_grad()
            entropy(model(images[positions]), labels[positions]).backward()
            rule.step()
    with torch.inference_mode():
        logits = model(images[count:])
        accuracy = (logits.argmax(1) == labels[count:]).double().mean().item()
        return {"accuracy": accuracy, "loss": entropy(logits.double(), labels[count:]).item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    add_environment_arguments(parser)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    args = parser.parse_args()
    if args.seeds < 2:
        parser.error("at least two seeds are needed to tell noise from difference")
    enter_environment(args, [*TORCH, "pillow==13.0.0"])
    import numpy as np
    import torch

    torch.set_num_threads(args.threads)
    binary = str(program("maxitive", "maxitive").resolve())
    config = tomllib.loads((HERE / "mine.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        way = walk(binary, folder)
        print(f"from drawing to predictions {way['total_seconds']} seconds: {way['seconds']}; "
              f"{way['new_pictures_right']} of {way['new_pictures']} new pictures are right", flush=True)
        pixels, labels, count = load(np, folder)
        sides = {"ours": ours(binary, np, folder, pixels, labels, args.seeds)}
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    mean, deviation = (f(images[:count], (0, 2, 3), keepdim=True) for f in (torch.mean, torch.std))
    images, labels = (images - mean) / deviation, torch.from_numpy(labels)
    sides["torch"] = [train_torch(torch, config, images, labels, count, seed) for seed in range(args.seeds)]
    print(f"{'seed':>4}  {'ours':>15}  {'PyTorch':>15}  validation accuracy and loss")
    for seed, pair in enumerate(zip(*sides.values())):
        print(f"{seed:>4}", *(f"  {run['accuracy']:7.4f} {run['loss']:7.4f}" for run in pair))
    result = {key: apart(*([run[key] for run in runs] for runs in sides.values())) for key in ("accuracy", "loss")}
    for key, value in result.items():
        print(f"{key}: {value['mean']['ours']:.4f} and {value['mean']['torch']:.4f}, "
              f"{value['standard_errors_apart']:.2f} standard errors apart")
    record = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
              "threads": args.threads, "walk": way, "pictures": {"train": count, "validation": len(labels) - count},
              "optimizer": {"rule": "adamw", "lr": RATE, "weight_decay": DECAY}, "train": config["train"],
              "runs": sides, **result}
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    if max(value["standard_errors_apart"] for value in result.values()) > 3:
        sys.exit("validation differs by more than seeds explain")


if __name__ == "__main__":
    main()
