"""Data frames through the array protocol: the same numbers as from arrays."""

import copy
import pickle

import numpy as np
import pytest

import maxitive
from maxitive import infer
from maxitive.possibility import interval, normal

DATA = {
    "calls": [2, 0, 3, 5, 1, 4],
    "hour": [9.0, 10.0, 11.0, 12.0, 13.0, 14.0],
    "rain": [True, False, False, True, False, True],
    "day": ["mon", "tue", "mon", "wed", "mon", "tue"],
}


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    return pytest.importorskip(request.param).DataFrame(DATA)


def test_columns(frame):
    want = infer.poisson(DATA["calls"])
    assert infer.poisson(frame["calls"]).cut(0.05) == want.cut(0.05)
    days = infer.categorical(frame["day"])
    assert days.names == ["mon", "tue", "wed"]
    np.testing.assert_allclose(days.mode, [0.5, 1 / 3, 1 / 6])
    assert infer.bernoulli(frame["rain"]).mode == 0.5


def test_regression(frame):
    found = infer.poisson_regression(frame["calls"], frame[["hour", "rain"]])
    assert found.names == ["intercept", "hour", "rain"]
    x = np.column_stack([DATA["hour"], np.array(DATA["rain"], float)])
    want = infer.poisson_regression(DATA["calls"], x)
    np.testing.assert_allclose(found.cuts(0.1), want.cuts(0.1), rtol=1e-12)
    # by name, whatever the order and whatever else there is
    new = frame[["rain", "day", "hour"]]
    np.testing.assert_allclose(found.predict(new).mode, want.predict(x).mode, rtol=1e-12)


def test_several_columns_of_a_sample(frame):
    data = frame[["hour", "calls"]]
    found = infer.multivariate_normal(data, np.diag([2.0, 3.0]))
    assert found.names == ["hour", "calls"]
    np.testing.assert_allclose(found.mode, [11.5, 2.5])


def test_what_is_no_number_is_named(frame):
    with pytest.raises(ValueError, match="'day'"):
        infer.linear(frame["calls"], frame[["hour", "day"]])


def test_what_is_missing_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1.0, None, 2.0], "x": [1.0, 2.0, 3.0], "c": ["a", None, "b"]})
    with pytest.raises(ValueError, match="row 1"):
        infer.linear(frame["y"], frame[["x"]])
    with pytest.raises(ValueError, match="observation 1 is missing"):
        infer.categorical(frame["c"])
    with pytest.raises(ValueError, match="1"):
        infer.poisson(frame["y"])


def test_dates_and_complex_numbers_are_no_numbers():
    with pytest.raises(ValueError, match=r"data: not numbers: datetime64\[D\]"):
        infer.poisson(np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(ValueError, match="data: not numbers: complex128"):
        infer.normal(np.array([1 + 2j]), 1.0)


def test_layout_and_byte_order_do_not_matter():
    data = np.arange(1.0, 9.0)
    want = infer.exponential(data).cut(0.1)
    for other in [data.astype(">f8"), np.repeat(data, 2)[::2], data[::-1][::-1], data.tolist()]:
        assert infer.exponential(other).cut(0.1) == want
    rows = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    want = maxitive.evaluate(rows, [0, 1, 1]).in_domain
    for other in [rows.astype(">f8"), np.asfortranarray(rows), rows.tolist(), np.repeat(rows, 2, 0)[::2]]:
        assert maxitive.evaluate(other, np.array([0, 1, 1], dtype=">i4")).in_domain == want


def test_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    rows = torch.tensor([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1])
    want = maxitive.evaluate(rows.numpy(), labels.numpy()).in_domain
    assert maxitive.evaluate(rows.requires_grad_(), labels).in_domain == want
    assert maxitive.evaluate(rows.bfloat16(), labels).in_domain == want
    counts = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert infer.poisson(counts).mode == 2.0


def test_sets_without_names_are_refused():
    rows = np.array([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(ValueError, match="ood: names with their probabilities are expected"):
        maxitive.evaluate(rows, [0, 1], ood=rows)


def test_posteriors_are_copied_and_pickled():
    coin = infer.poisson([1, 2, 5], prior=(2.0, 1.5))
    balls = infer.categorical([3, 1, 3, 2])
    means = infer.multivariate_normal({"a": [1.0, 2.0]}, [[2.0]])
    fit = infer.linear([1.0, 2.0, 4.0], {"t": [0.0, 1.0, 2.0]})
    for one in [coin, balls, means, fit, balls["1"]]:
        assert copy.deepcopy({"kept": one})["kept"] is one and copy.copy(one) is one
    again = pickle.loads(pickle.dumps(coin))
    assert again.cut(0.05) == coin.cut(0.05) and again.weight == coin.weight
    assert again.log_consistency == pytest.approx(coin.log_consistency, rel=1e-12)
    again = pickle.loads(pickle.dumps(balls))
    assert again.classes == [1, 2, 3] and again["3"].cut(0.05) == balls["3"].cut(0.05)
    assert pickle.loads(pickle.dumps(means))["a"].cut(0.05) == means["a"].cut(0.05)
    away = interval(upper=0.3) | interval(lower=0.9, closed="neither")
    assert pickle.loads(pickle.dumps(away)) == away == copy.deepcopy(away)
    f = normal([0.0, 1.0], covariance=[[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(pickle.loads(pickle.dumps(f)).covariance, f.covariance, rtol=1e-12)
