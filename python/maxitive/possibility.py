"""Possibility theory: events, and normal possibility functions in any dimension.

>>> from maxitive import possibility
>>> f = possibility.normal([0.0, 1.0], covariance=[[2.0, 0.5], [0.5, 1.0]])
>>> f.marginal([1]).necessity(possibility.interval(upper=3.0)).__round__(4)
0.8647
>>> both, log_consistency = f.fuse(possibility.normal([1.0, 1.0], precision=[[1.0, 0], [0, 1.0]]))
>>> [round(float(x), 4) for x in both.mode], round(log_consistency, 4)
([0.6522, 1.087], -0.1739)

Events are sets of numbers, made of intervals with `|`, `&`, `-` and `~`, or regions of several
dimensions.

>>> away = possibility.interval(upper=-1.0) | possibility.interval(lower=1.0, closed="neither")
>>> away, 1.0 in away, ~away
([-inf, -1] ∪ (1, inf], False, (-1, 1])
>>> round(f.possibility(possibility.box([(1.0, None), (None, 0.0)])), 4)
0.3189
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _maxitive
from ._arrays import Floats, column, matrix
from ._function import Credence, Function, Immutable
from ._maxitive import Event, Region

__all__ = [
    "Credence",
    "Event",
    "Function",
    "Normal",
    "Region",
    "box",
    "event",
    "half_space",
    "interval",
    "normal",
    "points",
]

_CLOSED = {"both": (True, True), "left": (True, False), "right": (False, True)}
_CLOSED["neither"] = (False, False)


def interval(lower: float = -math.inf, upper: float = math.inf, closed: str = "both") -> Event:
    """The numbers from `lower` to `upper`; `closed` is both, left, right or neither.

    It speaks of finite ends: the infinite ones always belong to an interval.
    """
    if closed not in _CLOSED:
        raise ValueError(f"closed {closed!r} is none of {', '.join(_CLOSED)}")
    left, right = _CLOSED[closed]
    return Event([(lower, upper, left or math.isinf(lower), right or math.isinf(upper))])


def event(text: str, name: str = "x") -> Event:
    """The numbers that a text speaks of, as on the command line.

    >>> from maxitive import possibility
    >>> possibility.event("0.2 <= x < 0.4 or x = 1")
    [0.2, 0.4) ∪ {1}
    """
    return Event.parse(text, [name])


def points(values: ArrayLike) -> Event | Region:
    """Finitely many numbers, or, from an array `[n, d]`, finitely many points."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2:
        return Region.points(array.tolist())
    return Event([(x, x, True, True) for x in column(values, "points").tolist()])


def box(sides: Iterable[tuple[float | None, float | None]]) -> Region:
    """The product of one interval per coordinate; `None` is an infinite end."""
    return Region.box(
        [
            (-math.inf if lower is None else lower, math.inf if upper is None else upper)
            for lower, upper in sides
        ]
    )


def half_space(normal: ArrayLike, offset: float) -> Region:
    """The points whose inner product with `normal` is at least `offset`."""
    return Region.half_space(column(normal, "normal").tolist(), offset)


def normal(
    mode: ArrayLike, *, covariance: ArrayLike | None = None, precision: ArrayLike | None = None
) -> Normal:
    """The function ``exp(-(x - mode)' precision (x - mode) / 2)``.

    Mode and matrix are numbers for one dimension, an array `[d]` and a matrix `[d, d]` for several;
    either the precision or its inverse, the covariance, is given.

    >>> from maxitive import possibility
    >>> f = possibility.normal(2.0, covariance=4.0)
    >>> f(4.0), [round(float(end), 4) for end in f.cut(0.05)]
    (0.6065306597126334, [-2.8955, 6.8955])
    """
    if (covariance is None) == (precision is None):
        raise ValueError("either covariance or precision is needed")
    name, given = ("covariance", covariance) if precision is None else ("precision", precision)
    center = np.atleast_1d(np.asarray(mode, dtype=np.float64))
    entries = np.asarray(given, dtype=np.float64)
    if entries.ndim == 0:
        entries = entries.reshape(1, 1)
    inner = _maxitive.Normal(
        column(center, "mode").tolist(), matrix(entries, name), precision is not None
    )
    return Normal._wrap(inner)


