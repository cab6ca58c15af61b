"""Holds every profile of a logistic regression with 30 covariates against SciPy.

    python golden/generate/check_breast_cancer.py target/release/maxitive

scikit-learn's copy of the breast-cancer data goes through `maxitive infer logistic --standardize`. For every
coefficient, both ends of two alpha-cuts and the possibility of either sign are compared with the profile that SciPy's
trust-region method finds: the coefficient held at a value, the others free. Exit code 1 if one is off by more than 1e-7.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer

ALPHAS = [0.05, 0.5]
TOLERANCE = 1e-7


def run(program, x, y):
    names = [f"x{j}" for j in range(x.shape[1])]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cancer.csv")
        with open(path, "w", newline="") as f:
            rows = csv.writer(f)
            rows.writerow(names + ["benign"])
            rows.writerows([*map(repr, map(float, row)), int(label)] for row, label in zip(x, y))
        command = [program, "infer", "logistic", path, "--target", "benign", "--standardize", "--json"]
        command += [a for alpha in ALPHAS for a in ("--alpha", str(alpha))]
        command += [a for name in names for a in ("--event", f"{name} > 0")]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Posterior:
    """Minus the log posterior of standardized coefficients; the constant term comes first and has no prior."""

    def __init__(self, x, y):
        self.mean, self.scale = x.mean(axis=0), x.std(axis=0)
        self.z = np.column_stack([np.ones(len(x)), (x - self.mean) / self.scale])
        self.y, self.prior = y, np.r_[0.0, np.ones(x.shape[1])]

    def minimum(self, form=None, value=None, start=None):
        """The least value where form'w = value, by elimination of the coordinate with the largest entry."""
        p = self.z.shape[1]
        base, free = np.zeros(p), np.eye(p)
        if form is not None:
            k = np.argmax(np.abs(form))
            base[k] = value / form[k]
            free[k] = -form / form[k]
            free = np.delete(free, k, axis=1)
            start = np.delete(start, k)
        else:
            start = np.zeros(p)
        z, offset = self.z @ free, self.z @ base

        def value_of(u):
            t, w = offset + z @ u, base + free @ u
            return np.sum(np.logaddexp(0, t) - self.y * t) + 0.5 * np.sum(self.prior * w * w)

        def gradient(u):
            t, w = offset + z @ u, base + free @ u
            return z.T @ (1 / (1 + np.exp(-t)) - self.y) + free.T @ (self.prior * w)

        def hessian(u):
            s = 1 / (1 + np.exp(-(offset + z @ u)))
            return z.T @ (z * (s * (1 - s))[:, None]) + free.T @ (free * self.prior[:, None])

        found = minimize(value_of, start, jac=gradient, hess=hessian, method="trust-exact",
                         options={"gtol": 1e-9, "maxiter": 1000})
        return found.fun, base + free @ found.x

    def form(self, index):
        """The form of a coefficient on the original scale: the first is the constant term."""
        form = np.zeros(self.z.shape[1])
        if index:
            form[index] = 1 / self.scale[index - 1]
        else:
            form[0], form[1:] = 1.0, -self.mean / self.scale
        return form


def main():
    data = load_breast_cancer()
    report = run(sys.argv[1], data.data, data.target)
    posterior = Posterior(data.data, data.target)
    best, mode = posterior.minimum()
    worst, compared = 0.0, 0
    for index, coefficient in enumerate(report["coefficients"]):
        form = posterior.form(index)
        possibility = lambda value: np.exp(best - posterior.minimum(form, value, mode)[0])
        pairs = [(cut["alpha"], possibility(cut[end])) for cut in coefficient["alpha_cuts"] for end in ("lower", "upper")]
        at_zero = possibility(0.0)
        for event in coefficient["events"]:
            positive = form @ mode > 0
            pairs.append((event["possibility"], 1.0 if positive else at_zero))
            pairs.append((event["necessity"], 1.0 - at_zero if positive else 0.0))
        gap = max(abs(ours - theirs) for ours, theirs in pairs)
        worst, compared = max(worst, gap), compared + len(pairs)
        print(f'{coefficient["name"]:10} {gap:.1e}')
    print(f"{compared} numbers of {len(report['coefficients'])} coefficients, largest difference {worst:.1e}")
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
