#!/usr/bin/env python3
"""One optimizer step on a GPU: maxitive.torch beside torch.optim.AdamW(fused=True), in turn.

    python3 benches/python/gpu.py [--rounds N]

Needs PyTorch with a CUDA device and the package maxitive. Bytes of a step are those of parameter and
states, read and written, and of the gradient, read: 28 for AdamW and ucbopt, 36 for the adaptive rules.
"""
import argparse

import torch

from maxitive.torch import LCBOptAdapt, UCBOpt, UCBOptAdapt

SIDES = {
    "AdamW, fused": (lambda p: torch.optim.AdamW([p], lr=1e-4, fused=True), 28),
    "UCBOpt": (lambda p: UCBOpt([p], lr=1e-4), 28),
    "UCBOptAdapt": (lambda p: UCBOptAdapt([p], lr=1e-4), 36),
    "LCBOptAdapt": (lambda p: LCBOptAdapt([p], lr=1e-4), 36),
    "UCBOpt, foreach": (lambda p: UCBOpt([p], lr=1e-4, foreach=True), 28),
}


def milliseconds(optimizer, steps):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(steps):
        optimizer.step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, best of {rounds} rounds")
    for count in [10**7, 10**8]:
        optimizers = {}
        for name, (make, _) in SIDES.items():
            p = torch.nn.Parameter(torch.randn(count, device="cuda"))
            p.grad = torch.randn(count, device="cuda")
            optimizers[name] = make(p)
        best = dict.fromkeys(SIDES, float("inf"))
        for number in range(rounds + 1):
            for name, optimizer in optimizers.items():
                time = milliseconds(optimizer, 20)
                if number:
                    best[name] = min(best[name], time)
        per_byte = {name: best[name] / bytes for name, (_, bytes) in SIDES.items()}
        for name, time in best.items():
            rate = count * SIDES[name][1] / time / 1e9
            ratio = per_byte[name] / per_byte["AdamW, fused"]
            print(f"{count:.0e} {name:18}{time:9.3f} ms {rate:7.2f} TB/s, {ratio:5.2f} per byte over AdamW")


if __name__ == "__main__":
    main()
