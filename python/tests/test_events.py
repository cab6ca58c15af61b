"""Events as text, groups, saved posteriors and valid functions of several parameters."""

import json
import math

import numpy as np
import pytest

from maxitive import infer
from maxitive.possibility import event, interval


def test_text_is_the_set_it_speaks_of():
    coin = infer.bernoulli([1, 1, 0, 1, 1])
    away = interval(upper=0.3) | interval(lower=0.9, closed="neither")
    assert event("x <= 0.3 or x > 0.9") == away
    assert coin.credence("p <= 0.3 or p > 0.9") == coin.credence(away)
    assert coin.credence("0.5 <= x") == coin.credence(lower=0.5)
    assert event("rate in {1, 2}", "rate").intervals == [
        (1.0, 1.0, True, True),
        (2.0, 2.0, True, True),
    ]


def test_mistakes_in_a_text_are_shown_in_their_place():
    coin = infer.bernoulli([1, 0])
    with pytest.raises(ValueError) as caught:
        coin.credence("q > 0.5")
    assert str(caught.value) == (
        'event "q > 0.5": unknown variable "q" (there is "x", "p")\n  q > 0.5\n  ^'
    )
    with pytest.raises(ValueError, match="upper 0.5 is one too many"):
        coin.credence("p > 0.1", 0.5)
    with pytest.raises(ValueError, match="expected"):
        event("x >")


def test_classes():
    balls = infer.categorical(["red", "red", "blue", "red", "green"])
    assert balls.credence("red < 0.4") == balls["red"].credence("x < 0.4")
    assert balls.credence("p[red] < 0.4") == balls.credence("red < 0.4")
    assert balls.possibility("red < blue") == balls.credence("red - blue < 0").possibility
    # a form of several classes: blue and green together are what is not red
    one, other = balls.credence("blue + green > 0.7"), balls.credence("red < 0.3")
    assert one.possibility == pytest.approx(other.possibility, rel=1e-9)
    with pytest.raises(ValueError, match='event "red < 0.1 and blue > 0.5": an event about several'):
        balls.credence("red < 0.1 and blue > 0.5")
    with pytest.raises(ValueError, match='unknown variable "rde", did you mean "red"'):
        balls.credence("rde > 0.5")


def test_means_by_hand():
    found = infer.multivariate_normal({"a": [1.0], "b": [-2.0]}, [[1.0, 0.0], [0.0, 4.0]])
    assert found.possibility("a > 3") == pytest.approx(math.exp(-2.0), rel=1e-12)
    assert found.possibility("a > 2 and b > 0") == pytest.approx(math.exp(-1.0), rel=1e-12)
    assert found.possibility("a + b > 4") == pytest.approx(math.exp(-2.5), rel=1e-12)
    assert found.necessity("a < 2 and b < 0") == pytest.approx(1 - math.exp(-0.5), rel=1e-12)
    # two standard deviations of one number, and of two
    assert found.possibility("a > 3", valid=True) == pytest.approx(0.0455, abs=1e-4)
    assert found.possibility("a >= 3 and b >= -2", valid=True) == pytest.approx(math.exp(-2.0))


def test_regressions():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    fit = infer.linear([1.0, 2.1, 2.9, 4.2, 4.8], {"time": x, "odd": x % 2})
    assert fit.credence("time > 0.9") == fit["time"].credence(interval(0.9, closed="neither"))
    assert fit.credence("time > odd") == fit.form({"time": 1.0, "odd": -1.0}).credence("x > 0")
    assert fit.credence("variance < 0.1") == fit.variance.credence("x < 0.1")
    both = fit.credence("time > 0.9 and variance < 0.1")
    assert both.possibility <= fit.possibility("time > 0.9")
    assert both.necessity <= fit.necessity("variance < 0.1")
    with pytest.raises(ValueError, match=r"name the coefficient, as in coefficient\[intercept\]"):
        fit.credence("coefficient > 0")
    with pytest.raises(ValueError, match="one linear form of the coefficients"):
        fit.credence("time > 0 and odd > 0")
    new = fit.predict({"time": [5.0], "odd": [1.0]}, event="mean > 5")
    assert 0.0 < new.necessity[0] < 1.0


