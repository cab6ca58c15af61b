"""Linear forms of three independent numbers, with mpmath and thirty digits.

Each number takes a share of the gap between the value and the form at the modes. The logs are concave, so that nested
ternary searches over two of the shares, inside the domains, find the supremum of the product. No derivative is used.
"""
import os

from mpmath import inf, mp, mpf

from common import args, write_json
from gen_compare import log_possibility, mode

mp.dps = 30
STEPS = 110


def room(f, factor, gap):
    """The largest share of the gap that the number can take inside its domain."""
    ends = {"bernoulli": (0, 1), "poisson": (0, inf)}.get(f["family"], (-inf, inf))
    if f.get("parameter") == "natural":
        ends = (-inf, inf)
    toward = gap / factor
    end = ends[1] if toward > 0 else ends[0]
    return mpf(1) if abs(end) == inf else min(mpf(1), (mpf(end) - mode(f)) / toward)


def highest(value, low, high):
    if low > high:
        return -inf
    best = max(value(low), value(high))
    for _ in range(STEPS):
        x, y = low + (high - low) / 3, high - (high - low) / 3
        if value(x) < value(y):
            low = x
        else:
            high = y
    return max(best, value((low + high) / 2))


def supremum(functions, factors, t):
    factors = [mpf(c) for c in factors]
    gap = mpf(t) - sum(c * mode(f) for c, f in zip(factors, functions))
    one, two, three = (room(f, c, gap) for f, c in zip(functions, factors))
    part = lambda i, share: log_possibility(functions[i], mode(functions[i]) + share * gap / factors[i])

    def inner(r):
        rest = lambda q: part(1, q) + part(2, 1 - r - q)
        return part(0, r) + highest(rest, max(mpf(0), 1 - r - three), min(1 - r, two))

    return highest(inner, max(mpf(0), 1 - two - three), one)


def main():
    _, out = args()
    F = lambda family, mode, weight, **more: {"family": family, "mode": mode, "weight": weight, **more}
    cases = []
    for functions, factors, values in [
        ([F("poisson", 4.0, 3.0), F("poisson", 2.5, 2.0), F("poisson", 7.0, 1.0)], [1.0, 1.0, -1.0], [0.0, 2.0, -6.0]),
        ([F("poisson", 0.0, 3.0), F("poisson", 2.5, 2.0), F("poisson", 1.0, 4.0)], [1.0, -0.5, -0.5], [0.0, 1.5]),
        ([F("bernoulli", 0.75, 8.0), F("bernoulli", 0.5, 4.0), F("bernoulli", 1.0, 5.0)], [1.0, -2.0, 1.0],
         [0.0, 1.9, -0.5]),
        ([F("normal", 1.0, 4.0, extra=2.0), F("normal", -0.5, 7.0, extra=2.0), F("normal", 3.0, 2.0, extra=2.0)],
         [1.0, 1.0, -1.0], [0.0, 3.0]),
        ([F("bernoulli", 0.75, 8.0, parameter="natural"), F("bernoulli", 0.5, 4.0, parameter="natural"),
          F("bernoulli", 0.25, 4.0, parameter="natural")], [1.0, -0.5, -0.5], [0.0, 3.0]),
    ]:
        points = [{"value": v, "log_possibility": supremum(functions, factors, v)} for v in values]
        cases.append({"functions": functions, "factors": factors, "points": points})
    head = {"about": "log sup of the product of three possibility functions where the sum of factors times numbers is "
                     "the value; keys as in contrasts.json"}
    write_json(os.path.join(out, "compare", "combinations.json"), head, cases)


if __name__ == "__main__":
    main()
