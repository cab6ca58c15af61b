"""Upper and lower probabilities, possibilities and necessity of linearized logits, for small cases.

Nothing here shares a formula with the crate: the upper probability is maximized over the square root
of C by quasi-Newton steps, P(not k) from many random points, and the projection onto a cone is found
by trying every set of active constraints.
"""
import itertools
import os

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from common import args, write_json

STARTS = 40


def root(c):
    values, vectors = np.linalg.eigh(c)
    values[values < 1e-12 * values[-1]] = 0.0
    return vectors * np.sqrt(values)


def highest(log_probability, r, starts):
    """max over x of -|x|^2/2 + log P(z), for log_probability(x) -> (value, gradient)."""
    best = -np.inf
    for start in starts:
        def cost(x):
            value, slope = log_probability(x)
            return 0.5 * x @ x - value, x - slope
        end = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 2000})
        best = max(best, -end.fun)
    return best


def upper(z, r, k):
    def log_probability(x):
        y = z + r @ x
        total = logsumexp(y)
        return y[k] - total, r[k] - r.T @ np.exp(y - total)
    return np.exp(highest(log_probability, r, [np.zeros(r.shape[1])]))


def lower(z, r, k, rng):
    others = np.arange(len(z)) != k

    def log_probability(x):
        y = z + r @ x
        total, rest = logsumexp(y), logsumexp(y[others])
        within = np.where(others, np.exp(y - rest), 0.0)
        return rest - total, r.T @ (within - np.exp(y - total))
    d = r.shape[1]
    starts = [np.zeros(d)] + [rng.normal(size=d) * rng.choice([0.3, 1.0, 2.0, 4.0]) for _ in range(STARTS)]
    return -np.expm1(highest(log_probability, r, starts))


def possibility(z, r, k):
    rivals = [j for j in range(len(z)) if j != k]
    best = np.inf
    for size in range(len(rivals) + 1):
        for active in itertools.combinations(rivals, size):
            if size == 0:
                x = np.zeros(r.shape[1])
            else:
                a = np.array([r[k] - r[j] for j in active])
                h = np.array([z[j] - z[k] for j in active])
                x = np.linalg.lstsq(a, h, rcond=1e-10)[0]
                if np.max(np.abs(a @ x - h)) > 1e-9:
                    continue
            y = z + r @ x
            if np.all(y[k] >= y - 1e-9):
                best = min(best, x @ x)
    return np.exp(-0.5 * best)


def cases(rng):
    yield "two classes", [0.7, -0.4], [[0.9, 0.2], [0.2, 1.6]]
    yield "two classes that move together", [0.7, -0.4], [[1.0, 1.0], [1.0, 1.0]]
    yield "no variance", [1.0, 0.2, -0.7], np.zeros((3, 3))
    yield "equal logits", [0.3, 0.3, 0.3], [[1.0, 0.2, -0.1], [0.2, 0.5, 0.0], [-0.1, 0.0, 2.0]]
    yield "two rivals apart: two maxima", [4.0, 0.0, 0.1], np.diag([0.1, 4.0, 4.0])
    yield "three rivals apart: three maxima", [5.0, 0.2, 0.1, 0.0], np.diag([0.2, 6.0, 5.0, 7.0])
    yield "rivals of opposite sign", [3.0, 0.0, 0.3], np.outer([0.0, 2.0, -2.0], [0.0, 2.0, -2.0])
    yield "extreme logits", [200.0, -300.0, 0.0], [[900.0, 100.0, 0.0], [100.0, 800.0, 50.0], [0.0, 50.0, 400.0]]
    for classes, rank, scale in [(3, 1, 1.0), (3, 3, 2.0), (4, 2, 1.0), (4, 4, 0.3), (5, 2, 2.0), (5, 5, 1.0), (6, 3, 1.5), (6, 6, 3.0)]:
        j = rng.normal(size=(classes, rank)) * scale
        yield f"{classes} classes of rank {rank}", 2.0 * rng.normal(size=classes), j @ j.T


def main():
    spec, out = args()
    rng = np.random.default_rng(spec.get("prediction", {}).get("seed", 14))
    written = []
    for name, z, c in cases(rng):
        z, c = np.array(z, dtype=float), np.array(c, dtype=float)
        precision = 0.5 if len(written) % 2 else 4.0
        r = root(c)
        each = range(len(z))
        possible = [possibility(z, r, k) for k in each]
        answer = int(np.argmax(z))
        written.append({
            "name": name, "logits": z, "gram": c * precision, "precision": precision,
            "upper": [upper(z, r, k) for k in each],
            "lower": [lower(z, r, k, rng) for k in each],
            "possibility": possible,
            "necessity": 1.0 - max(possible[k] for k in each if k != answer),
        })
    head = {"about": "C = gram / precision; quantities of the normal possibility function of the logits"}
    write_json(os.path.join(out, "prediction", "bounds.json"), head, written)


if __name__ == "__main__":
    main()
