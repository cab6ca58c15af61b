#!/usr/bin/env python3
"""Coverage of the sets of classes, each judged by its exact law, from run records.

    python3 coverage.py RECORDS... > coverage.md

RECORDS are folders with record.json files at any depth. With n images that calibrate, m that
measure and l = floor(α(n+1)), the number of covered images is beta-binomial: given the calibration
the coverage is Beta(n+1-l, l), and the m images are drawn at that coverage. The law is that of
rankings without ties. p is the probability of a number as far out on its side, doubled.
"""

import collections
import json
import math
import pathlib
import sys


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def two_sided(covered, m, n, alpha):
    rank = math.floor(alpha * (n + 1) + 1e-9)
    a, b = n + 1 - rank, rank
    def log_probability(k):
        ways = math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1)
        return ways + log_beta(k + a, m - k + b) - log_beta(a, b)
    low = math.fsum(math.exp(log_probability(k)) for k in range(covered + 1))
    high = math.fsum(math.exp(log_probability(k)) for k in range(covered, m + 1))
    return min(1.0, 2.0 * min(low, high))


def main():
    found = collections.defaultdict(list)
    for folder in sys.argv[1:]:
        for path in sorted(pathlib.Path(folder).rglob("record.json")):
            record = json.loads(path.read_text())
            for row in record["evaluations"]:
                wanted = row["checkpoint"] == "final" and row.get("bounds")
                # rows of one training differ in the factor alone
                if wanted and "last layer" not in row["row"] and "NLL" not in row["row"]:
                    for sets in row["bounds"]["sets"]:
                        for level in sets["levels"]:
                            found[(record["dataset"], sets["contour"], level["alpha"])].append(
                                (level["covered"], sets["images"], sets["calibration"], level["classes"]))
    print("| data | runs | images to calibrate, to measure | ranked by | 1 − α | covered (least, most) |"
          " smallest p | p below .05 | classes in a set |")
    print("|:--|--:|--:|:--|--:|--:|--:|--:|--:|")
    everything = []
    for (dataset, contour, alpha), runs in found.items():
        shares = [covered / m for covered, m, _, _ in runs]
        ps = [two_sided(covered, m, n, alpha) for covered, m, n, _ in runs]
        everything += ps
        classes = sum(c / m for _, m, _, c in runs) / len(runs)
        spread = f" ({min(shares):.4f}, {max(shares):.4f})" if len(runs) > 1 else ""
        cells = [dataset, str(len(runs)), f"{runs[0][2]}, {runs[0][1]}", contour, f"{1 - alpha:g}",
                 f"{sum(shares) / len(shares):.4f}{spread}", f"{min(ps):.3f}",
                 str(sum(p < 0.05 for p in ps)), f"{classes:.2f}"]
        print("| " + " | ".join(cells) + " |")
    print(f"\nOf {len(everything)} coverages {sum(p < 0.05 for p in everything)} have p below .05, and the"
          f" smallest p is {min(everything):.4f}.")


if __name__ == "__main__":
    main()
