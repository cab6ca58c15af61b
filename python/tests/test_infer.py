import math

import numpy as np
import pytest

from maxitive import infer
from maxitive.possibility import interval


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


def test_classes_by_hand():
    data = ["red", "red", "blue", "red", "green"]
    balls = infer.categorical(data)
    assert balls.names == ["blue", "green", "red"] and balls.weight == 5.0
    np.testing.assert_allclose(balls.mode, [0.2, 0.2, 0.6], rtol=1e-15)
    # the probability of a class is that of a coin
    coin = infer.bernoulli([one == "red" for one in data])
    np.testing.assert_allclose(balls["red"].cut(0.1), coin.cut(0.1), rtol=1e-12)
    # red and blue equally probable, 2/5 each, is the nearest that contradicts red > blue
    rival = 0.4**4 * 0.2 / (0.6**3 * 0.2**2)
    found = balls.credence({"red": 1.0, "blue": -1.0}, lower=0.0)
    assert found.possibility == 1.0 and found.necessity == pytest.approx(1 - rival, rel=1e-9)
    more = infer.categorical(["red"], classes=balls.classes).observe(data[1:])
    np.testing.assert_allclose(more["green"].cut(0.1), balls["green"].cut(0.1), rtol=1e-12)
    prior = infer.categorical(data, prior=([0.5, 0.25, 0.25], 5.0))
    np.testing.assert_allclose(prior.mode, [0.35, 0.225, 0.425], rtol=1e-12)
    numbers = infer.categorical(np.array([3, 1, 3]), classes=[1, 2, 3])
    assert numbers.classes == [1, 2, 3] and numbers["2"].mode == 0.0


def test_means_by_hand():
    data = np.array([[1.0, 0.0], [3.0, 2.0], [2.0, 4.0]])
    covariance = np.array([[2.0, 1.0], [1.0, 3.0]])
    found = infer.multivariate_normal(data, covariance, names=["a", "b"])
    np.testing.assert_allclose(found.mode, [2.0, 2.0])
    np.testing.assert_allclose(found.normal().covariance, covariance / 3, rtol=1e-12)
    assert found["b"].precision == pytest.approx(1.0)
    gap = found.form({"a": 1.0, "b": -1.0})
    assert gap(1.5) == pytest.approx(math.exp(-0.5 * 1.5**2 / (3.0 / 3)), rel=1e-12)
    twice = infer.multivariate_normal(data[:1], covariance, weights=[2.0]).observe(data[1:])
    assert twice.weight == 4.0
    prior = infer.multivariate_normal(data, covariance, prior=([0.0, 0.0], 3.0))
    np.testing.assert_allclose(prior.mode, [1.0, 1.0])


def test_binomial_is_a_coin_tossed_several_times():
    found = infer.binomial([3, 1], trials=4)
    coin = infer.bernoulli([1, 1, 1, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(found.cut(0.1), 4.0 * np.array(coin.cut(0.1)), rtol=1e-9)


def test_weights_count_rows():
    twice = infer.poisson([2, 0, 3], weights=[2.0, 1.0, 0.0])
    assert twice.cut(0.1) == pytest.approx(infer.poisson([2, 2, 0]).cut(0.1), rel=1e-12)


def test_valid_cuts_are_those_of_the_law():
    valid = infer.normal([1.0, 2.0, 6.0], 4.0).valid()
    # the cut of a mean of known variance at 0.05 is the 95 % interval
    reach = 1.959963984540054 * math.sqrt(4.0 / 3.0)
    assert valid.cut(0.05) == pytest.approx((3.0 - reach, 3.0 + reach), rel=1e-9)
    with pytest.raises(ValueError, match="without a prior"):
        infer.bernoulli([1, 0], prior=(0.5, 1.0)).valid()


def test_events_of_several_parts():
    coin = infer.bernoulli([1, 1, 0, 1, 1])
    away = interval(upper=0.3) | interval(lower=0.95)
    want = max(coin(0.3), coin(0.95))
    assert coin.possibility(away) == pytest.approx(want, rel=1e-12)
    assert coin.necessity(~away) == pytest.approx(1 - want, rel=1e-12)
    with pytest.raises(ValueError, match="one too many"):
        coin.possibility(away, 0.5)


def test_shows_itself():
    balls = infer.categorical(["<a>", "b", "b"])
    assert "worth 3 observations" in repr(balls)
    page = balls._repr_html_()
    assert "<svg" in page and "&lt;a&gt;" in page and "<a>" not in page
    assert "<table>" in infer.poisson([1, 2])._repr_html_()
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
        (lambda: infer.categorical(["a", "a"]), "classes 1 is not in"),
        (lambda: infer.categorical(["a", "c"], classes=["a", "b"]), "'c' is none of 'a', 'b'"),
        (lambda: infer.categorical(["a"], classes=["a", "b", "a"]), "'a' is named twice"),
        (lambda: infer.categorical(["a", "b"], prior=([0.5, 0.6], 1.0)), "sum of the shares 1.1"),
        (lambda: infer.categorical(["a", "b"], prior=([1.5, -0.5], 1.0)), r"shares\[0\] 1.5"),
        (lambda: infer.categorical([1.0, float("nan")]), "observation 1 is missing"),
        (lambda: infer.multivariate_normal([[1.0, 2.0]], [[1.0]]), "2 columns, the covariance 1"),
        (lambda: infer.multivariate_normal([[1.0]], [[-1.0]]), "not positive definite"),
        (lambda: infer.binomial([5], trials=4), "5"),
        (lambda: infer.binomial([1], trials=0), "trials 0"),
        (lambda: infer.poisson([1, 2], weights=[1.0]), "1 weights for 2 observations"),
        (lambda: infer.poisson([1, 2], weights=[1.0, -1.0]), "weight of an observation -1"),
        (lambda: infer.bernoulli([0, 1]).cut(0.0), "0"),
        (lambda: infer.bernoulli([0, 1]).possibility(0.7, 0.2), "upper end 0.2"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
