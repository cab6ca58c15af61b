"""One page about runs and evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Union

from . import _files, _maxitive
from .evaluation import Evaluation

__all__ = ["report"]

Place = Union[str, "PathLike[str]", Evaluation]


def report(
    records: Place | Iterable[Place] | Mapping[str, Place],
    path: str | PathLike[str] = "report.html",
    *,
    title: str | None = None,
    **names: Any,
) -> Path:
    """Writes one HTML file that holds everything it shows and loads nothing.

    `records` are folders that are searched for `record.json` at any depth, record files, and
    evaluations; a mapping gives evaluations the names of their rows. `names` are `experiment`,
    `dataset`, `network` and `seed` of the evaluations, see `Evaluation.record`.

    >>> import numpy as np, tempfile, maxitive
    >>> sure = maxitive.evaluate(np.array([[0.9, 0.1], [0.2, 0.8]]), [0, 1], curves=True)
    >>> page = maxitive.report({"mine": sure}, tempfile.mkdtemp() + "/report.html", dataset="two")
    >>> page.name, "<!doctype html>" in page.read_text()
    ('report.html', True)
    """
    places: list[str] = []
    texts: list[str] = []
    for row, one in _rows(records):
        if isinstance(one, Evaluation):
            texts.append(one.record(row, **names))
        else:
            places.append(os.fspath(one))
    if not places and not texts:
        raise ValueError("there is no record to report")
    page = _maxitive.report_page(places, texts, title)
    _files.write(Path(path), page)
    return Path(path)


def _rows(
    records: Place | Iterable[Place] | Mapping[str, Place],
) -> list[tuple[str, Place]]:
    if isinstance(records, (str, os.PathLike, Evaluation)):
        return [("predictions", records)]
    if isinstance(records, Mapping):
        return list(records.items())
    found = list(records)
    several = sum(isinstance(one, Evaluation) for one in found) > 1
    return [(f"predictions {i + 1}" if several else "predictions", one) for i, one in enumerate(found)]
