"""Posterior possibility functions of the conjugate families and of regressions.

A family takes observations (a list, a NumPy array, a column of a pandas or Polars data frame) and a
prior, which is a mode and the number of observations that it is worth; without one, nothing is
known beforehand.

>>> from maxitive import infer
>>> coin = infer.bernoulli([1, 1, 0, 1, 1], prior=(0.5, 2.0))
>>> round(coin.mode, 6)
0.714286
>>> [round(end, 4) for end in coin.cut(0.05)]
[0.2695, 0.9703]
>>> round(coin.necessity(lower=0.5), 4)
0.4853

A regression takes responses and covariates; cuts, events and predictions are those of the exact
profile, not of an approximation.

>>> dose = {"dose": [0.0, 1.0, 1.5, 2.0, 3.0, 4.0]}
>>> cured = infer.logistic([0, 0, 1, 0, 1, 1], dose)
>>> cured.names
['intercept', 'dose']
>>> round(cured["dose"].necessity(lower=0.0), 4)
0.6786
>>> new = cured.predict({"dose": [3.5]}, alpha=0.05)
>>> [round(float(end[0, 0]), 3) for end in (new.lower, new.upper)]
[0.158, 0.997]
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _maxitive
from ._arrays import Floats, as_array, column, matrix, optional, table
from ._files import write
from ._function import ALPHAS, Credence, Function, Immutable, event, figure, rows, text
from ._function import table as html_table
from ._maxitive import Event
from .possibility import Normal

__all__ = [
    "Credence",
    "Function",
    "Groups",
    "Means",
    "Posterior",
    "Prediction",
    "Regression",
    "Shares",
    "bernoulli",
    "binomial",
    "categorical",
    "exponential",
    "gamma",
    "groups",
    "linear",
    "load",
    "logistic",
    "merge",
    "multivariate_normal",
    "normal",
    "poisson",
    "poisson_regression",
]

Prior = tuple[float, float]
# more curves than this do not fit on a page
_CURVES = 12

Inner = TypeVar("Inner", _maxitive.Posterior, _maxitive.Shares, _maxitive.Means)
Vector = TypeVar("Vector", _maxitive.Shares, _maxitive.Means)


class _Conjugate(Generic[Inner]):
    """What is the same for all conjugate families."""

    _inner: Inner

    @property
    def weight(self) -> float:
        """How many observations it is worth, those of the prior included."""
        return self._inner.weight

    @property
    def log_consistency(self) -> float:
        """Log of how well the last data fit what was known before; 0 where nothing was."""
        return self._inner.log_consistency

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that `load`, `merge` and `maxitive infer merge` read."""
        write(Path(path), self._bytes().decode())

    def _bytes(self) -> bytes:
        raise NotImplementedError


class Posterior(_Conjugate[_maxitive.Posterior], Function):
    """A possibility function of the mean parameter of a family, given data."""

    def __init__(self, inner: _maxitive.Posterior) -> None:
        super().__init__(inner.function())
        self._inner = inner

    @property
    def family(self) -> str:
        """Name of the family."""
        return self._inner.family

    def observe(self, data: ArrayLike, weights: ArrayLike | None = None) -> Posterior:
        """The posterior after more data; `weights` say how often each of them counts."""
        return Posterior(self._inner.observe(column(data), optional(weights, "weights")))

    def valid(self) -> Function:
        """The valid possibility function of the same data, which must be without a prior.

        Its possibility of a value is the probability, under this value, of data that agree with
        it no better: its cut covers the truth with probability at least 1 - alpha, in small
        samples too.

        >>> from maxitive import infer
        >>> [round(end, 4) for end in infer.bernoulli([1, 1, 0, 1, 1]).valid().cut(0.05)]
        [0.3426, 0.9898]
        """
        return Function(self._inner.valid())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._bytes(), None)

    def _bytes(self) -> bytes:
        return self._inner.bytes()

    def _title(self) -> str:
        return self.family


