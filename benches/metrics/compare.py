"""Metrics of the crate `evaluation` beside scikit-learn, on the same numbers.

    python3 benches/metrics/compare.py [--rounds 9] [--samples 1000000]

The script makes its own virtual environment with pinned packages, builds the driver in release mode, and
lets the two evaluate in turn, both holding the data in memory. Results must agree to 1e-12, or the comparison is void.

Out-of-domain: half of the samples in-domain, half not. Ours is one call that gives AUROC, AUPR-In, AUPR-Out, FPR@95, the averaged
FPR and the detection error. scikit-learn needs `roc_auc_score`, `average_precision_score` twice and `roc_curve` twice (reduced and
full); the line "AUROC alone" is its time for the first of these. Scores: all different, 1024 different ones, and `f32` ones.

In-domain: probabilities of ten classes. Ours is one call that gives accuracy, top-5, log loss, ECE, Brier score and the AUROC of
right against wrong predictions; the other side is `accuracy_score`, `top_k_accuracy_score`, `log_loss`, `roc_auc_score` and, where
scikit-learn has nothing, vectorized numpy (ECE with `bincount`; Brier).

Figures go to `benches/metrics/results.json` and `results.md`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import SCIKIT_LEARN, add_environment_arguments, driver, enter_environment, scikit_learn_metrics

RESULTS = Path(__file__).resolve().parent
SEED = 20240607
CLASSES = 10
BINS = 20
REPLICATES = 100
# both compute the same numbers: beyond this the comparison is void
AGREEMENT = 1e-12
BAR = 5


class Ours:
    """The driver with the data in memory; one line in, one evaluation, one line out."""

    def __init__(self, task, *arguments):
        command = [str(Ours.binary), task, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().strip() == "ready"

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["result"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def theirs_out_of_domain(positive, score, times):
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    start = time.perf_counter()
    auroc = roc_auc_score(positive, score)
    times["scikit-learn, AUROC alone"] = time.perf_counter() - start
    aupr_in = average_precision_score(positive, score)
    aupr_out = average_precision_score(1 - positive, -score)
    full_fpr, full_tpr, _ = roc_curve(positive, score, drop_intermediate=False)
    fpr, tpr, _ = roc_curve(positive, score)
    result = {
        "auroc": auroc,
        "aupr_in": aupr_in,
        "aupr_out": aupr_out,
        "fpr_at_95_tpr": full_fpr[(full_tpr >= 0.95).argmax()],
        "mean_fpr_below_95_tpr": fpr[tpr <= 0.95 + 0.0005].mean(),
        "detection_error": ((fpr - tpr + 1.0) / 2.0).min(),
    }
    times["scikit-learn"] = time.perf_counter() - start
    return result


def theirs_in_domain(probabilities, labels, times):
    start = time.perf_counter()
    result = scikit_learn_metrics(probabilities, labels, BINS)
    times["scikit-learn and numpy"] = time.perf_counter() - start
    return result


def compare(name, ours, theirs, rounds):
    """Runs both in turn; the first turn warms them up."""
    times = {"ours": []}
    worst = 0.0
    for turn in range(rounds + 1):
        seconds, found = ours.run()
        round_times = {}
        expected = theirs(round_times)
        worst = max([worst] + [abs(found[key] - value) for key, value in expected.items()])
        if turn > 0:
            times["ours"].append(seconds)
            for key, value in round_times.items():
                times.setdefault(key, []).append(value)
    ours.close()
    if worst > AGREEMENT:
        sys.exit(f"{name}: the results differ by {worst}")
    rows = []
    best_ours, median_ours = min(times["ours"]), statistics.median(times["ours"])
    print(f"{name} (largest difference {worst:.1e})")
    for side, seconds in times.items():
        best, median = min(seconds), statistics.median(seconds)
        row = {"case": name, "side": side, "best_s": best, "median_s": median}
        line = f"  {side}: best {best * 1e3:.1f} ms, median {median * 1e3:.1f} ms"
        if side != "ours":
            row |= {"ratio_best": best / best_ours, "ratio_median": median / median_ours}
            line += f"; ratio best {best / best_ours:.1f}, median {median / median_ours:.1f}"
        rows.append(row)
        print(line, flush=True)
    return rows, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of results.json and results.md")
    add_environment_arguments(parser)
    arguments = parser.parse_args()
    enter_environment(arguments, SCIKIT_LEARN)

    import numpy as np
    import sklearn

    Ours.binary = driver("metrics")
    rng = np.random.default_rng(SEED)
    n = arguments.samples
    rows, differences = [], {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        fine_in, fine_out = rng.beta(6, 1.5, n // 2), rng.beta(3, 2, n - n // 2)
        sides = {
            "all scores different": (fine_in, fine_out),
            "1024 different scores": (np.round(fine_in * 1024) / 1024, np.round(fine_out * 1024) / 1024),
            "scores from f32": (fine_in.astype(np.float32).astype(float), fine_out.astype(np.float32).astype(float)),
        }
        for kind, (ins, outs) in sides.items():
            ins.tofile(folder / "in.bin")
            outs.tofile(folder / "out.bin")
            positive = np.r_[np.ones(len(ins), int), np.zeros(len(outs), int)]
            score = np.r_[ins, outs]
            name = f"out-of-domain, {n} samples, {kind}"
            ours = Ours("ood", folder / "in.bin", folder / "out.bin")
            theirs = lambda times: theirs_out_of_domain(positive, score, times)
            part, differences[name] = compare(name, ours, theirs, arguments.rounds)
            rows += part
        logits = rng.standard_normal((n, CLASSES)) * 1.5
        labels = rng.integers(0, CLASSES, n)
        logits[np.arange(n), labels] += 2.5
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        probabilities.tofile(folder / "probabilities.bin")
        labels.astype(np.int64).tofile(folder / "labels.bin")
        name = f"in-domain, {n} x {CLASSES} probabilities"
        ours = Ours("in-domain", folder / "probabilities.bin", folder / "labels.bin", CLASSES)
        theirs = lambda times: theirs_in_domain(probabilities, labels, times)
        part, differences[name] = compare(name, ours, theirs, arguments.rounds)
        rows += part
        # nothing to compare with: scikit-learn would sort again for every replicate
        few = min(n, 20_000) // 2
        fine_in[:few].tofile(folder / "in.bin")
        fine_out[:few].tofile(folder / "out.bin")
        ours = Ours("bootstrap", folder / "in.bin", folder / "out.bin", REPLICATES)
        seconds = [ours.run()[0] for _ in range(arguments.rounds + 1)][1:]
        ours.close()
        per_replicate = min(seconds) / REPLICATES
        bootstrap = f"bootstrap of all out-of-domain metrics, {2 * few} samples: {per_replicate * 1e3:.2f} ms a replicate"
        print(bootstrap)

    versions = {
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    arguments.out.mkdir(exist_ok=True)
    report = {"rounds": arguments.rounds, "versions": versions, "differences": differences, "rows": rows}
    report["bootstrap_s_per_replicate"] = per_replicate
    (arguments.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    lines = ["# Metrics beside scikit-learn", "", f"`python3 benches/metrics.py --rounds {arguments.rounds}`", ""]
    lines += ["| case | side | best | median | ours is faster by (best, median) |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = f"{row['ratio_best']:.1f}, {row['ratio_median']:.1f}" if "ratio_best" in row else ""
        times = f"{row['best_s'] * 1e3:.1f} ms | {row['median_s'] * 1e3:.1f} ms"
        lines.append(f"| {row['case']} | {row['side']} | {times} | {ratio} |")
    lines += ["", f"Largest difference of a result: {max(differences.values()):.1e}. {bootstrap[0].upper()}{bootstrap[1:]}.", ""]
    lines.append(", ".join(f"{key} {value}" for key, value in versions.items()) + ".")
    (arguments.out / "results.md").write_text("\n".join(lines) + "\n")
    slow = [row for row in rows if row["side"].startswith("scikit-learn") and "alone" not in row["side"]]
    slow = [row for row in slow if row["ratio_best"] < BAR]
    if slow:
        sys.exit(f"less than {BAR} times as fast: {[row['case'] for row in slow]}")


if __name__ == "__main__":
    main()
