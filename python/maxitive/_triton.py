"""One fused pass over a large tensor on a CUDA device."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
_KINDS = {"ucbopt": 0, "ucbopt-adapt": 1, "lcbopt-adapt": 2}


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    theta,
    gradient,
    momentum,
    curvature,
    envelope,
    push,
    pull,
    radius,
    weight1,
    weight2,
    decay,
    beta3,
    part,
    added,
    floor,
    count,
    KIND: tl.constexpr,
    CLIPS: tl.constexpr,
    ON_DEVICE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    if ON_DEVICE:
        push, pull, radius = tl.load(push), tl.load(pull), tl.load(radius)
    x = tl.load(theta + place, mask=inside)
    g = tl.load(gradient + place, mask=inside)
    m = tl.load(momentum + place, mask=inside)
    h = tl.load(curvature + place, mask=inside)
    m = m + weight1 * (g - m)
    h = h + weight2 * (g * g - h)
    if KIND == 0:
        # decay is weight_decay - vartheta here
        gap = h + decay
    else:
        total = h + decay
        c = beta3 * tl.load(envelope + place, mask=inside)
        if KIND == 1:
            c = tl.minimum(c, total)
            gap = (total - c) + part * c
        else:
            c = tl.maximum(c, total)
            gap = (c - total) + part * c
        tl.store(envelope + place, c, mask=inside)
    gap = tl.maximum(gap + added, floor)
    step = (m * push + pull * x) / gap
    if CLIPS:
        step = tl.minimum(tl.maximum(step, -radius), radius)
    tl.store(theta + place, x - step, mask=inside)
    tl.store(momentum + place, m, mask=inside)
    tl.store(curvature + place, h, mask=inside)


def step(
    identifier: str,
    group: dict[str, Any],
    push: Any,
    pull: Any,
    radius: Any,
    p: Tensor,
    grad: Tensor,
    state: dict[str, Any],
) -> None:
    """One step of a dense `float32` tensor in place."""
    kind = _KINDS[identifier]
    rates = [push, pull, float("inf") if radius is None else radius]
    # rates that are tensors stay on the device: a captured graph reads those of its replay
    on_device = any(isinstance(rate, Tensor) for rate in rates)
    if on_device:
        # filled there, because a graph cannot capture a copy from the host
        rates = [
            r.to(p.device, torch.float32)
            if isinstance(r, Tensor)
            else torch.full((), r, dtype=torch.float32, device=p.device)
            for r in rates
        ]
    policy, eps = group["eps_policy"], group["eps"]
    decay = group["weight_decay"] - (group["vartheta"] if kind == 0 else 0.0)
    part = (0.0, 1.0 - group.get("gamma", 0.0), group.get("gamma", 0.0) - 1.0)[kind]
    with torch.cuda.device(p.device):
        _kernel[(triton.cdiv(p.numel(), _BLOCK),)](
            p,
            grad,
            state["momentum"],
            state["curvature"],
            state.get("envelope", p),
            *rates,
            1.0 - group["beta1"],
            1.0 - group["beta2"],
            decay,
            group.get("beta3", 1.0),
            part,
            eps if policy in ("add", "add_then_clamp") else 0.0,
            eps if policy in ("clamp", "add_then_clamp") else float("-inf"),
            p.numel(),
            KIND=kind,
            CLIPS=radius is not None,
            ON_DEVICE=on_device,
            BLOCK=_BLOCK,
        )
