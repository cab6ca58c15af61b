"""Metrics of predictions, of whatever model they are."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _files, _maxitive
from ._arrays import as_array, numbers

__all__ = ["Evaluation", "evaluate"]


class Evaluation:
    """What `evaluate` found.

    `in_domain` maps metrics to numbers (`None` where one is undefined), `out_of_domain` the name of
    a set to its metrics; `intervals` and `out_of_domain_intervals` hold bootstrap intervals if they
    were asked for. `reliability` holds the bins of the calibration error.
    """

    def __init__(
        self, inside_json: str | None, outside_json: dict[str, str], config: dict[str, Any]
    ) -> None:
        self._inside, self._outside, self._config = inside_json, outside_json, config
        inside = None if inside_json is None else json.loads(inside_json)
        outside = {name: json.loads(found) for name, found in outside_json.items()}
        self.in_domain: dict[str, Any] = inside["metrics"] if inside else {}
        self.reliability: dict[str, Any] = inside["reliability"] if inside else {}
        self.intervals: dict[str, Any] = (inside["intervals"] or {}) if inside else {}
        self.out_of_domain = {name: found["metrics"] for name, found in outside.items()}
        self.out_of_domain_intervals = {
            name: found["intervals"] or {} for name, found in outside.items()
        }

    def record(
        self,
        row: str = "predictions",
        *,
        experiment: str = "",
        dataset: str = "",
        network: str = "",
        seed: int = 0,
    ) -> str:
        """A run record, the text of a file `record.json` that `maxitive report` reads.

        Rows of the same experiment, dataset and network stand in one table; those of the same name
        are runs of other seeds. With `evaluate(..., curves=True)` it holds what a page draws.
        """
        if self._inside is None:
            raise ValueError("a record needs labels")
        names = {
            "row": row,
            "experiment": experiment,
            "dataset": dataset,
            "network": network,
            "seed": seed,
        }
        outside = list(self._outside.items())
        config = json.dumps(self._config)
        return _maxitive.record_of_predictions(self._inside, outside, json.dumps(names), config)

    def save(self, folder: str | PathLike[str], row: str | None = None, **names: Any) -> Path:
        """Writes the record into a folder that has none; see `record`.

        The row is by default called like the folder.
        """
        path = Path(folder) / "record.json"
        if path.exists():
            raise FileExistsError(f"{path}: there is a record already")
        _files.write(path, self.record(Path(folder).name if row is None else row, **names))
        return path

    def _rows(self) -> list[tuple[str, str, str]]:
        parts = [("in-domain", self.in_domain, self.intervals)]
        parts += [
            (name, found, self.out_of_domain_intervals[name])
            for name, found in self.out_of_domain.items()
        ]
        return [
            (part, metric, _text(value, intervals.get(metric)))
            for part, found, intervals in parts
            for metric, value in found.items()
            if isinstance(value, float) or value is None
        ]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in rows)

    def _repr_html_(self) -> str:
        cells = (map(html.escape, row) for row in self._rows())
        body = "".join(f"<tr><td>{a}</td><td>{b}</td><td>{c}</td></tr>" for a, b, c in cells)
        head = "<tr><th>set</th><th>metric</th><th>value</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def evaluate(
    probs: ArrayLike,
    labels: ArrayLike | None = None,
    ood: Mapping[str, ArrayLike] | None = None,
    *,
    score: str = "maximum probability",
    bins: int = 20,
    scheme: str = "equal-width",
    bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
    curves: bool = False,
) -> Evaluation:
    """Metrics of probabilities ``[n, classes]``; `float32` and `float64` arrays are not copied.

    `labels` gives accuracy, top-5 accuracy, NLL, ECE, Brier score and the AUROC of right against
    wrong answers; each set in `ood` (probabilities, too) gives the six out-of-domain metrics, with
    in-domain as the positive class. `bootstrap` is a number of replicates for intervals; `curves`
    adds what a report draws: curves, histograms, and what became of each class.

    >>> import numpy as np, maxitive
    >>> test = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> other = np.array([[0.7, 0.3], [0.5, 0.5]])
    >>> found = maxitive.evaluate(test, [0, 1, 1], ood={"other": other})
    >>> round(found.in_domain["accuracy"], 4), round(found.out_of_domain["other"]["auroc"], 4)
    (0.6667, 0.8333)
    """
    if ood is not None and not isinstance(ood, Mapping):
        raise ValueError('ood: names with their probabilities are expected: {"other": probs}')
    if labels is None and not ood:
        raise ValueError("labels or ood: at least one is needed")
    if bootstrap < 0:
        raise ValueError(f"bootstrap {bootstrap} is negative")
    draws = (bootstrap, level, seed)
    rows = _rows("probs", probs)
    inside = None
    if labels is not None:
        answers = _labels(labels, len(rows))
        inside = _maxitive.in_domain(rows, answers, curves, bins, scheme, *draws)
    outside = {}
    if ood:
        ins = _maxitive.scores(rows, score)
        for name, values in ood.items():
            others = _rows(f"ood[{name!r}]", values)
            if others.shape[1] != rows.shape[1]:
                raise ValueError(
                    f"ood[{name!r}] has {others.shape[1]} classes, but probs has {rows.shape[1]}"
                )
            outs = _maxitive.scores(others, score)
            outside[name] = _maxitive.detection(score, rows.shape[1], curves, ins, outs, *draws)
    return Evaluation(inside, outside, {"score": score, "bins": bins, "scheme": scheme})


def _rows(name: str, values: ArrayLike) -> np.ndarray[Any, Any]:
    array = as_array(values)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} axes, not 2: [n, classes]")
    if array.dtype not in (np.float32, np.float64):
        array = numbers(array, name)
    return np.ascontiguousarray(array)


def _labels(values: ArrayLike, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    array = as_array(values)
    if array.ndim != 1 or len(array) != rows:
        raise ValueError(f"labels have the shape {array.shape}, not ({rows},)")
    if array.dtype.kind not in "iub":
        raise ValueError(f"labels are {array.dtype}, not integers")
    return np.ascontiguousarray(array, dtype=np.int64)


def _text(value: float | None, interval: dict[str, float] | None) -> str:
    if value is None:
        return "undefined"
    shown = f"{value:.4f}"
    return f"{shown} [{interval['low']:.4f}, {interval['high']:.4f}]" if interval else shown