class _Several(Immutable):
    """What is the same for posteriors of several numbers."""

    names: list[str]

    def _coordinate(self, index: int) -> _maxitive.Function:
        raise NotImplementedError

    def _heading(self) -> str:
        raise NotImplementedError

    def _others(self) -> list[Function]:
        return []

    def _credence_of(self, text: str, valid: bool) -> tuple[float, float]:
        raise NotImplementedError

    def possibility(self, event: str, *, valid: bool = False) -> float:
        """Possibility of an event as text; see `credence`."""
        return self._credence_of(event, valid)[0]

    def necessity(self, event: str, *, valid: bool = False) -> float:
        """Necessity of an event as text: 1 less the possibility of the contrary."""
        return self._credence_of(event, valid)[1]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, key: str | int) -> Function:
        """One number, by its name or its place."""
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"{key!r} is none of {', '.join(self.names)}")
            key = self.names.index(key)
        if not -len(self.names) <= key < len(self.names):
            raise IndexError(f"there are {len(self.names)} of them, no number {key}")
        return Function(self._coordinate(key % len(self.names)))

    def _factors(self, factors: Mapping[str, float] | Sequence[float]) -> list[float]:
        """One factor for each number."""
        if not isinstance(factors, Mapping):
            found = [float(factor) for factor in factors]
            if len(found) != len(self.names):
                raise ValueError(f"factors: {len(found)} for {len(self.names)} numbers")
            return found
        unknown = [key for key in factors if key not in self.names]
        if unknown:
            raise KeyError(f"{unknown[0]!r} is none of {', '.join(self.names)}")
        return [float(factors.get(name, 0.0)) for name in self.names]

    def _functions(self) -> list[Function]:
        return [self[index] for index in range(len(self.names))] + self._others()

    def _cells(self) -> list[list[str]]:
        return rows(self._functions())

    def __repr__(self) -> str:
        return text(self._cells(), self._heading())

    def _repr_html_(self) -> str:
        """The curves, as far as they fit on a page, and a table."""
        functions = self._functions()
        if len(functions) > _CURVES:
            return html_table(self._cells())
        inner = [function._function for function in functions]
        svg = _maxitive.svg_of_functions(inner, list(ALPHAS))
        return figure(svg, self._cells(), self._heading())


class _Observed(_Conjugate[Vector], _Several):
    """What is the same for conjugate families of several numbers."""

    def valid(self) -> dict[str, Function]:
        """The valid possibility functions of all numbers; see `Posterior.valid`."""
        found = (self._inner.valid(index, name) for index, name in enumerate(self.names))
        return {function.name: Function(function) for function in found}

    def _bytes(self) -> bytes:
        return self._inner.bytes(self.names)

    def _credence_of(self, text: str, valid: bool) -> tuple[float, float]:
        return self._inner.credence_of(text, self.names, valid)

    def _coordinate(self, index: int) -> _maxitive.Function:
        return self._inner.coordinate(index, self.names[index])


class Shares(_Observed[_maxitive.Shares]):
    """The possibility function of the probabilities of classes, given data."""

    def __init__(self, inner: _maxitive.Shares, classes: list[Any]) -> None:
        self._inner = inner
        self.classes = classes
        self.names = [str(one) for one in classes]

    @property
    def mode(self) -> Floats:
        """The probabilities that are fully possible; NaN where nothing is known."""
        modes = [self[index].mode for index in range(len(self))]
        return np.array([math.nan if mode is None else mode for mode in modes])

    def observe(self, data: ArrayLike, weights: ArrayLike | None = None) -> Shares:
        """The posterior after more data of the same classes."""
        codes = _codes(data, self.classes)
        return Shares(self._inner.observe(codes, optional(weights, "weights")), self.classes)

    def credence(
        self,
        factors: str | Mapping[str, float] | Sequence[float],
        lower: float | Event = -math.inf,
        upper: float = math.inf,
        *,
        valid: bool = False,
    ) -> Credence:
        """Possibility and necessity of an event about one linear form of the probabilities.

        The event is text, as on the command line, where a class is called by its name or
        `p[name]`; or the factors of the form, which must be between the ends. A valid possibility
        is that of `valid`; for a form with three different factors or more it is estimated from
        999 simulated data sets.

        >>> from maxitive import infer
        >>> balls = infer.categorical(["red", "red", "blue", "red", "green"])
        >>> found = balls.credence("red >= blue")
        >>> found.possibility, round(found.necessity, 4)
        (1.0, 0.4074)
        >>> found == balls.credence({"red": 1.0, "blue": -1.0}, lower=0.0)
        True
        """
        if isinstance(factors, str):
            return Credence(*self._credence_of(factors, valid))
        if valid:
            raise ValueError("valid: the event must be text")
        form = self._factors(factors)
        return Credence(*self._inner.credence(form, event(lower, upper, ["x"])))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._bytes(), self.classes)

    def _heading(self) -> str:
        return f"categorical: worth {self.weight:g} observations"


