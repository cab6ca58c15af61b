"""The CBOpt rules as optax gradient transformations.

>>> import jax.numpy as jnp, optax
>>> from maxitive.optax import ucbopt
>>> optimizer = ucbopt(learning_rate=0.1)
>>> params = jnp.array([0.7])
>>> state = optimizer.init(params)
>>> updates, state = optimizer.update(jnp.array([0.3]), state, params)
>>> f"{optax.apply_updates(params, updates)[0]:.6f}"
'0.120300'

The learning rate is a number or an optax schedule. Hyper-parameters are those of `maxitive.torch`,
checked by the same code; `update` needs the parameters, because weight decay is part of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ._rule import rule

__all__ = ["CboState", "lcbopt_adapt", "ucbopt", "ucbopt_adapt"]

ScalarOrSchedule = float | Callable[[Any], Any]


class CboState(NamedTuple):
    """Number of steps made, and the moments; the envelope is empty for `ucbopt`."""

    count: Any
    momentum: Any
    curvature: Any
    envelope: Any


def ucbopt(learning_rate: ScalarOrSchedule, **hyper: Any) -> optax.GradientTransformation:
    """uCBOpt: `beta1`, `beta2`, `weight_decay`, `hess_init`, `vartheta`, `eps`, `eps_policy`,
    `rescale_lr`, `clip_radius`."""
    return _transformation("ucbopt", learning_rate, hyper)


def ucbopt_adapt(learning_rate: ScalarOrSchedule, **hyper: Any) -> optax.GradientTransformation:
    """uCBOpt-adapt: `gamma` and `beta3` instead of `vartheta`."""
    return _transformation("ucbopt-adapt", learning_rate, hyper)


def lcbopt_adapt(learning_rate: ScalarOrSchedule, **hyper: Any) -> optax.GradientTransformation:
    """lCBOpt-adapt: `gamma` and `beta3` instead of `vartheta`."""
    return _transformation("lcbopt-adapt", learning_rate, hyper)


def _transformation(
    identifier: str, learning_rate: ScalarOrSchedule, given: dict[str, Any]
) -> optax.GradientTransformation:
    _, p = rule(identifier, given)
    decay, total = p["weight_decay"], p["hess_init"] + p["weight_decay"]

    def init(params: Any) -> CboState:
        filled = {"ucbopt-adapt": jnp.inf, "lcbopt-adapt": total}.get(identifier)
        return CboState(
            count=jnp.zeros([], jnp.int32),
            momentum=jax.tree.map(jnp.zeros_like, params),
            curvature=jax.tree.map(lambda x: jnp.full_like(x, p["hess_init"]), params),
            envelope=()
            if filled is None
            else jax.tree.map(lambda x: jnp.full_like(x, filled), params),
        )

    def gap_of(curvature: Any, envelope: Any) -> tuple[Any, Any]:
        if identifier == "ucbopt":
            return envelope, curvature + (decay - p["vartheta"])
        sum_, grown = curvature + decay, p["beta3"] * envelope
        if identifier == "ucbopt-adapt":
            envelope = jnp.minimum(grown, sum_)
            return envelope, (sum_ - envelope) + (1.0 - p["gamma"]) * envelope
        envelope = jnp.maximum(grown, sum_)
        return envelope, (envelope - sum_) + (p["gamma"] - 1.0) * envelope

    def stabilized(gap: Any) -> Any:
        if p["eps_policy"] in ("add", "add_then_clamp"):
            gap = gap + p["eps"]
        return jnp.maximum(gap, p["eps"]) if p["eps_policy"].endswith("clamp") else gap

    def update(updates: Any, state: CboState, params: Any = None) -> tuple[Any, CboState]:
        if params is None:
            raise ValueError(f"{identifier}: update(gradients, state, params) needs the parameters")
        # optax counts from 0 in schedules
        lr = learning_rate(state.count) if callable(learning_rate) else learning_rate
        lr = lr * total if p["rescale_lr"] else lr
        count = optax.safe_increment(state.count)

        def leaf(g: Any, x: Any, m: Any, h: Any, c: Any) -> tuple[Any, Any, Any, Any]:
            m = m + (1.0 - p["beta1"]) * (g - m)
            h = h + (1.0 - p["beta2"]) * (g * g - h)
            c, gap = gap_of(h, c)
            correction = 1.0 - jnp.asarray(p["beta1"], x.dtype) ** count.astype(x.dtype)
            direction = (m / correction + decay * x) / stabilized(gap)
            if p["clip_radius"] is not None:
                direction = jnp.clip(direction, -p["clip_radius"], p["clip_radius"])
            return (-lr * direction).astype(x.dtype), m, h, c

        tree: Any
        flat, tree = jax.tree.flatten(updates)
        others = (params, state.momentum, state.curvature)
        columns = [flat, *(tree.flatten_up_to(other) for other in others)]
        has = identifier != "ucbopt"
        columns.append(tree.flatten_up_to(state.envelope) if has else [()] * len(flat))
        steps, m, h, c = (
            [tree.unflatten(column) for column in zip(*map(leaf, *columns), strict=True)]
            if flat
            else (updates, state.momentum, state.curvature, state.envelope)
        )
        return steps, CboState(count, m, h, c if has else ())

    return optax.GradientTransformation(init, update)
