"""What the tests share."""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "optimizers"
RULES = {"UCBOpt": "ucbopt", "UCBOptAdapt": "ucbopt_adapt", "LCBOptAdapt": "lcbopt_adapt"}


def cases():
    """Name of the class, and a golden case."""
    return [
        (name, case)
        for name, file in RULES.items()
        for case in json.loads((GOLDEN / f"{file}.json").read_text())["cases"]
    ]


def ids():
    return [f"{name}-{case['name']}" for name, case in cases()]


def tolerance(case, double):
    """What an error may be, over the largest value so far."""
    if not double:
        # the gap is as small as (1 - gamma) h, so that the rounding of h counts up to tenfold:
        # 1.2e-6 in torch, JAX and Rust alike
        return 2e-6 if case["hyper"].get("gamma", 2.0) < 1.0 else 1e-6
    hyper, decay = case["hyper"], case["hyper"]["weight_decay"]
    rest = decay - hyper.get("vartheta", 0.0)
    h = np.array([after["h"] for after in case["after"]])
    # with vartheta = weight_decay and h far below, the reference is what a cancellation leaves
    return 1e-8 if (h + rest < 1e-3 * (h + decay)).any() else 1e-11


class Scales:
    """Compares vectors by the largest error over the largest value of the trajectory so far.

    A vector may pass through zero as a whole; then it holds the rounding of what it came from.
    """

    def __init__(self, case, double):
        self.tolerance = tolerance(case, double)
        self.largest = {"theta": np.abs(case["theta0"]).max()}

    def check(self, key, found, want):
        want, found = np.asarray(want, float), np.asarray(found, float)
        finite = np.isfinite(want)
        assert np.array_equal(found[~finite], want[~finite]), key
        largest = max(self.largest.get(key, 0.0), np.abs(want[finite]).max(initial=0.0))
        self.largest[key] = largest
        worst = np.abs(found[finite] - want[finite]).max(initial=0.0)
        assert worst <= self.tolerance * (largest or 1.0), (key, worst, largest)
