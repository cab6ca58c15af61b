import math

import numpy as np
import pytest

from maxitive import possibility
from maxitive.possibility import box, half_space, interval, normal, points


def test_one_dimension_by_hand():
    f = normal(1.0, covariance=4.0)
    assert f(3.0) == pytest.approx(math.exp(-0.5), rel=1e-15)
    np.testing.assert_allclose(f([1.0, 5.0]), [1.0, math.exp(-2.0)], rtol=1e-15)
    reach = 2.0 * math.sqrt(-2.0 * math.log(0.05))
    np.testing.assert_allclose(f.cut(0.05), [1.0 - reach, 1.0 + reach], rtol=1e-14)
    assert f.possibility(interval(upper=-1.0)) == pytest.approx(math.exp(-0.5), rel=1e-14)
    assert f.necessity(interval(lower=-1.0)) == pytest.approx(1 - math.exp(-0.5), rel=1e-14)
    # an event and its contrary: one of them is fully possible
    away = interval(upper=0.0) | interval(lower=2.0)
    assert max(f.possibility(away), f.possibility(~away)) == 1.0
    assert f.necessity(~away) == pytest.approx(1 - f.possibility(away), rel=1e-14)


def test_several_dimensions_against_dense_formulas():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    covariance = root @ root.T + np.eye(3)
    mode = rng.standard_normal(3)
    f = normal(mode, covariance=covariance)
    x = rng.standard_normal((5, 3))
    d = x - mode
    want = np.exp(-0.5 * np.einsum("ni,ij,nj->n", d, np.linalg.inv(covariance), d))
    np.testing.assert_allclose(f(x), want, rtol=1e-12)
    np.testing.assert_allclose(f.precision, np.linalg.inv(covariance), rtol=1e-12)
    # a marginal is a supremum: the covariance of the coordinates alone
    np.testing.assert_allclose(f.marginal([2, 0]).covariance, covariance[np.ix_([2, 0], [2, 0])])
    given = f.conditional([1], [0.3])
    gain = covariance[[0, 2], 1] / covariance[1, 1]
    np.testing.assert_allclose(given.mode, mode[[0, 2]] + gain * (0.3 - mode[1]), rtol=1e-12)
    # a half-space by its closed form, and the range of a coordinate over the cut
    a, b = np.array([1.0, -2.0, 0.5]), float(mode @ [1.0, -2.0, 0.5]) + 3.0
    want = math.exp(-0.5 * 9.0 / (a @ covariance @ a))
    assert f.possibility(half_space(a, b)) == pytest.approx(want, rel=1e-12)
    reach = np.sqrt(-2.0 * math.log(0.1) * np.diag(covariance))
    np.testing.assert_allclose(f.extents(0.1), np.column_stack([mode - reach, mode + reach]))
    cut = f.cut(0.1)
    assert mode.tolist() in cut and (mode + 1.01 * 10 * reach).tolist() not in cut
    assert f.necessity(cut) == pytest.approx(0.9, rel=1e-12)
    assert f.possibility(~cut) == pytest.approx(0.1, rel=1e-12)
    assert f.possibility(points(x)) == pytest.approx(f(x).max(), rel=1e-12)
    image = f.affine_image([[1.0, 1.0, 1.0]], [2.0])
    assert image.mode[0] == pytest.approx(mode.sum() + 2.0)
    assert image.covariance[0, 0] == pytest.approx(covariance.sum())


def test_boxes_against_a_grid():
    f = normal([0.0, 1.0], precision=[[2.0, 0.7], [0.7, 1.0]])
    corner = box([(1.0, None), (None, 0.5)])
    xs, ys = np.meshgrid(np.linspace(1, 4, 601), np.linspace(-4, 0.5, 601))
    want = f(np.stack([xs, ys], -1)).max()
    # the maximum lies on an edge of the grid, so that the grid has it to second order
    assert want <= f.possibility(corner) <= want * (1 + 1e-4)
    assert [1.0, 0.5] in corner and [0.9, 0.5] not in corner and [0.9, 0.5] in ~corner


def test_fusion_and_order():
    f, g = normal(0.0, covariance=1.0), normal(4.0, covariance=3.0)
    both, log_consistency = f.fuse(g)
    assert both.mode[0] == pytest.approx(1.0) and both.covariance[0, 0] == pytest.approx(0.75)
    assert log_consistency == pytest.approx(-2.0)
    narrow = normal(0.0, covariance=0.5)
    assert narrow.precedes(f) and not f.precedes(narrow)
    assert narrow.max_relative_entropy(f) == 0.0 and f.max_relative_entropy(narrow) == math.inf


def test_events_are_sets():
    event = interval(0.0, 1.0, closed="left") | points([2.0])
    assert 0.0 in event and 1.0 not in event and 2.0 in event and 1.5 not in event
    assert repr(event) == "[0, 1) ∪ {2}"
    assert event & interval(0.5, 3.0) == interval(0.5, 1.0, closed="left") | points([2.0])
    assert (event - points([2.0])).intervals == [(0.0, 1.0, True, False)]
    assert ~~event == event and hash(~~event) == hash(event)


def test_shows_itself():
    f = normal([0.0, 1.0], covariance=[[1.0, 0.2], [0.2, 1.0]])
    assert "mode [0, 1]" in repr(f)
    page = f._repr_html_()
    assert page.count("<svg") == 1 and "x2" in page and "<table>" in page
    assert "<box" in repr(box([(0.0, 1.0)])) and "0.1-cut" in repr(f.cut(0.1))


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: normal(0.0), "either covariance or precision"),
        (lambda: normal(0.0, covariance=-1.0), "not positive definite"),
        (lambda: normal([0.0, 1.0], covariance=1.0), "expected"),
        (lambda: normal([0.0, 1.0], covariance=[[1.0, 0.5], [0.2, 1.0]]), "not symmetric"),
        (lambda: normal(math.nan, covariance=1.0), "mode"),
        (lambda: normal([0.0, 1.0], precision=np.eye(2))([1.0, 2.0, 3.0]), "3 coordinates"),
        (lambda: normal([0.0, 1.0], precision=np.eye(2)).cut(1.5), "1.5"),
        (lambda: normal([0.0, 1.0], precision=np.eye(2)).marginal([2]), "2"),
        (lambda: normal([0.0, 1.0], precision=np.eye(2)).possibility(box([(0, 1)])), "box"),
        (lambda: normal([0.0, 1.0], precision=np.eye(2)).possibility(interval(0, 1)), "2"),
        (lambda: interval(1.0, 0.0), "0"),
        (lambda: interval(closed="most"), "most"),
        (lambda: half_space([0.0, 0.0], 1.0).__contains__([1.0, 1.0]), "half-space"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_module_is_reached_from_the_package():
    import maxitive

    assert maxitive.possibility is possibility
