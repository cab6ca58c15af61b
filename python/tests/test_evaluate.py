import math

import numpy as np
import pytest

import maxitive

metrics = pytest.importorskip("sklearn.metrics")


def predictions(rows, classes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.standard_normal((rows, classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(classes, p=p) for p in probs])
    return probs.astype(dtype), labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_scikit_learn(dtype):
    probs, labels = predictions(501, 7, dtype=dtype)
    other, _ = predictions(300, 7, seed=1, dtype=dtype)
    other = (0.3 * other + 0.1).astype(dtype)
    other /= other.sum(1, keepdims=True)
    found = maxitive.evaluate(probs, labels, ood={"other": other})
    right = probs.argmax(1) == labels
    top = probs.max(1).astype(float)
    assert found.in_domain["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    want = metrics.log_loss(labels, probs.astype(float), labels=range(7))
    assert found.in_domain["nll"] == pytest.approx(want, rel=1e-6)
    assert found.in_domain["auroc"] == pytest.approx(metrics.roc_auc_score(right, top), abs=1e-12)
    positive = np.r_[np.ones(501), np.zeros(300)]
    scores = np.r_[top, other.max(1).astype(float)]
    out = found.out_of_domain["other"]
    assert out["auroc"] == pytest.approx(metrics.roc_auc_score(positive, scores), abs=1e-12)
    assert out["aupr_in"] == pytest.approx(metrics.average_precision_score(positive, scores), abs=1e-12)
    assert sum(b["count"] for b in found.reliability["bins"]) == 501
    assert "auroc" in repr(found) and "<table>" in found._repr_html_()


def test_bootstrap_intervals_hold_the_estimate_and_do_not_change():
    probs, labels = predictions(400, 5)
    one = maxitive.evaluate(probs, labels, bootstrap=200, seed=3)
    two = maxitive.evaluate(probs, labels, bootstrap=200, seed=3)
    interval = one.intervals["accuracy"]
    assert interval["low"] < one.in_domain["accuracy"] < interval["high"]
    assert one.intervals == two.intervals
    assert "[" in repr(one)


@pytest.mark.parametrize(
    "arguments,message",
    [
        (([[0.5, 0.5]],), "at least one is needed"),
        (([0.5, 0.5], [0]), "1 axes, not 2"),
        (([[0.5, 0.5]], [0, 1]), r"shape \(2,\), not \(1,\)"),
        (([[0.5, 0.5]], [0.0]), "not integers"),
        (([[0.5, 0.5]], [2]), "2"),
        (([[0.5, 0.6]], [0]), "row 0"),
        (([[math.nan, 0.6]], [0]), "NaN"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        maxitive.evaluate(*arguments)


def test_settings_are_checked():
    for options, message in [
        ({"score": "luck"}, "maximum probability"),
        ({"bins": 0}, "bins"),
        ({"scheme": "odd"}, "equal-mass"),
        ({"bootstrap": -1}, "negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            maxitive.evaluate([[0.5, 0.5]], [0], ood={"x": [[1.0, 0.0]]}, **options)
