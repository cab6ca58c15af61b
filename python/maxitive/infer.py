"""Posterior possibility functions of the conjugate families.

A family takes observations (a list, a NumPy array, a column of a data frame) and a prior, which is
a mode and the number of observations that it is worth; without one, nothing is known beforehand.

>>> from maxitive import infer
>>> coin = infer.bernoulli([1, 1, 0, 1, 1], prior=(0.5, 2.0))
>>> round(coin.mode, 6)
0.714286
>>> [round(end, 4) for end in coin.cut(0.05)]
[0.2695, 0.9703]
>>> round(coin.necessity(lower=0.5), 4)
0.4853
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _maxitive

__all__ = ["Posterior", "bernoulli", "exponential", "gamma", "normal", "poisson"]

Prior = tuple[float, float]


class Posterior:
    """A possibility function of the mean parameter of a family, given data."""

    def __init__(self, inner: _maxitive.Posterior) -> None:
        self._inner = inner

    @property
    def family(self) -> str:
        """Name of the family."""
        return self._inner.family

    @property
    def mode(self) -> float | None:
        """The value that is fully possible; `None` where all are."""
        return self._inner.mode

    @property
    def weight(self) -> float:
        """How many observations it is worth, those of the prior included."""
        return self._inner.weight

    @property
    def log_consistency(self) -> float:
        """Log of how well the last data fit what was known before; 0 where nothing was."""
        return self._inner.log_consistency

    def observe(self, data: ArrayLike) -> Posterior:
        """The posterior after more data."""
        return Posterior(self._inner.observe(_column(data)))

    def cut(self, alpha: float = 0.05) -> tuple[float, float]:
        """The values with a possibility of at least `alpha`, an interval."""
        return self._inner.cut(alpha)

    def __call__(self, value: ArrayLike) -> Any:
        """The possibility of a value, or of each value of an array."""
        array = np.asarray(value, dtype=np.float64)
        if array.ndim == 0:
            return self._inner.at(float(array))
        return np.array([self._inner.at(float(x)) for x in array.ravel()]).reshape(array.shape)

    def possibility(self, lower: float = -math.inf, upper: float = math.inf) -> float:
        """Possibility that the parameter is between `lower` and `upper`."""
        return self._inner.credence(lower, upper)[0]

    def necessity(self, lower: float = -math.inf, upper: float = math.inf) -> float:
        """Necessity of that: 1 less the possibility of the contrary."""
        return self._inner.credence(lower, upper)[1]

    def __repr__(self) -> str:
        if self.mode is None:
            return f"<{self.family}: nothing is known>"
        low, high = self.cut(0.05)
        return f"<{self.family}: mode {self.mode:.6g}, 0.05-cut [{low:.6g}, {high:.6g}]>"

    def _repr_html_(self) -> str:
        """The curve, for a notebook."""
        if self.mode is None:
            return f"<p>{self.family}: nothing is known</p>"
        width, height = 420, 160
        low, high = (self._finite(end) for end in self.cut(1e-3))
        xs = np.linspace(low, high, 201)
        points = " ".join(
            f"{width * i / 200:.1f},{10 + (height - 20) * (1 - y):.1f}"
            for i, y in enumerate(self(xs))
        )
        ends = " ".join(f"{end:.6g}" for end in self.cut(0.05))
        return (
            f'<figure><svg viewBox="0 0 {width} {height + 20}" width="{width}" role="img" '
            f'aria-label="possibility from {low:.4g} to {high:.4g}, mode {self.mode:.4g}">'
            f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="2"/>'
            f'<text x="0" y="{height + 15}" font-size="12">{low:.4g}</text>'
            f'<text x="{width}" y="{height + 15}" font-size="12" text-anchor="end">{high:.4g}</text>'
            f"</svg><figcaption>{self.family}: mode {self.mode:.6g}, 0.05-cut {ends}"
            "</figcaption></figure>"
        )

    def _finite(self, end: float) -> float:
        # an infinite cut is drawn to where it is nearly flat
        if math.isfinite(end):
            return end
        return (self.mode or 0.0) + math.copysign(10.0 * (1.0 + abs(self.mode or 0.0)), end)


def bernoulli(data: ArrayLike, prior: Prior | None = None) -> Posterior:
    """Probability of 1, from observations that are 0 or 1."""
    return _infer("bernoulli", 0.0, data, prior)


def poisson(data: ArrayLike, prior: Prior | None = None) -> Posterior:
    """Rate, from counts."""
    return _infer("poisson", 0.0, data, prior)


def exponential(data: ArrayLike, prior: Prior | None = None) -> Posterior:
    """Mean, from positive numbers."""
    return _infer("exponential", 0.0, data, prior)


def gamma(data: ArrayLike, shape: float, prior: Prior | None = None) -> Posterior:
    """Mean, from positive numbers with a known shape."""
    return _infer("gamma", shape, data, prior)


def normal(data: ArrayLike, variance: float, prior: Prior | None = None) -> Posterior:
    """Mean, from numbers with a known variance."""
    return _infer("normal", variance, data, prior)


def _infer(family: str, known: float, data: ArrayLike, prior: Prior | None) -> Posterior:
    start = _maxitive.Posterior(family, known, prior)
    return Posterior(start.observe(_column(data)))


def _column(data: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.asarray(data)
    if array.ndim != 1:
        raise ValueError(f"data have {array.ndim} axes, not 1")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"data are {array.dtype}, not numbers") from None
