"""Possibility functions of one number."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from . import _maxitive
from ._maxitive import Event

ALPHAS = (0.05, 0.5)
T = TypeVar("T")


class Credence(NamedTuple):
    """How well an event agrees with what is known, and how certain it is."""

    possibility: float
    necessity: float


def event(lower: float | Event | str, upper: float, names: Sequence[str]) -> Event:
    """The numbers from `lower` to `upper`, or an event, as it is or as text about these names."""
    if isinstance(lower, (Event, str)):
        if upper != math.inf:
            raise ValueError(f"an event has its own ends: upper {upper} is one too many")
        return Event.parse(lower, list(names)) if isinstance(lower, str) else lower
    return Event([(lower, upper, True, True)])


class Immutable:
    """Nothing changes it, so that it is its own copy."""

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        return self


class Function(Immutable):
    """A possibility function of one number whose cuts are intervals."""

    def __init__(self, function: _maxitive.Function) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """What the number is."""
        return self._function.name

    @property
    def mode(self) -> float | None:
        """The value that is fully possible; `None` where all are."""
        return self._function.mode

    @property
    def precision(self) -> float | None:
        """Minus the second derivative of the log at the mode; `None` at the end of the domain."""
        return self._function.precision

    @property
    def domain(self) -> tuple[float, float]:
        """Where the number lives."""
        return self._function.domain

    def cut(self, alpha: float = 0.05) -> tuple[float, float]:
        """The values with a possibility of at least `alpha`, an interval."""
        return self._function.cut(alpha)

    def __call__(self, value: ArrayLike) -> Any:
        """The possibility of a value, or of each value of an array."""
        array = np.asarray(value, dtype=np.float64)
        found = self._function.at(np.ascontiguousarray(array.ravel())).reshape(array.shape)
        return float(found) if array.ndim == 0 else found

    def credence(
        self, lower: float | Event | str = -math.inf, upper: float = math.inf
    ) -> Credence:
        """Possibility and necessity that the number is between `lower` and `upper`, ends included.

        An event may stand in place of the ends: text, as on the command line, that calls the
        number by its name or `x`, or `maxitive.possibility.interval` and what is made of it.

        >>> from maxitive import infer
        >>> coin = infer.bernoulli([1, 0, 1, 1, 0])
        >>> round(coin.necessity("p > 0.5"), 7)
        0.0957755
        >>> coin.possibility("x < 0.2 or x > 0.9") == coin.possibility("not 0.2 <= p <= 0.9")
        True
        """
        return Credence(*self._function.credence(event(lower, upper, ["x", self.name])))

    def possibility(
        self, lower: float | Event | str = -math.inf, upper: float = math.inf
    ) -> float:
        """Possibility that the number is between `lower` and `upper`; see `credence`."""
        return self.credence(lower, upper).possibility

    def necessity(
        self, lower: float | Event | str = -math.inf, upper: float = math.inf
    ) -> float:
        """Necessity of that: 1 less the possibility of the contrary."""
        return self.credence(lower, upper).necessity

    def svg(self, alphas: Iterable[float] = ALPHAS) -> str:
        """The curve with its cuts and its mode, as an SVG document."""
        return self._function.svg(list(alphas))

    def _title(self) -> str:
        return self.name

    def __repr__(self) -> str:
        if self.mode is None:
            return f"<{self._title()}: nothing is known>"
        return f"<{self._title()}: mode {self.mode:.6g}, 0.05-cut {interval(self.cut(0.05))}>"

    def _repr_html_(self) -> str:
        """The curve and a table, for a notebook."""
        if self.mode is None:
            return f"<p>{html.escape(self._title())}: nothing is known</p>"
        return figure(self.svg(), rows([self]), self._title())


def interval(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.6g}, {ends[1]:.6g}]"


def rows(functions: Iterable[Function]) -> list[list[str]]:
    """Name, mode and cuts of each."""
    return [
        [f.name, "" if f.mode is None else f"{f.mode:.6g}", *(interval(f.cut(a)) for a in ALPHAS)]
        for f in functions
    ]


def text(cells: list[list[str]], title: str) -> str:
    """Cells in columns, for a terminal."""
    header = ["", "mode", *(f"{alpha:g}-cut" for alpha in ALPHAS)]
    lines = [header, *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    shown = ("  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths)).rstrip() for line in lines)
    return "\n".join([title, *shown])


def table(cells: list[list[str]]) -> str:
    """Cells as an HTML table."""
    header = ["", "mode", *(f"{alpha:g}-cut" for alpha in ALPHAS)]
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>"
        for line in cells
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(svg: str, cells: list[list[str]], title: str) -> str:
    """A picture above a table."""
    caption = f"<figcaption>{html.escape(title)}</figcaption>"
    return f"<figure>{svg}{caption}</figure>{table(cells)}"
