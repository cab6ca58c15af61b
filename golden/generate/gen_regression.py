"""Profiles of regressions with a canonical link, computed in numpy's long double (64-bit mantissa, x86-64).

The profile of a form a'w at t is the minimum of the regularized loss over {w : a'w = t}. One coordinate is
eliminated by the constraint and Newton's method runs on the others; ends of alpha-cuts are found by bisection.
Unknown variances are profiled numerically: the log of the sum of squares is minimized, no closed form is used.
"""
import math
import os

import numpy as np

from common import args, write_json

REAL = np.longdouble
assert np.finfo(REAL).eps < 2e-19, "this machine has no extended precision"

# Spector and Mazzeo (1980), as in statsmodels: GPA, TUCE, PSI, GRADE
SPECTOR = """2.66,20,0,0 2.89,22,0,0 3.28,24,0,0 2.92,12,0,0 4.00,21,0,1 2.86,17,0,0 2.76,17,0,0 2.87,21,0,0
3.03,25,0,0 3.92,29,0,1 2.63,20,0,0 3.32,23,0,0 3.57,23,0,0 3.26,25,0,1 3.53,26,0,0 2.74,19,0,0 2.75,25,0,0
2.83,19,0,0 3.12,23,1,0 3.16,25,1,1 2.06,22,1,0 3.62,28,1,1 2.89,14,1,0 3.51,26,1,0 3.54,24,1,1 2.83,27,1,1
3.39,17,1,1 2.67,24,1,0 3.65,21,1,1 4.00,23,1,1 3.10,21,1,0 2.39,19,1,1"""


def solve_linear(matrix, right):
    """Gaussian elimination with pivots, in the precision of its arguments."""
    a = np.concatenate([matrix, right[:, None]], axis=1)
    n = len(right)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, pivot]] = a[[pivot, k]]
        for i in range(n):
            if i != k:
                a[i] -= a[k] * (a[i, k] / a[k, k])
    return a[:, n] / np.diagonal(a[:, :n])


class Model:
    def __init__(self, case):
        self.response = case["response"]
        x = np.array(case["x"], dtype=REAL)
        self.x = np.concatenate([np.ones((len(x), 1), dtype=REAL), x], axis=1)
        self.y = np.array(case["y"], dtype=REAL)
        self.delta = np.array(case["prior_precision"], dtype=REAL)
        self.variance = None if case["variance"] is None else REAL(case["variance"])
        self.d = len(self.delta)
        self.weight = np.array(case.get("weight", [1.0] * len(self.y)), dtype=REAL)

    def parts(self, w):
        """Loss, gradient and Hessian: the rows' divided by the variance (1 if unknown), and the prior's."""
        z, y = self.x @ w, self.y
        if self.response == "bernoulli":
            sign = 1 - 2 * y
            loss = np.logaddexp(REAL(0), sign * z)
            mean = 1 / (1 + np.exp(-z))
            curvature = mean * (1 / (1 + np.exp(z)))
            residual = sign / (1 + np.exp(-sign * z))
        elif self.response == "poisson":
            curvature = np.exp(z)
            loss, residual = curvature - y * z, curvature - y
        else:
            loss, residual, curvature = (z - y) ** 2 / 2, z - y, np.ones_like(z)
        share = REAL(1) if self.variance is None else 1 / self.variance
        f = share * np.sum(self.weight * loss) + np.sum(self.delta * w * w) / 2
        g = share * (self.x.T @ (self.weight * residual)) + self.delta * w
        h = share * ((self.x.T * (self.weight * curvature)) @ self.x) + np.diag(self.delta)
        return f, g, h

    def minimize(self, form=None, t=None, start=None):
        """Minimizer and minimum of the regularized loss; with a form, on the hyperplane, whose coordinate with
        the largest coefficient is eliminated."""
        lift, base = np.eye(self.d, dtype=REAL), np.zeros(self.d, dtype=REAL)
        w = np.zeros(self.d, dtype=REAL) if start is None else start.copy()
        free = list(range(self.d))
        if form is not None:
            k = int(np.argmax(np.abs(form)))
            free.remove(k)
            lift = np.delete(lift, k, axis=1)
            lift[k] = -form[free] / form[k]
            base[k] = t / form[k]
        v = w[free]
        if not free:
            return base, self.parts(base)[0]
        for _ in range(500):
            f, g, h = self.parts(base + lift @ v)
            slope = lift.T @ g
            step = solve_linear(lift.T @ h @ lift, slope)
            gain = slope @ step
            scale = REAL(1)
            while not self.parts(base + lift @ (v - scale * step))[0] <= f - scale * gain / 10000 + REAL(1e-17) * abs(f):
                scale /= 2
            v = v - scale * step
            if gain < 1e-30 * max(1, f):
                break
        w = base + lift @ v
        return w, self.parts(w)[0]

    def height(self, loss, least):
        """Minus the log possibility."""
        if self.variance is not None:
            return loss - least
        return np.sum(self.weight) * np.log(loss / least) / 2

    def log_consistency(self, least):
        n = len(self.y)
        if self.response == "bernoulli":
            return -least
        if self.response == "poisson":
            return -least - sum(REAL(math.lgamma(y + 1)) for y in self.y)
        phi = 2 * least / n if self.variance is None else self.variance
        return -n * np.log(2 * REAL(np.pi) * phi) / 2 - (n / 2 if self.variance is None else least)