class Means(_Observed[_maxitive.Means]):
    """The possibility function of a mean in several dimensions, given data."""

    def __init__(self, inner: _maxitive.Means, names: list[str]) -> None:
        self._inner = inner
        self.names = names

    @property
    def mode(self) -> Floats | None:
        """The mean that is fully possible; `None` where all are."""
        return self._inner.mode

    def observe(self, data: Any, weights: ArrayLike | None = None) -> Means:
        """The posterior after more rows."""
        values, _ = table(data, None, "data")
        return Means(self._inner.observe(values, optional(weights, "weights")), self.names)

    def normal(self) -> Normal:
        """All coordinates together, as a normal possibility function."""
        return Normal._wrap(self._inner.normal())

    def form(self, factors: Mapping[str, float] | Sequence[float], name: str = "form") -> Function:
        """A linear form of the coordinates."""
        return Function(self._inner.form(self._factors(factors), name))

    def credence(self, event: str, *, valid: bool = False) -> Credence:
        """Possibility and necessity of conditions on linear forms, joined by `and` and `or`.

        >>> from maxitive import infer
        >>> found = infer.multivariate_normal([[1.0, 0.0], [3.0, 2.0]], [[2.0, 1.0], [1.0, 3.0]])
        >>> round(found.credence("x1 - x2 > 0 and x2 < 3").necessity, 4)
        0.2835
        """
        return Credence(*self._credence_of(event, valid))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._bytes(), None)

    def _heading(self) -> str:
        return f"multivariate normal: worth {self.weight:g} observations"


class Prediction(NamedTuple):
    """The mean response at new covariates: a row for each, a column for each level."""

    mode: Floats
    """The fully possible mean response `[rows]`."""
    lower: Floats
    """Lower ends of the cuts `[rows, levels]`."""
    upper: Floats
    """Upper ends of the cuts `[rows, levels]`."""
    possibility: Floats
    """Possibility of the event `[rows]`; empty without one."""
    necessity: Floats
    """Necessity of the event `[rows]`; empty without one."""
    certified_to: float | None
    """How far a log possibility may be off; `None` where no bound is known."""