class Normal(Immutable):
    """A normal possibility function in `d` dimensions; `normal` makes one."""

    _inner: _maxitive.Normal

    @classmethod
    def _wrap(cls, inner: _maxitive.Normal) -> Normal:
        found = cls()
        found._inner = inner
        return found

    @property
    def mode(self) -> Floats:
        """The point that is fully possible."""
        return self._inner.mode

    @property
    def precision(self) -> Floats:
        """Minus the Hessian of the log, `[d, d]`."""
        return self._inner.precision

    @property
    def covariance(self) -> Floats:
        """The inverse of the precision, `[d, d]`."""
        return self._inner.covariance

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.mode)

    def log_possibility(self, point: ArrayLike) -> Any:
        """The log of the possibility of a point, or of each of several, in the last axis."""
        array = np.asarray(point, dtype=np.float64)
        if self.dimension == 1 and (array.ndim == 0 or array.shape[-1] != 1):
            array = array[..., None]
        flat = np.ascontiguousarray(array.reshape(-1, array.shape[-1]))
        found = self._inner.log_at(flat).reshape(array.shape[:-1])
        return float(found) if found.ndim == 0 else found

    def __call__(self, point: ArrayLike) -> Any:
        """The possibility of a point, or of each of several, in the last axis."""
        logs = self.log_possibility(point)
        return math.exp(logs) if isinstance(logs, float) else np.exp(logs)

    def credence(self, event: Event | Region) -> Credence:
        """Possibility and necessity of an event; one dimension takes sets of numbers, too."""
        return Credence(*self._inner.credence(event))

    def possibility(self, event: Event | Region) -> float:
        """The largest possibility of a point of the event."""
        return self.credence(event).possibility

    def necessity(self, event: Event | Region) -> float:
        """1 less the possibility of the contrary."""
        return self.credence(event).necessity

    def cut(self, alpha: float = 0.05) -> Any:
        """The points of possibility at least `alpha`: in one dimension the ends of an interval,
        in several an ellipsoid, whose extent along the axes `extents` tells."""
        return self.extents(alpha)[0] if self.dimension == 1 else Region.cut(self._inner, alpha)

    def extents(self, alpha: float = 0.05) -> Floats:
        """The ends of each coordinate over the cut, `[d, 2]`: those of its marginal's cut."""
        return np.array(self._inner.extents(alpha))

    def marginal(self, coordinates: Sequence[int]) -> Normal:
        """The supremum over all other coordinates."""
        return Normal._wrap(self._inner.marginal(list(coordinates)))

    def conditional(self, coordinates: Sequence[int], values: ArrayLike) -> Normal:
        """The function of the other coordinates, where these have known values."""
        known = column(values, "values").tolist()
        return Normal._wrap(self._inner.conditional(list(coordinates), known))

    def fuse(self, other: Normal) -> tuple[Normal, float]:
        """Both together, and the log of their consistency, far below 0 where they conflict."""
        both, log_consistency = self._inner.fuse(other._inner)
        return Normal._wrap(both), log_consistency

    def affine_image(self, rows: ArrayLike, offset: ArrayLike | None = None) -> Normal:
        """The function of ``rows @ x + offset``."""
        entries = matrix(rows, "rows")
        added = np.zeros(len(entries)) if offset is None else column(offset, "offset")
        return Normal._wrap(self._inner.affine_image(entries, added))

    def precedes(self, other: Normal) -> bool:
        """Whether it is nowhere above the other: says at least as much."""
        return self._inner.precedes(other._inner)

    def max_relative_entropy(self, other: Normal) -> float:
        """The supremum of the log of it over the other; 0 where it precedes the other."""
        return self._inner.max_relative_entropy(other._inner)

    def coordinate(self, index: int, name: str | None = None) -> Function:
        """One coordinate as a function of one number, with its curve."""
        return Function(self._inner.coordinate(index, f"x{index + 1}" if name is None else name))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.mode, self.precision)

    def __repr__(self) -> str:
        mode = ", ".join(f"{x:.6g}" for x in self.mode)
        return f"<normal: mode [{mode}], precision {self.precision.tolist()}>"

    def _repr_html_(self) -> str:
        from ._function import ALPHAS, figure, rows

        functions = [self.coordinate(index) for index in range(min(self.dimension, 12))]
        svg = _maxitive.svg_of_functions([f._function for f in functions], list(ALPHAS))
        return figure(svg, rows(functions), f"normal in {self.dimension} dimensions: marginals")


def _restore(mode: Floats, precision: Floats) -> Normal:
    """A pickled normal function."""
    return normal(mode, precision=precision)
