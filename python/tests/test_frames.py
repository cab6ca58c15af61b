"""Data frames through the array protocol: the same numbers as from arrays."""

import numpy as np
import pytest

from maxitive import infer

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
