import math

import numpy as np
import pytest

from maxitive import infer


def test_coin_by_hand():
    coin = infer.bernoulli([1, 1, 0, 1, 1])
    assert coin.mode == 0.8 and coin.weight == 5.0

    def relative(p):
        return (p / 0.8) ** 4 * ((1 - p) / 0.2)

    for p in [0.1, 0.5, 0.77, 0.95]:
        assert coin(p) == pytest.approx(relative(p), rel=1e-12)
    low, high = coin.cut(0.05)
    assert relative(low) == pytest.approx(0.05, rel=1e-9)
    assert relative(high) == pytest.approx(0.05, rel=1e-9)
    assert coin.possibility(upper=0.3) == pytest.approx(relative(0.3), rel=1e-12)
    assert coin.necessity(lower=0.3) == pytest.approx(1 - relative(0.3), rel=1e-12)
    assert coin.possibility(lower=0.5) == 1.0


@pytest.mark.parametrize(
    "make,data,deviance",
    [
        (infer.poisson, [2, 0, 3], lambda x, m: 3 * (x - m - m * math.log(x / m))),
        (infer.exponential, [1.0, 0.5, 3.0], lambda x, m: 3 * (m / x - 1 - math.log(m / x))),
        (lambda d: infer.gamma(d, 2.5), [1.0, 0.5, 3.0], lambda x, m: 7.5 * (m / x - 1 - math.log(m / x))),
        (lambda d: infer.normal(d, 4.0), [1.0, -2.0, 3.0], lambda x, m: 3 / 8 * (x - m) ** 2),
    ],
)
def test_relative_likelihoods(make, data, deviance):
    posterior = make(data)
    mean = float(np.mean(data))
    assert posterior.mode == pytest.approx(mean, rel=1e-12)
    for x in [0.3, 1.1, 2.9]:
        assert posterior(x) == pytest.approx(math.exp(-deviance(x, mean)), rel=1e-10)
    np.testing.assert_allclose(posterior(np.array([0.3, 1.1])), [posterior(0.3), posterior(1.1)])


def test_yesterdays_posterior_is_todays_prior():
    data = np.random.default_rng(0).poisson(3.0, 40)
    once = infer.poisson(data, prior=(2.0, 1.5))
    twice = infer.poisson(data[:15], prior=(2.0, 1.5)).observe(data[15:])
    assert twice.weight == once.weight == 41.5
    assert twice.cut(0.1) == pytest.approx(once.cut(0.1), rel=1e-12)
    assert once.log_consistency < 0.0


def test_shows_itself():
    coin = infer.bernoulli([True, False])
    assert "0.05-cut" in repr(coin)
    assert "<svg" in coin._repr_html_()
    assert "<svg" in infer.exponential([1.0])._repr_html_()


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: infer.bernoulli([0, 2]), "2"),
        (lambda: infer.poisson([0.5]), "0.5"),
        (lambda: infer.normal([1.0], variance=-1.0), "-1"),
        (lambda: infer.gamma([1.0], shape=0.0), "0"),
        (lambda: infer.bernoulli([[0, 1]]), "2 axes"),
        (lambda: infer.bernoulli(["a"]), "not numbers"),
        (lambda: infer.bernoulli([0, 1], prior=(2.0, 1.0)), "2"),
        (lambda: infer.bernoulli([0, 1]).cut(0.0), "0"),
        (lambda: infer.bernoulli([0, 1]).possibility(0.7, 0.2), "upper end 0.2"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
