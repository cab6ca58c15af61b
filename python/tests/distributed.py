"""One of two processes that train together: `distributed.py FORM RULE RANK FOLDER`.

Writes what it ends with, for `test_distributed.py`.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import maxitive.torch as optim

STEPS = 4


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(8, 6, generator=generator), torch.randint(4, (8,), generator=generator)


def train(model, optimizer, part=slice(None)):
    """Steps on batches, or on a part of each."""
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()


def main(form, rule, rank, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder) / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = network()
    make = getattr(optim, rule)
    if form == "ddp":
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        wrapped = fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = make(wrapped.parameters(), lr=1e-3)
    train(wrapped, optimizer, slice(rank, None, 2))
    params = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    shapes = [tuple(optimizer.state[p]["momentum"].shape) for p in wrapped.parameters()]
    local = [
        getattr(optimizer.state[p]["momentum"], "_local_tensor", p).numel()
        for p in wrapped.parameters()
    ]
    found = {"params": [p.detach() for p in params], "shapes": shapes, "local": local}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