def test_valid_intervals_of_a_regression_are_students():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    y = np.array([1.0, 2.1, 2.9, 4.2])
    fit = infer.linear(y, {"time": x})
    slope, intercept = np.polyfit(x, y, 1)
    left = y - intercept - slope * x
    error = math.sqrt((left @ left / 2) / ((x - x.mean()) @ (x - x.mean())))
    # the 0.975 quantile of Student's law of two degrees of freedom
    reach = 4.302652729911275 * error
    found = fit.valid()
    assert list(found) == ["intercept", "time", "variance"]
    assert found["time"].cut(0.05) == pytest.approx((slope - reach, slope + reach), rel=1e-9)
    assert found["time"](slope + reach) == pytest.approx(0.05, rel=1e-9)
    assert fit.possibility(f"time >= {slope + reach}", valid=True) == pytest.approx(0.05, rel=1e-8)
    assert found["variance"].svg().startswith("<svg")
    with pytest.raises(ValueError, match="cannot be used with a prior"):
        infer.linear(y, {"time": x}, prior_precision=1.0).valid()
    with pytest.raises(ValueError, match="no law of their own"):
        infer.logistic([0, 1, 0, 1], {"time": x}).valid()


def test_valid_shares_are_those_of_a_coin():
    data = ["red", "red", "blue", "red", "green"]
    shares = infer.categorical(data).valid()
    coin = infer.bernoulli([one == "red" for one in data]).valid()
    assert shares["red"].cut(0.05) == pytest.approx(coin.cut(0.05), rel=1e-12)
    assert list(shares) == ["blue", "green", "red"]
    # the last share is what the others leave
    assert infer.categorical(data).possibility("red < 0.2", valid=True) == pytest.approx(
        coin.possibility("p < 0.2"), rel=1e-12
    )
    means = infer.multivariate_normal([[1.0, 2.0], [3.0, 0.0]], np.diag([4.0, 9.0])).valid()
    one = infer.normal([1.0, 3.0], 4.0).valid()
    assert means["x1"].cut(0.05) == pytest.approx(one.cut(0.05), rel=1e-12)


def test_groups():
    calls, days = [7, 1, 9, 2, 8, 1], ["mon", "sun", "mon", "sun", "mon", "sun"]
    found = infer.groups("poisson", calls, by=days, prior=(3.0, 1.0))
    assert found.names == ["mon", "sun"] and found.sizes == {"mon": 3, "sun": 3}
    alone = infer.poisson([7, 9, 8], prior=(3.0, 1.0))
    assert found["mon"].cut(0.05) == alone.cut(0.05)
    assert found.credence("rate[mon] < 4") == alone.credence("rate < 4")
    assert found["mon"].name == "rate[mon]"
    # independent groups: the possibility of both is the product
    both = found.possibility("mon < 5 and sun > 3")
    assert both == pytest.approx(
        found["mon"].possibility("x < 5") * found["sun"].possibility("x > 3"), rel=1e-12
    )
    with pytest.raises(ValueError, match=r'event "rate > 2": name the group, as in rate\[mon\]'):
        found.credence("rate > 2")
    assert "in 2 groups" in repr(found) and "<svg" in found._repr_html_()


def test_groups_of_numbers_are_sorted_as_numbers():
    found = infer.groups("bernoulli", [1, 0, 1, 1], by=np.array([10, 9, 10, 9]))
    assert found.names == ["9", "10"]
    with pytest.raises(ValueError, match="3 groups for 2 observations"):
        infer.groups("bernoulli", [1, 0], by=["a", "b", "a"])
    with pytest.raises(ValueError, match="by: observation 1 is missing"):
        infer.groups("bernoulli", [1, 0], by=["a", None])
    with pytest.raises(ValueError, match='group "b": '):
        infer.groups("bernoulli", [1, 2], by=["a", "b"])
    with pytest.raises(ValueError, match="gamma: shape is needed"):
        infer.groups("gamma", [1.0], by=["a"])


