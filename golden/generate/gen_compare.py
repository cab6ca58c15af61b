"""Comparisons of two independent numbers, with mpmath and thirty digits.

The supremum of the product of two possibility functions over a line is searched on a grid of 4000 points of the
whole feasible part of the line; each local maximum of the grid is refined by ternary search on the function itself.
No derivative and no property of the functions is used.
"""
import os

from mpmath import exp, inf, log, log1p, mp, mpf

from common import args, write_json

mp.dps = 30
POINTS = 4000


def log_possibility(f, x):
    """Log of the possibility of x: minus weight times a Kullback-Leibler divergence, or Student's curve."""
    m, w, x = mpf(f["mode"]), mpf(f["weight"]), mpf(x)
    extra = mpf(f["extra"]) if "extra" in f else None
    xlog = lambda a, b: mpf(0) if a == 0 else a * (log(a) - log(b)) if b > 0 else inf
    family = f["family"]
    if family == "student":
        return -w / 2 * log1p((x - m) ** 2 / (extra ** 2 * w))
    if f.get("parameter") == "natural":
        x = {"bernoulli": lambda: 1 / (1 + exp(-x)), "poisson": lambda: exp(x), "gamma": lambda: -extra / x,
             "normal": lambda: extra * x}[family]()
    if family == "bernoulli":
        return -inf if not 0 <= x <= 1 else -w * (xlog(m, x) + xlog(1 - m, 1 - x))
    if family == "poisson":
        return -inf if x < 0 else -w * (x - m + xlog(m, x))
    if family == "gamma":
        return -inf if x <= 0 else -w * extra * (m / x - 1 - log(m / x))
    return -w * (x - m) ** 2 / (2 * extra)


def mode(f):
    m = mpf(f["mode"])
    if f.get("parameter") != "natural":
        return m
    return {"bernoulli": lambda: log(m / (1 - m)), "poisson": lambda: log(m), "gamma": lambda: -mpf(f["extra"]) / m,
            "normal": lambda: m / mpf(f["extra"])}[f["family"]]()


def supremum(functions, factors, t):
    (f, g), (c, d) = functions, [mpf(c) for c in factors]
    t = mpf(t)
    value = lambda x: log_possibility(f, x) + log_possibility(g, (t - c * x) / d)
    # beyond these ends both numbers move away from their modes
    ends = sorted([mode(f), (t - d * mode(g)) / c])
    air = (ends[1] - ends[0]) / 100 + mpf("1e-20")
    lo, hi = ends[0] - air, ends[1] + air
    xs = [lo + (hi - lo) * i / POINTS for i in range(POINTS + 1)] + ends
    xs.sort()
    values = [value(x) for x in xs]
    best = max(values)
    for i in range(1, len(xs) - 1):
        if values[i] >= values[i - 1] and values[i] >= values[i + 1] and values[i] > -inf:
            a, b = xs[i - 1], xs[i + 1]
            for _ in range(150):
                x, y = a + (b - a) / 3, b - (b - a) / 3
                if value(x) < value(y):
                    a = x
                else:
                    b = y
            best = max(best, value((a + b) / 2))
    return best


def case(functions, factors, values):
    points = [{"value": v, "log_possibility": supremum(functions, factors, v)} for v in values]
    return {"functions": functions, "factors": factors, "points": points}


def main():
    _, out = args()
    F = lambda family, mode, weight, **more: {"family": family, "mode": mode, "weight": weight, **more}
    cases = [
        case([F("bernoulli", 0.7, 10.0), F("bernoulli", 0.4, 15.0)], [1.0, -1.0], [0.0, 0.1, 0.9, -0.5]),
        case([F("bernoulli", 1.0, 6.0), F("bernoulli", 0.25, 4.0)], [1.0, -1.0], [0.0, 0.3, 0.95]),
        case([F("bernoulli", 0.7, 10.0), F("bernoulli", 0.4, 15.0)], [1.0, 2.0], [1.0, 2.9, 0.2]),
        case([F("poisson", 4.0, 3.0), F("poisson", 2.5, 2.0)], [1.0, -1.0], [0.0, 5.0, -3.0]),
        case([F("poisson", 0.0, 5.0), F("poisson", 2.5, 2.0)], [1.0, -1.0], [0.0, -1.0, 1.0]),
        case([F("gamma", 3.0, 4.0, extra=1.0), F("gamma", 1.0, 6.0, extra=1.0)], [1.0, -1.0], [0.0, 9.0, 40.0, -2.0]),
        case([F("gamma", 0.5, 12.0, extra=2.5), F("gamma", 2.0, 3.0, extra=2.5)], [1.0, 1.0], [12.0, 0.8, 3.0]),
        case([F("gamma", 1.0, 1.0, extra=1.0), F("gamma", 1.0, 1.0, extra=1.0)], [1.0, 1.0], [30.0, 4.0]),
        case([F("normal", 1.0, 4.0, extra=2.0), F("normal", -0.5, 7.0, extra=2.0)], [1.0, -1.0], [0.0, 0.5, 4.0]),
        case([F("student", 1.0, 5.0, extra=0.4), F("student", 0.2, 8.0, extra=0.3)], [1.0, -1.0], [0.0, 0.5, 6.0]),
        case([F("student", 1.0, 3.0, extra=0.1), F("student", 0.2, 3.0, extra=0.1)], [1.0, -1.0], [0.0, 5.0]),
        case([F("bernoulli", 0.7, 10.0, parameter="natural"), F("bernoulli", 0.4, 15.0, parameter="natural")],
             [1.0, -1.0], [0.0, 0.5, 4.0]),
        case([F("poisson", 4.0, 3.0, parameter="natural"), F("poisson", 2.5, 2.0, parameter="natural")],
             [1.0, -1.0], [0.0, 0.7, -2.0]),
        case([F("gamma", 3.0, 4.0, extra=1.0, parameter="natural"), F("gamma", 1.0, 6.0, extra=1.0, parameter="natural")],
             [1.0, -1.0], [0.0, 5.0, -0.3]),
    ]
    head = {"about": "log sup of the product of two possibility functions over factors[0] x + factors[1] y = value; "
                     "mode is the mean parameter's; extra is the shape, the variance or Student's scale"}
    write_json(os.path.join(out, "compare", "contrasts.json"), head, cases)


if __name__ == "__main__":
    main()
