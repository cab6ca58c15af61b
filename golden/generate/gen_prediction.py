"""Upper and lower probabilities, possibilities and necessity of linearized logits, for small cases.

Nothing here shares a formula with the crate: the upper probability is maximized over the square root
of C by quasi-Newton steps, P(not k) from many random points, and the projection onto a cone is found
by trying every set of active constraints. `hard.json` has what that is too slow for (up to 1,000
classes, singular matrices, extreme logits and precisions): Newton's method with the eigenvalues of the
Hessian made negative, whose distance to the maximum of the upper probability is half the squared
gradient, and least distance programming by non-negative least squares (Lawson and Hanson).
"""
import itertools
import os

import numpy as np
from scipy.optimize import minimize, nnls
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


def newton(z, r, wanted, x):
    """max over x of -|x|^2/2 + log P(wanted | z + r x), and half the squared gradient there."""
    def at(x):
        y = z + r @ x
        within = np.where(wanted, np.exp(y - logsumexp(y[wanted])), 0.0)
        p = np.exp(y - logsumexp(y))
        value = -np.logaddexp(0.0, logsumexp(y[~wanted]) - logsumexp(y[wanted]))
        return value - 0.5 * x @ x, r.T @ (within - p) - x, p, within
    value, slope, p, w = at(x)
    damping = 0.0
    for _ in range(400):
        if 0.5 * slope @ slope <= 1e-24 * (1.0 + abs(value)):
            break
        rp, rw = r.T @ p, r.T @ w
        hessian = (r.T * (w - p)) @ r - np.outer(rw, rw) + np.outer(rp, rp) - np.eye(len(x))
        bends, axes = np.linalg.eigh(hessian)
        for _ in range(60):
            step = axes @ ((axes.T @ slope) / (np.maximum(np.abs(bends), 1e-12) + damping))
            there = at(x + step)
            level = there[0] >= value - 1e-15 * (1.0 + abs(value))
            if there[0] > value or (level and there[1] @ there[1] < slope @ slope):
                break
            damping = max(4.0 * damping, 1e-3)
        else:
            break
        x, (value, slope, p, w) = x + step, there
        damping = damping / 10.0 if damping > 1e-6 else 0.0
    return value, 0.5 * slope @ slope


def newton_upper(z, r, k):
    value, gap = newton(z, r, np.arange(len(z)) == k, np.zeros(r.shape[1]))
    assert gap < 1e-11 * (1.0 + abs(value)), gap
    return np.exp(value)


def newton_lower(z, r, k, rng):
    others = np.arange(len(z)) != k
    d = r.shape[1]
    starts = [np.zeros(d)] + [s * (r[j] - r[k]) for j in np.argsort(-z)[:8] if j != k for s in (0.5, 1.0)]
    starts += [rng.normal(size=d) * s / np.sqrt(d) for s in (0.3, 1.0, 3.0, 6.0)]
    return -np.expm1(min(0.0, max(newton(z, r, others, start)[0] for start in starts)))


def least_distance(z, r, k):
    normals, offsets = [], []
    for j in range(len(z)):
        difference, behind = r[k] - r[j], z[j] - z[k]
        length = np.linalg.norm(difference)
        if length <= 1e-12 * (np.linalg.norm(r[k]) + np.linalg.norm(r[j])):
            if behind > 0.0:
                return 0.0
            continue
        normals.append(difference / length)
        offsets.append(behind / length)
    unit = max(offsets, default=0.0)
    if unit <= 0.0:
        return 1.0
    normals, offsets = np.array(normals), np.array(offsets) / unit
    system = np.vstack([normals.T, offsets])
    aim = np.append(np.zeros(system.shape[0] - 1), 1.0)
    shares, rest = nnls(system, aim, maxiter=100 * len(offsets))
    if rest < 1e-9:
        return 0.0  # the constraints contradict each other
    active = shares > 0.0
    x = np.linalg.lstsq(normals[active], offsets[active], rcond=1e-13)[0]
    assert (normals @ x - offsets).min() > -1e-9
    return np.exp(-0.5 * unit ** 2 * (x @ x))


def hard_cases(rng):
    """Name, logits, Jacobian, precision, and the classes whose numbers are listed."""
    def drawn(classes, weights, spread=2.0, scale=1.0):
        return np.round(spread * rng.normal(size=classes), 6), np.round(scale * rng.normal(size=(classes, weights)), 6)
    for classes, weights in [(2, 1), (2, 3), (10, 1), (10, 2), (10, 12), (16, 18), (17, 19), (17, 3), (50, 4)]:
        yield f"{classes} classes, {weights} weights", *drawn(classes, weights), 2.0, range(classes)
    yield "100 classes", *drawn(100, 8), 4.0, [0, 7, 31, 99]
    yield "1000 classes", *drawn(1000, 2), 3.0, [0, 500, 999]
    for precision in [1e-4, 1e-2, 1e5, 1e10]:
        yield f"precision {precision:g}", *drawn(10, 12, 3.0), precision, range(10)
    z, j = drawn(10, 12)
    z[3] = z[7] = 5.0
    yield "two answers", z, j, 1.0, range(10)
    yield "equal logits", np.ones(10), j, 1.0, range(10)
    for scale in [1.0, 30.0, 300.0]:
        yield f"logits of 1e3, deviations of {scale:g}", *drawn(10, 12, 1e3, scale), 1.0, range(10)
    z = np.array([15.0, 3.0, -2.0, -5.0, 1.0, -8.0, 2.0, 0.0, -3.0, 4.0])
    yield "a sure answer", z, drawn(10, 14, 1.0, 12.0)[1], 350.0, range(10)


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
    rng = np.random.default_rng(15)
    written = []
    for name, z, j, precision, listed in hard_cases(rng):
        r = (j - j.mean(0)) / np.sqrt(precision)
        listed = list(listed)
        written.append({
            "name": name, "logits": z, "jacobian": j, "precision": precision, "classes": listed,
            "upper": [newton_upper(z, r, k) for k in listed],
            "lower": [newton_lower(z, r, k, rng) for k in listed],
            "possibility": [least_distance(z, r, k) for k in listed],
        })
    head = {"about": "C = jacobian jacobian^T / precision; quantities of the listed classes"}
    write_json(os.path.join(out, "prediction", "hard.json"), head, written)


if __name__ == "__main__":
    main()
