import math
import threading
import time

import numpy as np
import pytest

from maxitive import infer
from maxitive.possibility import interval


def logistic_data(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 2))
    p = 1 / (1 + np.exp(-(0.3 + x @ [1.0, -0.5])))
    return x, (rng.random(rows) < p).astype(int)


def profile(loss, fixed, value, start):
    """exp(-(min of the loss with one coefficient held - its minimum)), by coordinate Newton."""
    free = [j for j in range(len(start)) if j != fixed]
    w = np.array(start, float)
    w[fixed] = value
    for _ in range(200):
        gradient, hessian = derivatives(loss, w)
        step = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        w[free] -= step
        if np.abs(step).max() < 1e-12:
            break
    return w


def derivatives(loss, w):
    # exact for logistic regression: the loss knows its own derivatives
    return loss(w)[1:]


def make_loss(x, y, precision):
    rows = np.column_stack([np.ones(len(x)), x])
    prior = np.diag([0.0] + [precision] * x.shape[1])

    def loss(w):
        z = rows @ w
        p = 1 / (1 + np.exp(-z))
        value = np.logaddexp(0, z).sum() - y @ z + 0.5 * w @ prior @ w
        return (
            value,
            rows.T @ (p - y) + prior @ w,
            rows.T @ (rows * (p * (1 - p))[:, None]) + prior,
        )

    return loss


def test_profiles_of_a_logistic_regression():
    x, y = logistic_data()
    found = infer.logistic(y, x, prior_precision=0.5, names=["a", "b"])
    assert found.names == ["intercept", "a", "b"] and found.rows == 60 and len(found) == 3
    loss = make_loss(x, y, 0.5)
    _, gradient, hessian = loss(found.mode)
    assert np.abs(gradient).max() < 1e-8
    np.testing.assert_allclose(found.laplace().precision, hessian, rtol=1e-8)
    a = found["a"]
    for value in [a.mode - 0.7, a.mode + 0.4]:
        w = profile(loss, 1, value, found.mode)
        want = math.exp(-(loss(w)[0] - loss(found.mode)[0]))
        assert a(value) == pytest.approx(want, rel=1e-7)
    low, high = a.cut(0.1)
    np.testing.assert_allclose(a([low, high]), [0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(found.cuts(0.1)[1], [low, high], rtol=1e-9)
    assert found.certified_to(0.1) < 1e-6
    assert a.necessity(lower=low) == pytest.approx(0.9, rel=1e-6)
    # a contrast is a linear form, by name or by place
    one = found.form({"a": 1.0, "b": -1.0}, "a - b")
    two = found.form([0.0, 1.0, -1.0])
    assert one.cut(0.05) == two.cut(0.05) and one.name == "a - b"


def test_predictions_are_forms_through_the_link():
    x, y = logistic_data()
    found = infer.logistic(y, x, names=["a", "b"])
    new = np.array([[0.5, -1.0], [0.0, 0.0]])
    answer = found.predict(new, alpha=[0.05, 0.5], event=interval(lower=0.5))
    for row, covariates in enumerate(new):
        form = found.form([1.0, *covariates])
        sigmoid = 1 / (1 + math.exp(-form.mode))
        assert answer.mode[row] == pytest.approx(sigmoid, rel=1e-12)
        for level, alpha in enumerate([0.05, 0.5]):
            low, high = form.cut(alpha)
            assert answer.lower[row, level] == pytest.approx(1 / (1 + math.exp(-low)), rel=1e-9)
            assert answer.upper[row, level] == pytest.approx(1 / (1 + math.exp(-high)), rel=1e-9)
        credence = form.credence(lower=0.0)
        assert answer.possibility[row] == pytest.approx(credence.possibility, rel=1e-9)
        assert answer.necessity[row] == pytest.approx(credence.necessity, rel=1e-9)
    assert answer.certified_to is not None
    plain = found.predict(new)
    assert plain.lower.shape == (2, 2) and plain.possibility.shape == (0,)


def test_linear_regression_has_closed_forms():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40, 2))
    y = 1.0 + x @ [2.0, -1.0] + 0.5 * rng.standard_normal(40)
    rows = np.column_stack([np.ones(40), x])
    coefficients, squares, *_ = np.linalg.lstsq(rows, y, rcond=None)
    inverse = np.linalg.inv(rows.T @ rows)
    unknown = infer.linear(y, x)
    np.testing.assert_allclose(unknown.mode, coefficients, rtol=1e-10)
    variance = float(squares[0]) / 40
    assert unknown.variance.mode == pytest.approx(variance, rel=1e-10)
    t = unknown.mode[1] + 0.2
    want = (1 + 0.2**2 / (40 * variance * inverse[1, 1])) ** -20
    assert unknown["x1"](t) == pytest.approx(want, rel=1e-9)
    known = infer.linear(y, x, variance=0.25)
    assert known.variance is None
    assert known["x1"](t) == pytest.approx(math.exp(-0.5 * 0.04 / (0.25 * inverse[1, 1])), rel=1e-9)
    # the mean response of a linear regression is the form itself
    assert unknown.predict([[0.0, 0.0]]).mode[0] == pytest.approx(unknown.mode[0])


