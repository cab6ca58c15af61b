"""Asymptotic coverage erf(sqrt(-log alpha)) of alpha-cuts of one number, with mpmath (40 digits)."""
import os

import mpmath as mp

from common import args, write_json

mp.mp.dps = 40


def main():
    _, out = args()
    alphas = [0.999, 0.9, 0.5, 0.3, 0.14650013838, 0.1, 0.05, 0.036225, 0.01, 1e-3, 1e-6]
    cases = [{"alpha": a, "coverage": mp.erf(mp.sqrt(-mp.log(mp.mpf(a))))} for a in alphas]
    head = {"about": "coverage of an alpha-cut where -2 log possibility is chi-square with one degree of freedom"}
    write_json(os.path.join(out, "coverage", "coverage.json"), head, cases)


if __name__ == "__main__":
    main()