class Regression(_Several):
    """A regression and the posterior possibility function of its coefficients."""

    def __init__(
        self, family: str, inner: _maxitive.Regression, first: list[str], covariates: list[str]
    ) -> None:
        self.family = family
        self._inner = inner
        self._covariates = covariates
        self.names = first + covariates

    @property
    def rows(self) -> int:
        """Number of observations."""
        return self._inner.rows

    @property
    def mode(self) -> Floats:
        """The coefficients that are fully possible."""
        return self._inner.mode

    @property
    def log_consistency(self) -> float:
        """Log of how well the data fit the prior."""
        return self._inner.log_consistency

    @property
    def variance(self) -> Function | None:
        """The profile of the variance, where it is unknown."""
        found = self._inner.variance()
        return None if found is None else Function(found)

    def laplace(self) -> Normal:
        """The normal approximation with the curvature at the mode: what the profiles are not."""
        return Normal._wrap(self._inner.laplace())

    def cuts(self, alpha: float = 0.05) -> Floats:
        """The cuts of all coefficients `[coefficients, 2]`, by searches that share their passes."""
        return self._inner.cuts(alpha)[0]

    def certified_to(self, alpha: float = 0.05) -> float | None:
        """How far a log possibility at an end of these cuts may be off; `None` if not known."""
        return self._inner.cuts(alpha)[1]

    def form(self, factors: Mapping[str, float] | Sequence[float], name: str = "form") -> Function:
        """A linear form of the coefficients: a contrast, or a predictor."""
        return Function(self._inner.form(self._factors(factors), name))

    def credence(self, event: str, *, valid: bool = False) -> Credence:
        """Possibility and necessity of an event about one linear form of the coefficients.

        An unknown variance may stand in its place or, joined by `and`, beside it.

        >>> from maxitive import infer
        >>> found = infer.linear([1.0, 2.1, 2.9, 4.2], {"time": [0.0, 1.0, 2.0, 3.0]})
        >>> found.necessity("time > 0.5 and variance < 1") > 0.9
        True
        """
        return Credence(*self._credence_of(event, valid))

    def valid(self) -> dict[str, Function]:
        """The valid possibility functions of all coefficients and of an unknown variance.

        The regression must be linear and without a prior; see `Posterior.valid`.

        >>> from maxitive import infer
        >>> found = infer.linear([1.0, 2.1, 2.9, 4.2], {"time": [0.0, 1.0, 2.0, 3.0]})
        >>> [round(end, 4) for end in found.valid()["time"].cut(0.05)]
        [0.7612, 1.3188]
        """
        units = np.eye(len(self.names)).tolist()
        forms = (self._inner.valid_form(*one) for one in zip(units, self.names))
        found = {function.name: Function(function) for function in forms}
        variance = self._inner.valid_variance()
        if variance is not None:
            found["variance"] = Function(variance)
        return found

    def _credence_of(self, text: str, valid: bool) -> tuple[float, float]:
        return self._inner.credence_of(text, self.names, valid)

    def predict(
        self,
        new: Any,
        alpha: float | Sequence[float] = ALPHAS,
        event: Event | str | None = None,
    ) -> Prediction:
        """The mean response at each row of new covariates, from its exact profile.

        It is the probability of a logistic, the rate of a Poisson and the mean of a linear
        regression; of a single new observation nothing is said. Of a data frame the columns that
        were fitted are taken, by their names.
        """
        if not self._covariates:
            raise ValueError(f"{self.family}: there are no covariates to predict at")
        values = _chosen(new, self._covariates)
        levels = [alpha] if isinstance(alpha, (int, float)) else list(alpha)
        if isinstance(event, str):
            event = Event.parse(event, ["x", self._inner.mean_name])
        return Prediction(*self._inner.predict(values, [float(a) for a in levels], event))

    def _coordinate(self, index: int) -> _maxitive.Function:
        factors = [float(j == index) for j in range(len(self.names))]
        return self._inner.form(factors, self.names[index])

    def _others(self) -> list[Function]:
        variance = self.variance
        return [] if variance is None else [variance]

    def _heading(self) -> str:
        return f"{self.family}: {self.rows} observations"


class Groups(_Several):
    """Independent posteriors of the groups of some data; `groups` makes them.

    A group is found by its name: `found["mon"]` is its parameter.
    """

    def __init__(self, family: str, inner: _maxitive.Groups) -> None:
        self.family = family
        self._inner = inner
        self.names = inner.names
        self.sizes = dict(zip(inner.names, inner.sizes))
        """How many observations each group has."""

    def variance(self, key: str) -> Function:
        """The unknown variance of a group of normal numbers."""
        if len(self._inner.parameters) < 2:
            raise ValueError(f"{self.family}: a group has one parameter, no unknown variance")
        if key not in self.names:
            raise KeyError(f"{key!r} is none of {', '.join(self.names)}")
        return Function(self._inner.function(self.names.index(key), 1))

    def credence(self, event: str) -> Credence:
        """Possibility and necessity of an event about named groups.

        >>> from maxitive import infer
        >>> days = ["mon", "sun", "mon", "sun", "mon", "sun"]
        >>> calls = infer.groups("poisson", [7, 1, 9, 2, 8, 1], by=days)
        >>> round(calls.credence("rate[mon] > 2*rate[sun]").necessity, 4)
        0.9288
        """
        return Credence(*self._inner.credence(event))

    def _credence_of(self, text: str, valid: bool) -> tuple[float, float]:
        if valid:
            raise ValueError("valid: groups have no valid possibility here")
        return self._inner.credence(text)

    def _coordinate(self, index: int) -> _maxitive.Function:
        return self._inner.function(index, 0)

    def _others(self) -> list[Function]:
        if len(self._inner.parameters) < 2:
            return []
        return [self.variance(name) for name in self.names]

    def _heading(self) -> str:
        return f"{self.family}: {sum(self.sizes.values())} observations in {len(self)} groups"