def near(model, form, mode, t):
    """Where the hyperplane at t is met along H^-1 a, which is not far from its minimum."""
    toward = solve_linear(model.parts(mode)[2], form)
    return mode + toward * ((t - form @ mode) / (form @ toward))


def cut_end(model, form, mode, level, side, least, center):
    """The t on one side of the center with height = level, by bisection."""
    def value(r):
        t = center + side * r
        return model.height(model.minimize(form, t, near(model, form, mode, t))[1], least) - level

    inner, outer = REAL(0), REAL(1)
    while value(outer) < 0:
        inner, outer = outer, 2 * outer
    while outer - inner > 1e-17 * outer:
        middle = (inner + outer) / 2
        if middle in (inner, outer):
            break
        if value(middle) < 0:
            inner = middle
        else:
            outer = middle
    return center + side * inner


def solve(case, forms, values, alphas):
    model = Model(case)
    mode, least = model.minimize()
    profiles = []
    for form in forms:
        form = np.array(form, dtype=REAL)
        center = form @ mode
        points = []
        for value in values:
            t = REAL(value)
            loss = model.minimize(form, t, near(model, form, mode, t))[1]
            points.append({"value": value, "log_possibility": -model.height(loss, least)})
        cuts = []
        for alpha in alphas:
            level = -np.log(REAL(alpha))
            ends = [cut_end(model, form, mode, level, side, least, center) for side in (-1, 1)]
            cuts.append({"alpha": alpha, "lower": ends[0], "upper": ends[1]})
        profiles.append({"form": form, "points": points, "cuts": cuts})
    return {**case, "mode": mode, "log_consistency": model.log_consistency(least), "profiles": profiles}


def mean_response(response, z):
    return {"bernoulli": lambda: 1 / (1 + np.exp(-z)), "poisson": lambda: np.exp(z), "normal": lambda: z}[response]()


def link(response, mean):
    mean = REAL(mean)
    return {"bernoulli": lambda: np.log(mean) - np.log1p(-mean), "poisson": lambda: np.log(mean),
            "normal": lambda: mean}[response]()


def predict(name, command, arguments, case, table, new_table, new_x, alphas, threshold):
    """The mean response at new covariates: what `maxitive infer predict` answers for the two CSV files."""
    model = Model(case)
    response = case["response"]
    mode, least = model.minimize()
    t = link(response, threshold)
    expected = []
    for row in new_x:
        form = np.array([1.0, *row], dtype=REAL)
        center = form @ mode
        cuts = []
        for alpha in alphas:
            level = -np.log(REAL(alpha))
            ends = [mean_response(response, cut_end(model, form, mode, level, side, least, center)) for side in (-1, 1)]
            cuts.append({"alpha": alpha, "lower": ends[0], "upper": ends[1]})
        at = np.exp(-model.height(model.minimize(form, t, near(model, form, mode, t))[1], least))
        expected.append({"mode": mean_response(response, center), "cuts": cuts,
                         "possibility_above": REAL(1) if center > t else at,
                         "necessity_above": 1 - at if center > t else REAL(0)})
    return {"name": name, "command": command, "arguments": arguments, "data": table, "new": new_table,
            "alphas": alphas, "threshold": threshold, "expected": expected}


