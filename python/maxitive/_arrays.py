"""Columns and tables, from whatever has the array protocol: lists, NumPy, pandas, Polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def as_array(values: Any) -> NDArray[Any]:
    """An array of whatever has the array protocol; a tensor leaves its graph and its device."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu()
        # NumPy has no such numbers
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    return np.asarray(values)


def column(values: Any, name: str = "data") -> Floats:
    """Numbers `[n]`."""
    array = numbers(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name}: {array.ndim} axes, not 1")
    return np.ascontiguousarray(array)


def optional(values: ArrayLike | None, name: str) -> Floats | None:
    """Numbers `[n]`, or nothing."""
    return None if values is None else column(values, name)


def table(values: Any, names: Sequence[str] | None, name: str) -> tuple[Floats, list[str]]:
    """Numbers `[n, columns]` and the names of the columns.

    A data frame names its columns itself, a mapping is one of names to columns, and those of an
    array are called x1, x2, ... unless `names` says otherwise.
    """
    own = _columns(values)
    if own is not None:
        columns = [column(values[key], f"{name}[{key!r}]") for key in own]
        lengths = {len(one) for one in columns}
        if len(lengths) > 1:
            raise ValueError(f"{name}: columns of different lengths {sorted(lengths)}")
        array = np.column_stack(columns) if columns else np.empty((0, 0))
        found = [str(key) for key in own]
    else:
        array = numbers(values, name)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2:
            raise ValueError(f"{name}: {array.ndim} axes, not 1 or 2")
        found = [f"x{i + 1}" for i in range(array.shape[1])]
    if names is not None:
        if len(names) != array.shape[1]:
            raise ValueError(f"names: {len(names)} for {array.shape[1]} columns")
        found = [str(key) for key in names]
    twice = sorted({key for key in found if found.count(key) > 1})
    if twice:
        raise ValueError(f"{name}: more than one column is called {twice[0]!r}")
    return np.ascontiguousarray(array, dtype=np.float64), found


def matrix(values: Any, name: str) -> Floats:
    """Numbers `[rows, columns]`."""
    array = numbers(values, name)
    if array.ndim != 2:
        raise ValueError(f"{name}: {array.ndim} axes, not 2")
    return np.ascontiguousarray(array)


def _columns(values: Any) -> list[Any] | None:
    """The keys of a mapping or of a data frame; `None` for anything else."""
    if isinstance(values, Mapping):
        return list(values)
    columns = getattr(values, "columns", None)
    return None if columns is None or callable(columns) else list(columns)


def numbers(values: Any, name: str) -> Floats:
    """Numbers in any shape; dates, durations and complex numbers are none."""
    array = as_array(values)
    if array.dtype.kind in "mMc":
        raise ValueError(f"{name}: not numbers: {array.dtype}")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: not numbers: {error}") from None
