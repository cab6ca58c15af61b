"""Valid possibilities about the mean of normal vectors, with NumPy and SciPy.

An event about k independent linear forms of the mean has the probability, under the nearest mean where it holds, of data
that agree no better: chi2.sf of the squared distance, with k degrees of freedom. The nearest point of an orthant is found
by going through all sets of active constraints.
"""
import itertools
import os

import numpy as np
from scipy.stats import chi2, norm

from common import args, write_json


def squared_distance(forms, bounds, mode, covariance):
    """To {x : forms x >= bounds}, where covariance is that of the mode."""
    forms, bounds = np.array(forms, dtype=float), np.array(bounds, dtype=float)
    best = np.inf
    for size in range(len(forms) + 1):
        for active in itertools.combinations(range(len(forms)), size):
            a, b = forms[list(active)], bounds[list(active)]
            step = np.zeros(len(mode))
            if size:
                step = covariance @ a.T @ np.linalg.solve(a @ covariance @ a.T, b - a @ mode)
            if np.all(forms @ (mode + step) >= bounds - 1e-12):
                best = min(best, step @ np.linalg.solve(covariance, step))
    return best


def text(forms, bounds, names):
    one = lambda form: " + ".join(f"{factor}*{name}" for factor, name in zip(form, names) if factor).replace("+ -", "- ")
    return " and ".join(f"{one(form)} >= {bound}" for form, bound in zip(forms, bounds))


def main():
    _, out = args()
    random = np.random.default_rng(20)
    cases = []
    for dimension, n, events in [
        (2, 6, [([[1, 0]], [0.4]), ([[1, -2]], [0.3]), ([[1, 0], [0, 1]], [0.5, -0.2]), ([[1, 1], [1, -1]], [-0.4, -0.9])]),
        (3, 11, [([[0, 1, 0]], [-0.1]), ([[1, 0, 0], [0, 1, 1]], [0.2, 0.3]),
                 ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [-0.3, -0.2, 0.1]), ([[1, 1, 1]], [-2.0])]),
    ]:
        root = random.normal(size=(dimension, dimension)) + 2 * np.eye(dimension)
        covariance = np.round(root @ root.T, 3)
        data = np.round(random.multivariate_normal(np.zeros(dimension), covariance, size=n), 3)
        mode, spread = data.mean(axis=0), covariance / n
        names = [f"m{i}" for i in range(dimension)]
        asked = []
        for forms, bounds in events:
            k = len(forms)
            inside = squared_distance(forms, bounds, mode, spread)
            # outside: the nearest of the half-spaces beyond
            beyond = min(squared_distance([[-x for x in form]], [-bound], mode, spread)
                         for form, bound in zip(forms, bounds))
            asked.append({"event": text(forms, bounds, names), "possibility": chi2.sf(inside, k),
                          "necessity": 1 - chi2.sf(beyond, k)})
        half = norm.ppf(0.975) * np.sqrt(np.diag(spread))
        cases.append({"names": names, "covariance": covariance.tolist(), "data": data.tolist(), "events": asked,
                      "lower": (mode - half).tolist(), "upper": (mode + half).tolist()})
    head = {"about": "valid possibility and necessity of events about the mean of the data, and the ends of the valid 0.05-cut "
                     "of each coordinate, for a known covariance"}
    write_json(os.path.join(out, "vectors", "valid.json"), head, cases)


if __name__ == "__main__":
    main()