def test_poisson_regression_and_weights():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((50, 1))
    y = rng.poisson(np.exp(0.5 + 0.8 * x[:, 0]))
    found = infer.poisson_regression(y, x)
    rates = np.exp(np.column_stack([np.ones(50), x]) @ found.mode)
    np.testing.assert_allclose(np.column_stack([np.ones(50), x]).T @ (rates - y), 0, atol=1e-6)
    twice = infer.poisson_regression(y, x, weights=np.full(50, 2.0))
    double = infer.poisson_regression(np.r_[y, y], np.r_[x, x])
    np.testing.assert_allclose(twice.cuts(0.1), double.cuts(0.1), rtol=1e-8)


def test_unknown_variance_of_a_sample():
    data = [1.0, 2.0, 4.0, 0.5]
    found = infer.normal(data)
    mean, variance = np.mean(data), np.var(data)
    assert found["mean"].mode == pytest.approx(mean)
    assert found.variance.mode == pytest.approx(variance)
    want = (1 + (0.7**2 / variance)) ** -2
    assert found["mean"](mean + 0.7) == pytest.approx(want, rel=1e-9)
    prior = infer.normal(data, prior=(0.0, 2.0))
    assert prior["mean"].mode == pytest.approx(sum(data) / 6)


def test_without_an_intercept():
    x, y = logistic_data()
    found = infer.logistic(y, {"intercept": np.ones(60), "a": x[:, 0]}, intercept=False)
    assert found.names == ["intercept", "a"]
    assert found.predict({"intercept": [1.0], "a": [0.0]}).mode.shape == (1,)
    with pytest.raises(ValueError, match="no covariates to predict at"):
        infer.normal([1.0, 2.0, 4.0]).predict([[1.0]])


def test_standardized_prior_does_not_depend_on_units():
    x, y = logistic_data()
    a = infer.logistic(y, x, standardize=True)
    b = infer.logistic(y, x * [10.0, 0.1] + [3.0, 0.0], standardize=True)
    np.testing.assert_allclose(a.cuts(0.05)[1], 10.0 * b.cuts(0.05)[1], rtol=1e-7)


def test_shows_itself():
    x, y = logistic_data()
    found = infer.logistic(y, x, names=["a", "<b>"])
    assert "logistic: 60 observations" in repr(found) and "intercept" in repr(found)
    page = found._repr_html_()
    assert "<svg" in page and "&lt;b&gt;" in page and "<b>" not in page
    assert "Laplace" in found["a"]._repr_html_()
    wide = infer.linear(np.arange(40.0) % 7, np.random.default_rng(0).random((40, 14)))
    assert "<svg" not in wide._repr_html_() and "<table>" in wide._repr_html_()


def test_other_threads_run_meanwhile():
    # as many rows as it takes to be slow, whatever the build
    for rows in [20_000, 80_000, 320_000, 1_280_000]:
        x, y = logistic_data(rows)
        ticks, stop = [], threading.Event()

        def count():
            while not stop.is_set():
                ticks.append(1)
                stop.wait(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        start = time.perf_counter()
        infer.logistic(y, x, threads=1)["x1"].cut(0.05)
        seconds = time.perf_counter() - start
        stop.set()
        thread.join()
        if seconds > 0.05:
            break
    # holding the lock, the fit would let it tick once or twice
    assert len(ticks) > 2


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda x, y: infer.logistic(y, x[:-1]), ValueError, "60 responses for 59 rows"),
        (lambda x, y: infer.logistic(y + 1, x), ValueError, r"row 1: response 2 is not in \{0, 1\}"),
        (lambda x, y: infer.logistic(y, x * [1, np.nan]), ValueError, "row 0"),
        (lambda x, y: infer.logistic(y, x, prior_precision=-1.0), ValueError, "-1"),
        (lambda x, y: infer.logistic(y, x, names=["a"]), ValueError, "1 for 2 columns"),
        (lambda x, y: infer.logistic(y, x, names=["a", "a"]), ValueError, "more than one column"),
        (lambda x, y: infer.logistic(y, {"intercept": x[:, 0]}), ValueError, "'intercept'"),
        (lambda x, y: infer.logistic(y, {"a": x[:, 0], "b": x[:3, 0]}), ValueError, "lengths"),
        (lambda x, y: infer.logistic(y, {"a": ["u"] * 60}), ValueError, r"\['a'\]: not numbers"),
        (lambda x, y: infer.logistic(y, x, weights=[1.0]), ValueError, "1 weights for 60"),
        (lambda x, y: infer.linear(y, x, variance=0.0), ValueError, "0"),
        (lambda x, y: infer.logistic(y, np.c_[x, x], prior_precision=0.0), ValueError, "definite"),
        (lambda x, y: infer.logistic(y, x)["c"], KeyError, "none of intercept, x1, x2"),
        (lambda x, y: infer.logistic(y, x)[3], IndexError, "no number 3"),
        (lambda x, y: infer.logistic(y, x).form({"c": 1.0}), KeyError, "c"),
        (lambda x, y: infer.logistic(y, x).form([1.0]), ValueError, "1 for 3"),
        (lambda x, y: infer.logistic(y, x).form([0.0] * 3).cut(), ValueError, "linear form"),
        (lambda x, y: infer.logistic(y, x).predict(x[:, :1]), ValueError, "2 were fitted"),
        (lambda x, y: infer.logistic(y, x).predict({"x1": [1.0]}), ValueError, "no column 'x2'"),
        (lambda x, y: infer.logistic(y, x)["x1"].cut(2.0), ValueError, "2"),
    ],
)
def test_mistakes_are_named(call, error, message):
    x, y = logistic_data()
    with pytest.raises(error, match=message):
        call(x, y)