def predictions():
    spector = [[float(v) for v in row.split(",")] for row in SPECTOR.split()]
    lines = "".join(f"{a},{b},{c},{d:.0f}\n" for a, b, c, d in spector)
    students = [[3.0, 20.0, 1.0], [2.2, 25.0, 0.0], [4.0, 28.0, 1.0]]
    first = predict(
        "spector", "logistic", ["--target", "GRADE", "--prior-precision", "1e-4"],
        {"response": "bernoulli", "variance": 1.0, "x": [row[:3] for row in spector], "y": [row[3] for row in spector],
         "prior_precision": [0.0, 1e-4, 1e-4, 1e-4]},
        "GPA,TUCE,PSI,GRADE\n" + lines, "PSI,TUCE,GPA\n" + "".join(f"{c},{b},{a}\n" for a, b, c in students), students,
        [0.05, 0.5], 0.4)
    # counts by rain and place; the reference of place is "south"; one row lacks its place
    calls = [(0.0, "north", 3, 2.0), (1.5, "south", 5, 1.0), (0.2, "east", 0, 1.0), (2.0, "north", 9, 3.0),
             (0.4, "south", 2, 0.5), (1.1, "east", 2, 2.0), (2.5, "east", 3, 1.0), (0.9, "south", 4, 1.0)]
    coded = lambda rain, place: [rain, 1.0 * (place == "east"), 1.0 * (place == "north")]
    asked = [(0.5, "east"), (2.2, "south"), (1.0, "north")]
    second = predict(
        "counts by place", "poisson-regression",
        ["--target", "calls", "--categorical", "place", "--reference", "place=south", "--weight", "days", "--missing",
         "drop", "--delimiter", ";", "--prior-precision", "0.25"],
        {"response": "poisson", "variance": 1.0, "x": [coded(r, p) for r, p, _, _ in calls],
         "y": [float(c) for _, _, c, _ in calls], "weight": [w for *_, w in calls],
         "prior_precision": [0.0, 0.25, 0.25, 0.25]},
        "\"rain, mm\";place;calls;days\n" + "".join(f"{r};{p};{c};{w}\n" for r, p, c, w in calls) + "3.0;NA;40;1\n",
        "place;\"rain, mm\"\n" + "".join(f"{p};{r}\n" for r, p in asked), [coded(r, p) for r, p in asked], [0.1], 3.0)
    points = [(0.0, 0.2), (0.5, 1.9), (1.0, 1.1), (1.5, 3.0), (2.0, 2.2), (2.5, 4.1), (3.0, 3.3), (4.0, 5.0)]
    line = {"response": "normal", "x": [[x] for x, _ in points], "y": [y for _, y in points],
            "weight": [1.0 + i % 3 for i in range(8)]}
    table = "x,y,w\n" + "".join(f"{x},{y},{1 + i % 3}\n" for i, (x, y) in enumerate(points))
    ahead = [[1.25], [6.0], [-2.0]]
    new = "x\n" + "".join(f"{x}\n" for (x,) in ahead)
    third = predict("a weighted line of unknown variance", "linear", ["--target", "y", "--weight", "w"],
                    {**line, "variance": None, "prior_precision": [0.0, 0.0]}, table, new, ahead, [0.05, 0.5], 2.5)
    fourth = predict("a weighted line of known variance", "linear",
                     ["--target", "y", "--weight", "w", "--variance", "0.8", "--prior-precision", "2",
                      "--intercept-precision", "0.5"],
                     {**line, "variance": 0.8, "prior_precision": [0.5, 2.0]}, table, new, ahead, [0.05, 0.5], 2.5)
    return [first, second, third, fourth]


