"""Possibilistic logistic regression against scikit-learn's newton-cholesky, on the same data.

    python3 benches/logistic/compare.py [--rows 1000000] [--covariates 20] [--threads 2] [--rounds 9] [--command-rounds 3]
        [--out results.json]

The script makes its own virtual environment with pinned packages, writes synthetic data once, builds the
driver in release mode, and then lets the two systems fit in turn, both holding the data in
memory and both with the same number of threads. Regularization: ½δ|w|² with δ = 1 on every coefficient, no
intercept, i.e. scikit-learn's C = 1/δ. scikit-learn is timed twice, with its default tolerance and with one
close to what our fit reaches; our fit always includes its results: mode, log consistency, the Laplace
approximation and its Gaussian bounds. Reading the data is not timed.

The exact profiles follow: of every coefficient the 0.05-cut and the possibility of each sign, as a multiple of the
fit's own time.

Then the whole command `maxitive infer logistic` runs on a CSV file of the same data, in turn with
scikit-learn: its time is that of the process, from start to exit, less the reading of the file, which it
reports itself (`--timings`).
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import SCIKIT_LEARN, add_environment_arguments, driver, enter_environment, program

HERE = Path(__file__).resolve().parent
SEED = 20240607
PRECISION = 1.0
TOLERANCES = {"default tolerance 1e-4": 1e-4, "tolerance 1e-8": 1e-8}
# both minimize the same function: beyond this the comparison is void
AGREEMENT = 1e-6


def synthetic(rows, covariates):
    import numpy as np

    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((rows, covariates))
    w = 0.5 * rng.standard_normal(covariates)
    y = (rng.random(rows) < 1 / (1 + np.exp(-(x @ w)))).astype(np.uint8)
    return x, y


class Ours:
    """The driver with the data in memory; one line in, one fit, one line out."""

    def __init__(self, data, rows, covariates, threads):
        binary = driver("logistic")
        arguments = [str(binary), str(data), str(rows), str(covariates), str(PRECISION), str(threads)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().strip() == "ready"

    def fit(self, question=""):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def write_csv(path, x, y):
    names = ",".join(f"x{j}" for j in range(x.shape[1]))
    with path.open("w") as file:
        file.write(f"{names},y\n")
        for start in range(0, len(y), 10_000):
            block = x[start : start + 10_000].tolist()
            labels = y[start : start + 10_000].tolist()
            file.writelines(",".join(map(repr, row)) + f",{label}\n" for row, label in zip(block, labels))


def fit_scikit_learn(x, y, tolerance):
    """The fitted model and its seconds."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        solver="newton-cholesky", C=1 / PRECISION, fit_intercept=False, tol=tolerance, max_iter=100
    )
    start = time.perf_counter()
    model.fit(x, y)
    return model, time.perf_counter() - start


def run_command(binary, path, threads):
    """Seconds of the whole command less the reading of the file, and its JSON."""
    arguments = [str(binary), "infer", "logistic", str(path), "--target", "y", "--no-intercept", "--json", "--timings"]
    arguments += ["--prior-precision", str(PRECISION), "--threads", str(threads)]
    start = time.perf_counter()
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    reading = float(re.search(r"reading ([0-9.e-]+) s", done.stderr).group(1))
    return seconds - reading, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile-rounds", type=int, default=3)
    parser.add_argument("--command-rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    add_environment_arguments(parser)
    arguments = parser.parse_args()
    for variable in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]:
        os.environ[variable] = str(arguments.threads)
    enter_environment(arguments, SCIKIT_LEARN)

    import numpy as np
    import sklearn

    x, y = synthetic(arguments.rows, arguments.covariates)
    times = {name: [] for name in ["ours", *TOLERANCES]}
    notes = {}
    command_times, beside_command = [], {name: [] for name in TOLERANCES}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.bin"
        with data.open("wb") as file:
            x.tofile(file)
            y.tofile(file)
        ours = Ours(data, arguments.rows, arguments.covariates, arguments.threads)
        data.unlink()
        for turn in range(arguments.rounds + 1):
            fit = ours.fit()
            mode = np.array(fit["mode"])
            notes["ours"] = f"{fit['steps']} steps, gradient norm {fit['gradient_norm']:.1e}"
            # the first turn warms both up
            if turn > 0:
                times["ours"].append(fit["seconds"])
            for name, tolerance in TOLERANCES.items():
                model, seconds = fit_scikit_learn(x, y, tolerance)
                if turn > 0:
                    times[name].append(seconds)
                gap = float(np.max(np.abs(model.coef_[0] - mode)))
                residual = 1 / (1 + np.exp(-(x @ model.coef_[0]))) - y
                norm = float(np.linalg.norm(x.T @ residual + PRECISION * model.coef_[0]))
                notes[name] = f"{model.n_iter_[0]} steps, gradient norm {norm:.1e}, {gap:.1e} from our mode"
                if tolerance <= 1e-8 and gap > AGREEMENT:
                    sys.exit(f"the two modes differ by {gap}")
        profiled = [ours.fit("profiles") for _ in range(arguments.profile_rounds)]
        ours.close()
        if arguments.command_rounds > 0:
            binary = program("maxitive", "maxitive")
            data = Path(folder) / "data.csv"
            write_csv(data, x, y)
            for _ in range(arguments.command_rounds):
                seconds, result = run_command(binary, data, arguments.threads)
                command_times.append(seconds)
                gap = float(np.max(np.abs(np.array([c["mode"] for c in result["coefficients"]]) - mode)))
                if gap > AGREEMENT:
                    sys.exit(f"the command's mode differs by {gap}")
                for name, tolerance in TOLERANCES.items():
                    beside_command[name].append(fit_scikit_learn(x, y, tolerance)[1])

    print(f"{arguments.rows} x {arguments.covariates}, {arguments.threads} threads, {arguments.rounds} rounds")
    print(f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    for name, seconds in times.items():
        label = name if name == "ours" else f"scikit-learn, {name}"
        best, median = min(seconds), statistics.median(seconds)
        line = f"{label}: best {best * 1e3:.0f} ms, median {median * 1e3:.0f} ms ({notes[name]})"
        if name != "ours":
            ratio_best = best / min(times["ours"])
            ratio_median = median / statistics.median(times["ours"])
            line += f"; ratio best {ratio_best:.1f}, median {ratio_median:.1f}"
        print(line)
    for fit in profiled:
        print(f"exact profiles: {fit['profile_seconds']:.2f} s, {fit['profile_seconds'] / fit['seconds']:.1f} times "
              f"the fit beside it, certified to {fit['gap']:.0e} in the log of the possibility")
    if command_times:
        best, median = min(command_times), statistics.median(command_times)
        print(f"the whole command less reading: best {best * 1e3:.0f} ms, median {median * 1e3:.0f} ms")
        for name, seconds in beside_command.items():
            ratio_best, ratio_median = min(seconds) / best, statistics.median(seconds) / median
            print(f"  beside scikit-learn, {name}: ratio best {ratio_best:.1f}, median {ratio_median:.1f}")
    record = {"rows": arguments.rows, "covariates": arguments.covariates, "threads": arguments.threads,
              "scikit-learn": sklearn.__version__, "numpy": np.__version__, "seconds": times, "notes": notes,
              "profiles": [{name: fit[name] for name in ["seconds", "profile_seconds", "gap"]} for fit in profiled],
              "command_seconds": command_times, "beside_command_seconds": beside_command}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
