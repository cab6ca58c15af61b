"""The exact profiles of `maxitive infer logistic` against an independent constrained optimizer.

    python3 benches/logistic/breast_cancer.py [--binary target/release/maxitive]

The breast-cancer data of scikit-learn (569 rows, 30 covariates), `--standardize`, prior precision 1 and nothing
known of the intercept. SciPy minimizes the regularized loss under the linear constraint that one coefficient has
a given value (trust-region Newton on the other coefficients, in standardized units): at 0, where the command gives
possibilities, and at both ends of every 0.05-cut, where the log possibility must be log 0.05. The script fails if
a log possibility differs by more than 1e-7.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import SCIKIT_LEARN, TARGET, add_environment_arguments, enter_environment

ALLOWED = 1e-7


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=TARGET / "release" / "maxitive")
    add_environment_arguments(parser)
    arguments = parser.parse_args()
    enter_environment(arguments, SCIKIT_LEARN)

    import numpy as np
    from scipy.optimize import minimize
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    x, y = data.data, data.target.astype(float)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cancer.csv"
        with path.open("w") as file:
            file.write(",".join(names) + ",benign\n")
            file.writelines(",".join(map(repr, row)) + f",{int(label)}\n" for row, label in zip(x.tolist(), y))
        command = [str(arguments.binary), "infer", "logistic", str(path), "--target", "benign", "--standardize"]
        done = subprocess.run([*command, "--alpha", "0.05", "--json"], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)

    means, deviations = x.mean(axis=0), x.std(axis=0)
    z = np.concatenate([np.ones((len(y), 1)), (x - means) / deviations], axis=1)
    precision = np.ones(31)
    precision[0] = 0

    def parts(w):
        sign = 1 - 2 * y
        t = sign * (z @ w)
        s = 1 / (1 + np.exp(-t))
        loss = np.logaddexp(0, t).sum() + 0.5 * (precision * w * w).sum()
        return loss, z.T @ (sign * s) + precision * w, (z.T * (s * (1 - s))) @ z + np.diag(precision)

    def profile(form, value):
        """Minimum over {w : form w = value}; one coordinate is eliminated."""
        k = int(np.argmax(np.abs(form)))
        free = [j for j in range(31) if j != k]
        lift, base = np.zeros((31, 30)), np.zeros(31)
        lift[free, range(30)] = 1
        lift[k] = -form[free] / form[k]
        base[k] = value / form[k]
        at = lambda v: parts(base + lift @ v)
        found = minimize(lambda v: at(v)[0], np.zeros(30), jac=lambda v: lift.T @ at(v)[1],
                         hess=lambda v: lift.T @ at(v)[2] @ lift, method="trust-exact", options={"gtol": 1e-11})
        return found.fun

    whole = minimize(lambda v: parts(v)[0], np.zeros(31), jac=lambda v: parts(v)[1], hess=lambda v: parts(v)[2],
                     method="trust-exact", options={"gtol": 1e-11})
    worst = abs(report["log_consistency"] + whole.fun)
    print(f"log consistency: off by {worst:.1e}")
    for j, coefficient in enumerate(report["coefficients"]):
        # a coefficient of the covariates as they are, in terms of the standardized ones
        form = np.zeros(31)
        if j == 0:
            form[0], form[1:] = 1, -means / deviations
        else:
            form[j] = 1 / deviations[j - 1]
        zero = next(event for event in coefficient["events"] if event["event"].endswith("= 0"))
        cut = coefficient["alpha_cuts"][0]
        for value, log in [(0.0, np.log(zero["possibility"])), (cut["lower"], np.log(0.05)), (cut["upper"], np.log(0.05))]:
            worst = max(worst, abs(log + profile(form, value) - whole.fun))
    certified = report["certified_to"]
    print(f"{3 * len(report['coefficients'])} profile values: off by at most {worst:.1e}, certified to {certified:.1e}")
    if not worst <= ALLOWED:
        sys.exit(f"the bar is {ALLOWED}")


if __name__ == "__main__":
    main()