def test_groups_of_unknown_variance():
    data, by = [1.0, 2.0, 4.0, 9.0, 12.0, 11.0], list("aaabbb")
    found = infer.groups("normal", data, by=by)
    alone = infer.normal(data[:3])
    assert found["a"].cut(0.05) == pytest.approx(alone["mean"].cut(0.05), rel=1e-9)
    assert found.variance("a").cut(0.05) == pytest.approx(alone.variance.cut(0.05), rel=1e-9)
    assert found.necessity("mean[a] < mean[b]") > 0.5
    assert found.possibility("variance[a] < variance[b]") == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda d: infer.bernoulli(d > 3, prior=(0.4, 2.0)),
        lambda d: infer.binomial(d, 40, prior=(9.0, 2.0)),
        lambda d: infer.poisson(d, prior=(2.0, 1.5)),
        lambda d: infer.exponential(d + 0.5),
        lambda d: infer.gamma(d + 0.5, 2.5),
        lambda d: infer.normal(d, 4.0, prior=(1.0, 0.5)),
    ],
)
def test_parts_in_files_are_the_whole(make, tmp_path):
    data = np.random.default_rng(0).poisson(3.0, 40)
    for index, part in enumerate([data[:15], data[15:16], data[16:]]):
        make(part).save(tmp_path / f"{index}.json")
    whole = make(data)
    found = infer.merge(sorted(tmp_path.iterdir()))
    assert found.family == whole.family and found.weight == whole.weight
    assert found.cut(0.1) == pytest.approx(whole.cut(0.1), rel=1e-12)
    assert found.log_consistency == pytest.approx(whole.log_consistency, rel=1e-12)
    # data that came one after the other are stored as one
    steps = make(data[:20]).observe(data[20:] if whole.family != "bernoulli" else data[20:] > 3)
    if whole.family not in ("exponential", "gamma"):
        steps.save(tmp_path / "steps.json")
        again = infer.load(tmp_path / "steps.json")
        assert again.cut(0.1) == pytest.approx(whole.cut(0.1), rel=1e-12)


def test_vectors_in_files(tmp_path):
    infer.categorical(["red", "blue", "red"]).save(tmp_path / "a.json")
    infer.categorical(["green", "red"]).save(tmp_path / "b.json")
    found = infer.merge([tmp_path / "a.json", tmp_path / "b.json"])
    assert found.names == ["blue", "green", "red"]
    np.testing.assert_allclose(found.mode, [0.2, 0.2, 0.6], rtol=1e-12)
    means = infer.multivariate_normal({"a": [1.0, 2.0], "b": [0.0, 3.0]}, [[2.0, 1.0], [1.0, 3.0]])
    means.save(tmp_path / "m.json")
    again = infer.load(tmp_path / "m.json")
    assert again.names == ["a", "b"] and again.credence("a > b") == means.credence("a > b")


def test_files_that_do_not_belong_together(tmp_path):
    infer.poisson([1, 2]).save(tmp_path / "a.json")
    infer.poisson([1, 2], prior=(1.0, 1.0)).save(tmp_path / "b.json")
    infer.exponential([1.0]).save(tmp_path / "c.json")
    with pytest.raises(ValueError, match="different priors; the prior is counted once"):
        infer.merge([tmp_path / "a.json", tmp_path / "b.json"])
    with pytest.raises(ValueError, match="holds a posterior of the family exponential"):
        infer.merge([tmp_path / "a.json", tmp_path / "c.json"])
    with pytest.raises(ValueError, match="is given twice"):
        infer.merge([tmp_path / "a.json", tmp_path / "a.json"])
    with pytest.raises(ValueError, match="there is no such file"):
        infer.load(tmp_path / "none.json")
    (tmp_path / "d.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(ValueError, match='"format" is "other", expected "maxitive-posterior/1"'):
        infer.load(tmp_path / "d.json")
    with pytest.raises(ValueError, match="no file to merge"):
        infer.merge([])
