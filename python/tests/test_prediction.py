import math

import numpy as np
import pytest

import maxitive


def test_two_classes_by_hand():
    # the difference of the logits has mode 1 and variance (2 + 2 - 2 * 0.5) / 4
    found = maxitive.bounds([[1.0, 0.0]], [[[2.0, 0.5], [0.5, 2.0]]], precision=4.0)
    variance = 3.0 / 4.0
    d = np.linspace(-10, 10, 2_000_001)
    weights = np.exp(-0.5 * (d - 1.0) ** 2 / variance)
    upper = (weights / (1 + np.exp(-d))).max()
    lower = 1 - (weights / (1 + np.exp(d))).max()
    assert found.answer[0] == 0
    assert found.upper[0, 0] == pytest.approx(upper, rel=1e-9)
    assert found.lower[0, 0] == pytest.approx(lower, rel=1e-9)
    assert found.lower_at_least[0, 0] <= found.lower[0, 0]
    assert found.possibility[0].tolist() == pytest.approx([1.0, math.exp(-0.5 / variance)])
    assert found.necessity[0] == pytest.approx(1 - math.exp(-0.5 / variance))
    assert found.width[0] == pytest.approx(upper - lower, rel=1e-8)


def test_bounds_enclose_and_tighten():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((30, 5))
    jacobian = rng.standard_normal((30, 5, 7))
    gram = np.einsum("nkp,nlp->nkl", jacobian, jacobian)
    wide, narrow = maxitive.bounds(logits, gram, 10.0), maxitive.bounds(logits, gram, 1000.0)
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(wide.probabilities, exponents / exponents.sum(1, keepdims=True))
    slack = 1e-9
    assert (wide.lower <= wide.probabilities + slack).all()
    assert (wide.probabilities <= wide.upper + slack).all()
    assert (wide.upper >= narrow.upper - slack).all() and (wide.lower <= narrow.lower + slack).all()
    np.testing.assert_array_equal(wide.answer, logits.argmax(1))
    # dividing the Gram matrices is the same as the precision
    same = maxitive.bounds(logits, gram / 10.0)
    np.testing.assert_allclose(same.upper, wide.upper, rtol=1e-12)
    assert len(wide) == 30 and "and 10 more" in repr(wide) and "<table>" in wide._repr_html_()


@pytest.mark.parametrize(
    "arguments,message",
    [
        (([[1.0, 0.0]], np.eye(2)), "2 axes, not 3"),
        (([[1.0, 0.0]], [np.eye(3)]), r"shape \[1, 3, 3\], expected \[1, 2, 2\]"),
        (([[1.0, 0.0]], [np.eye(2)], 0.0), "precision 0"),
        (([[1.0, math.nan]], [np.eye(2)]), "image 0: logits"),
        (([[1.0, 0.0]], [-np.eye(2)]), "image 0: covariance"),
        (([1.0, 0.0], [np.eye(2)]), "1 axes, not 2"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        maxitive.bounds(*arguments)
