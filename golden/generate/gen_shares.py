"""Linear forms of class probabilities under counts of classes, with mpmath and thirty digits.

The likelihood relative to its maximum is maximized over the part of the simplex where the form has the value. The
last two probabilities follow from the others; the likelihood is concave in these, so that nested ternary searches over
each of them find the maximum. No derivative and no multiplier is used.
"""
import os

from mpmath import inf, log, mp, mpf, exp

from common import args, write_json

mp.dps = 30
STEPS = 110


def log_relative(counts, p):
    total = sum(counts)
    terms = [(n, q) for n, q in zip(counts, p) if n > 0]
    if any(q <= 0 for _, q in terms) or any(q < 0 for q in p):
        return -inf
    return sum(n * log(q * total / n) for n, q in terms)


def feasible(factors, value, fixed):
    """Ends of the next probability such that the others can still be completed; None if they cannot."""
    k = len(factors)
    rest, needed = 1 - sum(fixed), value - sum(c * p for c, p in zip(factors, fixed))
    i = len(fixed)
    lo, hi = mpf(0), rest
    # with p_i = x the others have rest - x to give, worth between min and max of their factors
    for bound, sign in ((max(factors[i + 1:]), 1), (min(factors[i + 1:]), -1)):
        # sign * (c_i x + bound (rest - x) - needed) >= 0
        slope, at_zero = sign * (factors[i] - bound), sign * (bound * rest - needed)
        if slope == 0:
            if at_zero < 0:
                return None
        elif slope > 0:
            lo = max(lo, -at_zero / slope)
        else:
            hi = min(hi, -at_zero / slope)
    return (lo, hi) if lo <= hi else None


def best(counts, factors, value, fixed=()):
    k = len(counts)
    if len(fixed) == k - 2:
        c, d = factors[-2:]
        rest, needed = 1 - sum(fixed), value - sum(a * p for a, p in zip(factors, fixed))
        first = (needed - d * rest) / (c - d)
        tiny = mpf(10) ** -25
        p = [max(q, mpf(0)) if q > -tiny else q for q in (*fixed, first, rest - first)]
        return log_relative(counts, p)
    ends = feasible(factors, value, fixed)
    if ends is None:
        return -inf
    a, b = ends
    inner = lambda x: best(counts, factors, value, (*fixed, x))
    candidates = [inner(a), inner(b)]
    for _ in range(STEPS):
        x, y = a + (b - a) / 3, b - (b - a) / 3
        if inner(x) < inner(y):
            a = x
        else:
            b = y
    return max(candidates + [inner((a + b) / 2)])


def main():
    _, out = args()
    cases = []
    for counts, factors, values in [
        ([5, 3, 2], [1, -1, 0], [0, 0.4, -0.5]),
        ([5, 3, 2], [1, 1, 0], [0.6, 0.95, 0.1]),
        ([50, 48, 7], [2, -1, 0.5], [0.3, 1.2]),
        ([4, 4, 0], [-1, 0, 1], [0, 0.5]),
        ([6, 0, 0], [0.25, 1, -2], [0, 0.5]),
        ([3, 1, 4, 2], [1, 0, -1, 0], [0, 0.3]),
        ([3, 1, 4, 2], [1, 2, 3, 5], [2, 3.5]),
        ([3, 0, 4, 2], [1, 2, -1, 0], [0.5, 1.5]),
    ]:
        counts, factors = [mpf(n) for n in counts], [mpf(c) for c in factors]
        for value in values:
            log_possibility = best(counts, factors, mpf(value))
            cases.append({"counts": counts, "factors": factors, "value": value, "possibility": exp(log_possibility)})
    head = {"about": "possibility of sum(factors * p) = value, the likelihood of the counts relative to its maximum"}
    write_json(os.path.join(out, "shares", "forms.json"), head, cases)


if __name__ == "__main__":
    main()