def groups(
    family: str,
    data: ArrayLike,
    by: ArrayLike,
    prior: Prior | None = None,
    *,
    trials: int | None = None,
    shape: float | None = None,
    variance: float | None = None,
    weights: ArrayLike | None = None,
) -> Groups:
    """One posterior for each group of observations, and events across groups.

    `by` names the group of every observation; the groups are sorted. The family is one of
    bernoulli, binomial (with `trials`), poisson, exponential, gamma (with `shape`) and normal
    (with `variance`, or without, when it is unknown in every group); all groups have one prior.
    """
    known = {"binomial": trials, "gamma": shape, "normal": variance}
    names = {"binomial": "trials", "gamma": "shape"}
    if family in names and known[family] is None:
        raise ValueError(f"{family}: {names[family]} is needed")
    words, codes = np.unique(_labels(by, "by"), return_inverse=True)
    inner = _maxitive.Groups(
        family,
        known.get(family),
        prior,
        column(data),
        optional(weights, "weights"),
        [str(word) for word in words.tolist()],
        np.ascontiguousarray(codes, dtype=np.int64),
    )
    return Groups(family, inner)


def load(path: str | os.PathLike[str]) -> Posterior | Shares | Means:
    """A posterior of a file that `save`, or `maxitive infer --save`, has written."""
    return merge([path])


def merge(paths: Iterable[str | os.PathLike[str]]) -> Posterior | Shares | Means:
    """Posteriors of parts of the data, saved in files, as one; the prior is counted once.

    >>> import pathlib, tempfile
    >>> from maxitive import infer
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> infer.poisson([2, 0, 3]).save(folder / "monday.json")
    >>> infer.poisson([4, 1]).save(folder / "tuesday.json")
    >>> infer.merge([folder / "monday.json", folder / "tuesday.json"])
    <poisson: mode 2, 0.05-cut [0.822822, 3.97077]>
    """
    return _wrapped(_maxitive.merge([os.fspath(path) for path in paths]), None)


def bernoulli(
    data: ArrayLike, prior: Prior | None = None, *, weights: ArrayLike | None = None
) -> Posterior:
    """Probability of 1, from observations that are 0 or 1."""
    return _infer("bernoulli", 0.0, data, prior, weights)


def binomial(
    data: ArrayLike, trials: int, prior: Prior | None = None, *, weights: ArrayLike | None = None
) -> Posterior:
    """Expected number of successes in a known number of trials, from such numbers."""
    return _infer("binomial", trials, data, prior, weights)


def poisson(
    data: ArrayLike, prior: Prior | None = None, *, weights: ArrayLike | None = None
) -> Posterior:
    """Rate, from counts."""
    return _infer("poisson", 0.0, data, prior, weights)


def exponential(
    data: ArrayLike, prior: Prior | None = None, *, weights: ArrayLike | None = None
) -> Posterior:
    """Mean, from positive numbers."""
    return _infer("exponential", 0.0, data, prior, weights)


def gamma(
    data: ArrayLike, shape: float, prior: Prior | None = None, *, weights: ArrayLike | None = None
) -> Posterior:
    """Mean, from positive numbers with a known shape."""
    return _infer("gamma", shape, data, prior, weights)


