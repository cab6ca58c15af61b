"""What every comparison shares: its Python environment and its driver, the Rust side."""
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = ["torch==2.15.0", "numpy==2.4.6"]
SCIKIT_LEARN = ["numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "threadpoolctl==3.6.0"]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
INSIDE = "MAXITIVE_BENCH_ENVIRONMENT"
# folder with built programs, for a machine without Rust
PROGRAMS = "MAXITIVE_BENCH_PROGRAMS"


def add_environment_arguments(parser):
    """Lets the user choose the virtual environment and where its packages come from."""
    parser.add_argument("--venv", type=Path, default=ROOT / "benches" / ".venv",
                        help="virtual environment, made if it is not there")
    parser.add_argument("--index-url", help="package index, such as one with CPU-only builds of torch")
    parser.add_argument("--programs", type=Path,
                        help="folder with built programs: for a machine without Rust, whose Python is used as it is")


def enter_environment(arguments, packages):
    """Runs the calling script again inside the virtual environment, which has these packages."""
    if arguments.programs:
        os.environ[PROGRAMS] = str(arguments.programs.resolve())
        os.environ[INSIDE] = "1"
    if INSIDE in os.environ:
        return
    python = arguments.venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(arguments.venv)], check=True)
    index = ["--index-url", arguments.index_url] if arguments.index_url else []
    missing = [name for name in packages if not has(python, name)]
    if missing:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *index, *missing], check=True)
    os.environ[INSIDE] = "1"
    os.execv(str(python), [str(python), str(Path(sys.argv[0]).resolve()), *sys.argv[1:]])


def has(python, requirement):
    """Whether the environment has a package in the pinned version; a local build such as 1.0+cpu counts."""
    name, version = requirement.split("==")
    ask = f"import importlib.metadata as m; print(m.version({name!r}))"
    found = subprocess.run([str(python), "-c", ask], capture_output=True, text=True).stdout.strip()
    return found.split("+")[0] == version


def driver(name):
    """The program of `benches/NAME/driver.rs`."""
    return program("maxitive-benches", f"bench-{name}")


def program(package, name):
    """The path of a program of this project, built in release mode unless a folder was given."""
    if PROGRAMS in os.environ:
        return Path(os.environ[PROGRAMS]) / name
    build = ["cargo", "build", "--release", "--quiet", "-p", package, "--bin", name]
    subprocess.run(build, check=True, cwd=ROOT)
    return TARGET / "release" / name


def apart(ours, torch):
    """Means, deviations over seeds, and the difference in its standard errors."""
    gap = statistics.mean(ours) - statistics.mean(torch)
    error = math.sqrt(statistics.variance(ours) / len(ours) + statistics.variance(torch) / len(torch))
    return {"mean": {"ours": statistics.mean(ours), "torch": statistics.mean(torch)},
            "deviation": {"ours": statistics.stdev(ours), "torch": statistics.stdev(torch)},
            "difference": gap, "standard_error": error, "standard_errors_apart": abs(gap) / error if gap else 0.0}


def scikit_learn_metrics(probabilities, labels, bins):
    """In-domain metrics by scikit-learn, and by vectorized numpy where it has none."""
    import numpy as np
    from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, top_k_accuracy_score

    classes = np.arange(probabilities.shape[1])
    confidence = probabilities.max(axis=1)
    prediction = probabilities.argmax(axis=1)
    right = prediction == labels
    bin_ = np.minimum(bins - 1, (confidence * bins).astype(int))
    gaps = np.bincount(bin_, weights=right, minlength=bins) - np.bincount(bin_, weights=confidence, minlength=bins)
    gap = probabilities.copy()
    gap[np.arange(len(labels)), labels] -= 1.0
    return {
        "accuracy": accuracy_score(labels, prediction),
        "top5": top_k_accuracy_score(labels, probabilities, k=5, labels=classes),
        "nll": log_loss(labels, probabilities, labels=classes),
        "ece": np.abs(gaps).sum() / len(labels),
        "brier": np.einsum("ij,ij->", gap, gap) / len(labels),
        "auroc": roc_auc_score(right, confidence),
    }
