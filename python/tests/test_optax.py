import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp

import maxitive.optax as rules
from common import RULES, Scales, cases, ids


@pytest.mark.parametrize("name,case", cases(), ids=ids())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_golden(name, case, dtype):
    scales = Scales(case, double=dtype == "float64")
    rates = jnp.array(case["lr"], dtype)
    hyper = {k: v for k, v in case["hyper"].items() if v is not None}
    optimizer = getattr(rules, RULES[name])(lambda count: rates[count], **hyper)
    params = {"w": jnp.array(case["theta0"], dtype)}
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    for grads, after in zip(case["grads"], case["after"], strict=True):
        steps, state = update({"w": jnp.array(grads, dtype)}, state, params)
        params = optax.apply_updates(params, steps)
        assert params["w"].dtype == dtype
        parts = {"theta": params, "m": state.momentum, "h": state.curvature, "c": state.envelope}
        for key, want in after.items():
            scales.check(key, parts[key]["w"], want)


def test_chains_with_other_transformations():
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), rules.lcbopt_adapt(0.001))
    params = {"a": jnp.ones(3), "b": (jnp.zeros(()), jnp.full((2, 2), -1.0))}
    state = optimizer.init(params)

    def loss(p):
        return sum(jnp.sum((x - 0.25) ** 2) for x in jax.tree.leaves(p))

    first = loss(params)
    for _ in range(200):
        steps, state = optimizer.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, steps)
    assert loss(params) < 0.01 * first


@pytest.mark.parametrize(
    "make,options,message",
    [
        (rules.ucbopt, {"vartheta": 0.5}, "vartheta 0.5 is not in"),
        (rules.ucbopt, {"gamma": 0.5}, "unknown field `gamma`"),
        (rules.ucbopt_adapt, {"gamma": 1.0}, "gamma 1"),
        (rules.lcbopt_adapt, {"beta3": 1.0}, "beta3 1"),
    ],
)
def test_mistakes_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(0.1, **options)


def test_parameters_are_needed():
    optimizer = rules.ucbopt(0.1)
    state = optimizer.init(jnp.ones(2))
    with pytest.raises(ValueError, match="needs the parameters"):
        optimizer.update(jnp.ones(2), state)