def main():
    _, out = args()
    head = {"about": "mean responses at new covariates: `maxitive infer predict COMMAND data.csv --new new.csv "
                     "ARGUMENTS`; the event is that the mean response exceeds the threshold"}
    write_json(os.path.join(out, "regression", "predictions.json"), head, predictions())
    spector = [[float(v) for v in row.split(",")] for row in SPECTOR.split()]
    dose = [[0.0], [0.5], [1.0], [1.5], [2.0], [2.5], [3.0], [4.0]]
    pairs = [[0.3, -1.0], [1.2, 0.4], [-0.7, 0.9], [2.0, 1.5], [0.1, -0.2], [-1.4, 2.2], [0.8, 0.0], [1.9, -1.1]]
    cases = [
        solve({"name": "four separated points", "response": "bernoulli", "variance": 1.0,
               "x": [[1.0], [2.0], [3.0], [4.0]], "y": [0.0, 0.0, 1.0, 1.0], "prior_precision": [0.0, 1e-6]},
              [[0, 1], [1, 0], [1, 2.5]], [0.0, 3.0], [0.05, 0.5]),
        solve({"name": "spector", "response": "bernoulli", "variance": 1.0, "x": [row[:3] for row in spector],
               "y": [row[3] for row in spector], "prior_precision": [0.0, 1e-4, 1e-4, 1e-4]},
              [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, -1], [1, 3.1, 22, 1]],
              [0.0, 1.25], [0.05, 0.1465]),
        solve({"name": "spector without a prior", "response": "bernoulli", "variance": 1.0,
               "x": [row[:3] for row in spector], "y": [row[3] for row in spector],
               "prior_precision": [0.0, 0.0, 0.0, 0.0]},
              [[0, 1, 0, 0], [0, 0, 0, 1]], [0.0], [0.05]),
        solve({"name": "counts by dose", "response": "poisson", "variance": 1.0, "x": dose,
               "y": [2.0, 1.0, 4.0, 3.0, 6.0, 9.0, 8.0, 21.0], "prior_precision": [0.0, 0.0]},
              [[0, 1], [1, 0], [1, 5]], [0.0, 0.5, 2.0], [0.01, 0.5]),
        solve({"name": "rare counts", "response": "poisson", "variance": 1.0, "x": pairs,
               "y": [0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0], "prior_precision": [0.1, 0.5, 0.25]},
              [[0, 1, 0], [0, 0, 1], [0, 1, -1], [1, 2, 2]], [-1.0, 0.0, 1.0], [0.05, 0.5]),
        solve({"name": "a line of known variance", "response": "normal", "variance": 0.7, "x": pairs,
               "y": [0.4, 2.2, -1.9, 3.1, 0.0, -2.8, 1.5, 2.7], "prior_precision": [0.0, 0.3, 0.3]},
              [[0, 1, 0], [0, 1, -1], [1, 0.5, 0.5]], [0.0, 1.0], [0.05, 0.5]),
        solve({"name": "a line of unknown variance", "response": "normal", "variance": None, "x": pairs,
               "y": [0.4, 2.2, -1.9, 3.1, 0.0, -2.8, 1.5, 2.7], "prior_precision": [0.0, 0.0, 0.0]},
              [[0, 1, 0], [0, 1, -1], [1, 0.5, 0.5]], [0.0, 1.0], [0.05, 0.5]),
        solve({"name": "a line of unknown variance with a prior", "response": "normal", "variance": None,
               "x": dose, "y": [0.2, 1.9, 1.1, 3.0, 2.2, 4.1, 3.3, 5.0], "prior_precision": [0.0, 0.4]},
              [[0, 1], [1, 0]], [0.0, 1.0], [0.05, 0.5]),
    ]
    head = {"about": "profiles of canonical-link regressions; an intercept comes before the columns of x; the "
                     "variance is the known dispersion, null if it is unknown and profiled out (the prior is then "
                     "in units of 1/variance)"}
    write_json(os.path.join(out, "regression", "profiles.json"), head, cases)


if __name__ == "__main__":
    main()
