"""Possibilistic prediction: what the weights of a classifier still allow to be said.

The weights may move, as far as a normal possibility function around them says, and the logits move
with them: linearly, with the covariance `C = gram / precision`, where the Gram matrix of an image
holds the inner products of its logits' weight gradients. `maxitive.torch.gram` computes it.
"""

from __future__ import annotations

import html

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _maxitive
from ._arrays import Floats, matrix, numbers

__all__ = ["Bounds", "bounds"]

_SHOWN = 20


class Bounds:
    """Upper and lower probabilities, possibilities and necessities; `bounds` makes them.

    Arrays `[n, classes]`: `probabilities` at the weights, `upper`, `lower` as found by ascent,
    `lower_at_least` what is certified of it, `possibility` that the class has the largest logit.
    Arrays `[n]`: `answer`, the class with the largest logit, its `necessity`, and `width`, how far
    apart its bounds are: how much of the doubt comes from the weights rather than from the image.
    """

    answer: NDArray[np.int64]
    probabilities: Floats
    upper: Floats
    lower: Floats
    lower_at_least: Floats
    possibility: Floats
    necessity: Floats
    width: Floats

    def __init__(self, found: _maxitive.Bounds) -> None:
        self.answer = found.answer
        self.probabilities = found.probabilities
        self.upper = found.upper
        self.lower = found.lower
        self.lower_at_least = found.lower_at_least
        self.possibility = found.possibility
        self.necessity = found.necessity
        self.width = found.width

    def __len__(self) -> int:
        return len(self.answer)

    def _rows(self) -> list[list[str]]:
        rows = []
        for image, answer in enumerate(self.answer[:_SHOWN]):
            numbers = [
                self.lower[image, answer],
                self.probabilities[image, answer],
                self.upper[image, answer],
                self.necessity[image],
            ]
            rows.append([str(image), str(answer), *(f"{number:.4f}" for number in numbers)])
        return rows

    def __repr__(self) -> str:
        header = ["image", "answer", "lower", "probability", "upper", "necessity"]
        lines = ["  ".join(f"{cell:>11}" for cell in row) for row in [header, *self._rows()]]
        more = len(self) - _SHOWN
        return "\n".join(lines + ([f"and {more} more"] if more > 0 else []))

    def _repr_html_(self) -> str:
        header = ["image", "answer", "lower", "probability", "upper", "necessity"]
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bounds(logits: ArrayLike, gram: ArrayLike, precision: float = 1.0) -> Bounds:
    """Bounds of a classifier's probabilities from logits `[n, classes]` and Gram matrices.

    `gram` is `[n, classes, classes]`; `precision` is that of the weights, above 0, or 1 where the
    Gram matrices were divided by it already.

    >>> import maxitive
    >>> found = maxitive.bounds([[1.0, 0.0]], [[[2.0, 0.0], [0.0, 2.0]]], precision=4.0)
    >>> round(float(found.necessity[0]), 4)
    0.3935
    >>> bool(found.lower[0, 0] < found.probabilities[0, 0] < found.upper[0, 0])
    True
    """
    rows = matrix(logits, "logits")
    cubes = numbers(gram, "gram")
    if cubes.ndim != 3:
        raise ValueError(f"gram: {cubes.ndim} axes, not 3: [n, classes, classes]")
    return Bounds(_maxitive.Bounds(rows, np.ascontiguousarray(cubes), precision))