@overload
def normal(
    data: ArrayLike,
    variance: float,
    prior: Prior | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Posterior: ...


@overload
def normal(
    data: ArrayLike,
    variance: None = None,
    prior: Prior | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Regression: ...


def normal(
    data: ArrayLike,
    variance: float | None = None,
    prior: Prior | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Posterior | Regression:
    """Mean, from numbers with normal noise of a known variance, or of one that is unknown.

    With an unknown variance the answer has two functions, `["mean"]` and `.variance`, and the
    prior's weight is in units of 1/variance.

    >>> from maxitive import infer
    >>> found = infer.normal([1.0, 2.0, 4.0])
    >>> round(found["mean"].mode, 4), round(found.variance.mode, 4)
    (2.3333, 1.5556)
    """
    if variance is not None:
        return _infer("normal", variance, data, prior, weights)
    responses = column(data)
    mean, weight = (0.0, 0.0) if prior is None else prior
    settings = _settings("normal", intercept_mode=mean, intercept_precision=weight)
    nothing = np.empty((len(responses), 0))
    inner = _maxitive.Regression(responses, nothing, optional(weights, "weights"), settings)
    return Regression("normal", inner, ["mean"], [])


def categorical(
    data: ArrayLike,
    classes: Iterable[Any] | None = None,
    prior: tuple[Sequence[float], float] | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Shares:
    """Probabilities of classes, from a column of them (text or numbers).

    Without `classes` they are those found, sorted. The prior is a share of each class and the
    number of observations that they are worth.

    >>> from maxitive import infer
    >>> balls = infer.categorical(["red", "blue", "red"], classes=["red", "green", "blue"])
    >>> [round(end, 4) for end in balls["green"].cut(0.05)]
    [0.0, 0.6316]
    """
    if classes is None:
        known = np.unique(_labels(data)).tolist()
    else:
        known = list(classes)
        twice = [one for one in known if known.count(one) > 1]
        if twice:
            raise ValueError(f"classes: {twice[0]!r} is named twice")
    if prior is not None:
        prior = ([float(share) for share in prior[0]], float(prior[1]))
    return Shares(_maxitive.Shares(len(known), prior), known).observe(data, weights)


def multivariate_normal(
    data: Any,
    covariance: ArrayLike,
    prior: tuple[ArrayLike, float] | None = None,
    *,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
) -> Means:
    """Mean in several dimensions, from rows with normal noise of a known covariance.

    >>> from maxitive import infer
    >>> found = infer.multivariate_normal([[1.0, 0.0], [3.0, 2.0]], [[2.0, 1.0], [1.0, 3.0]])
    >>> found.mode.tolist(), found["x1"].precision
    ([2.0, 1.0], 1.0)
    """
    values, found = table(data, names, "data")
    known = None if prior is None else (column(prior[0], "prior").tolist(), float(prior[1]))
    start = _maxitive.Means(matrix(covariance, "covariance"), known)
    return Means(start.observe(values, optional(weights, "weights")), found)


def logistic(
    responses: ArrayLike,
    covariates: Any,
    *,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    prior_precision: float | None = None,
    intercept: bool = True,
    intercept_precision: float = 0.0,
    standardize: bool = False,
    threads: int | None = None,
) -> Regression:
    """Logistic regression of responses that are 0 or 1.

    `covariates` are a data frame, a mapping of names to columns, or an array `[n, columns]`.
    The prior of every covariate's coefficient is normal around 0 with `prior_precision`, by
    default 1; with `standardize` it is that of covariates of mean 0 and deviation 1.
    """
    return _regress(
        "logistic",
        (responses, covariates, names, weights),
        intercept=intercept,
        intercept_precision=intercept_precision,
        prior_precision=prior_precision,
        standardize=standardize,
        threads=threads,
    )


def poisson_regression(
    responses: ArrayLike,
    covariates: Any,
    *,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    prior_precision: float | None = None,
    intercept: bool = True,
    intercept_precision: float = 0.0,
    standardize: bool = False,
    threads: int | None = None,
) -> Regression:
    """Poisson regression of counts; see `logistic`, but for the prior, by default none."""
    return _regress(
        "poisson-regression",
        (responses, covariates, names, weights),
        intercept=intercept,
        intercept_precision=intercept_precision,
        prior_precision=prior_precision,
        standardize=standardize,
        threads=threads,
    )


def linear(
    responses: ArrayLike,
    covariates: Any,
    *,
    variance: float | None = None,
    names: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    prior_precision: float | None = None,
    intercept: bool = True,
    intercept_precision: float = 0.0,
    standardize: bool = False,
    threads: int | None = None,
) -> Regression:
    """Linear regression with a known variance, or one that is unknown and profiled out.

    See `logistic`, but for the prior, by default none. With an unknown variance the prior's
    precision is in units of 1/variance.
    """
    return _regress(
        "linear",
        (responses, covariates, names, weights),
        variance=variance,
        intercept=intercept,
        intercept_precision=intercept_precision,
        prior_precision=prior_precision,
        standardize=standardize,
        threads=threads,
    )


def _wrapped(
    found: _maxitive.Posterior | tuple[_maxitive.Shares | _maxitive.Means, list[str]],
    classes: list[Any] | None,
) -> Posterior | Shares | Means:
    if isinstance(found, _maxitive.Posterior):
        return Posterior(found)
    inner, names = found
    if isinstance(inner, _maxitive.Shares):
        return Shares(inner, names if classes is None else classes)
    return Means(inner, names)


def _restore(content: bytes, classes: list[Any] | None) -> Posterior | Shares | Means:
    """A pickled posterior, from what a file of it would hold."""
    return _wrapped(_maxitive.restore(content), classes)


def _settings(family: str, **given: Any) -> dict[str, Any]:
    return {
        "family": family,
        "variance": None,
        "intercept": True,
        "intercept_mode": 0.0,
        "intercept_precision": 0.0,
        "prior_precision": None,
        "standardize": False,
        "threads": None,
        **given,
    }


def _regress(
    family: str,
    data: tuple[ArrayLike, Any, Sequence[str] | None, ArrayLike | None],
    **given: Any,
) -> Regression:
    """A regression of responses on covariates of these names, by these weights."""
    responses, covariates, names, weights = data
    settings = _settings(family, **given)
    values, found = table(covariates, names, "covariates")
    first = ["intercept"] if settings["intercept"] else []
    if first and "intercept" in found:
        raise ValueError("covariates: a column is called 'intercept', as the constant term is")
    observed = column(responses, "responses")
    inner = _maxitive.Regression(observed, values, optional(weights, "weights"), settings)
    return Regression(family, inner, first, found)


def _chosen(new: Any, names: list[str]) -> Floats:
    """The columns of these names, or an array that has them in this order."""
    keys = list(new) if isinstance(new, Mapping) else getattr(new, "columns", None)
    if keys is not None and not callable(keys):
        own = {str(key): key for key in keys}
        missing = [name for name in names if name not in own]
        if missing:
            raise ValueError(f"new: there is no column {missing[0]!r}")
        return table({name: new[own[name]] for name in names}, None, "new")[0]
    values, _ = table(new, None, "new")
    if values.shape[1] != len(names):
        raise ValueError(f"new: {values.shape[1]} columns, {len(names)} were fitted")
    return values


def _labels(data: ArrayLike, name: str = "data") -> NDArray[Any]:
    array = as_array(data)
    if array.ndim != 1:
        raise ValueError(f"{name}: {array.ndim} axes, not 1")
    if array.dtype == object:
        missing = [i for i, one in enumerate(array) if one is None or one != one]
        if missing:
            raise ValueError(f"{name}: observation {missing[0]} is missing")
        array = array.astype(str)
    elif array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name}: observation {int(np.isnan(array).argmax())} is missing")
    return array


def _codes(data: ArrayLike, classes: list[Any]) -> NDArray[np.int64]:
    """The place of each observation among the classes."""
    place = {one: index for index, one in enumerate(classes)}
    found, inverse = np.unique(_labels(data), return_inverse=True)
    codes = []
    for one in found.tolist():
        if one not in place:
            known = ", ".join(map(repr, classes))
            raise ValueError(f"data: the class {one!r} is none of {known}")
        codes.append(place[one])
    return np.asarray(codes, dtype=np.int64)[inverse]


def _infer(
    family: str, known: float, data: ArrayLike, prior: Prior | None, weights: ArrayLike | None
) -> Posterior:
    return Posterior(_maxitive.Posterior(family, known, prior)).observe(data, weights)
