#!/usr/bin/env python3
"""Measures the peak memory of every command, and what a long sweep leaves behind in its process.

    python3 benches/memory/measure.py [--only WORD...] [--runs 1000]

The script builds the command in release mode, makes its data in a temporary folder (random pictures and numbers; about
3 GB for all rows) and prints a Markdown table: data, network and batch, MiB. Peak memory is what the system reports for
the process when it has ended (ru_maxrss). For the sweep open files, threads and memory are looked at while it works.
Exit status 1 where `evaluate` or `infer` takes more than twice the size of its data, a page is too large or opens too
slowly, or the sweep grows.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import ROOT, program

MIB = 1 << 20
CLASSES = 10
RECORD = ROOT / "results/fmnist-cuda/runs/ivon-seed0/record.json"


def npy(path, kind, shape, chunks):
    """An array of NumPy, its bytes given piece by piece."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        for chunk in chunks:
            file.write(chunk)


def pictures(folder, name, channels, side, count):
    """A data set of random pictures, half of them to train."""
    made, draw = folder / name, random.Random(0)
    made.mkdir()
    for part in ["train", "test"]:
        images = (draw.randbytes(channels * side * side) for _ in range(count // 2))
        npy(made / f"{part}_images.npy", "|u1", (count // 2, channels, side, side), images)
        npy(made / f"{part}_labels.npy", "|u1", (count // 2,), (bytes([i % CLASSES]) for i in range(count // 2)))
    return made


def size(*paths):
    """MiB of files and folders."""
    files = [f for p in paths for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    return sum(file.stat().st_size for file in files) / MIB


class Table:
    def __init__(self, command, words):
        self.command, self.words, self.failed = command, words, []
        print("| command | data | net, batch | peak MiB |\n|---|---|---|--:|")

    def wanted(self, *words):
        return not self.words or any(word in words for word in self.words)

    def row(self, words, data, net, most=None):
        """Runs a command to its end; `most` is what it may take, in MiB."""
        process = subprocess.Popen([self.command, *map(str, words)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{words}: {process.returncode}\n{said}"
        peak = used.ru_maxrss / 1024
        print(f"| {words[0]} | {data} | {net} | {peak:,.0f} |", flush=True)
        if most is not None and peak > most:
            self.failed.append(f"{words[0]}: {peak:.0f} MiB are more than {most:.0f}")


def train(table, folder):
    sets = {"lenet": (1, 28, 20_000), "resnet20": (3, 32, 2560), "densenet121": (3, 32, 512)}
    for net, (channels, side, count) in sets.items():
        if not table.wanted("train", net, *(["predict"] if net == "lenet" else [])):
            continue
        made = pictures(folder, net, channels, side, count)
        out = folder / f"run-{net}"
        settings = [f'data.dataset="{made}"', f'network.name="{net}"', "train.epochs=1", "train.batch=128",
                    "data.out_of_domain=[]", "data.split='stratified'",
                    "optimizer={rule='adamw',lr=1e-4}", "rows=[{row='a',predictive='point'}]"]
        words = ["train", "fashion-mnist-lenet/adamw", "--out", out, "--quiet"]
        table.row([*words, *(w for s in settings for w in ("--set", s))],
                  f"{count:,} pictures {channels}x{side}x{side}, {size(made):.0f} MiB", f"{net}, 128")


def predict(table, folder):
    png = pictures_to_predict(folder, 2000)
    table.row(["predict", folder / "run-lenet", png, "-o", folder / "answers.csv"],
              f"2,000 PNG files 28x28, {size(png):.1f} MiB", "lenet")


def pictures_to_predict(folder, count):
    import zlib
    made, draw = folder / "png", random.Random(1)
    made.mkdir()

    def part(name, data):
        body = name + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    for number in range(count):
        rows = b"".join(b"\0" + draw.randbytes(28) for _ in range(28))
        header = (28).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
        (made / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header)
                                             + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
    return made


def evaluate(table, folder, rows=10_000_000):
    import struct
    draw = random.Random(2)
    # probabilities of ten classes that sum to one, a thousand different rows again and again
    block = b""
    labels = bytes(draw.randrange(CLASSES) for _ in range(1000))
    for _ in range(1000):
        raw = [draw.random() + 1e-3 for _ in range(CLASSES)]
        block += struct.pack("<10f", *(x / sum(raw) for x in raw))
    probs, y = folder / "p.npy", folder / "y.npy"
    npy(probs, "<f4", (rows, CLASSES), (block for _ in range(rows // 1000)))
    npy(y, "|u1", (rows,), (labels for _ in range(rows // 1000)))
    data = size(probs, y)
    table.row(["evaluate", "--probs", probs, "--labels", y, "--json"],
              f"{rows:,} rows of {CLASSES} classes, {data:,.0f} MiB (NPY, float32)", "", 2 * data)
    probs.unlink(), y.unlink()


def infer(table, folder, rows=100_000_000):
    draw = random.Random(3)
    for family, column, words, line in [
        ("bernoulli", "p", ["--event", "p > 0.5"], lambda: f"{draw.randrange(2)}\n"),
        ("normal", "x", ["--variance", "1"], lambda: f"{draw.gauss(0, 1):.4f}\n"),
    ]:
        if not table.wanted("infer", family):
            continue
        path = folder / f"{family}.csv"
        block = "".join(line() for _ in range(100_000)).encode()
        with open(path, "wb") as file:
            file.write(f"{column}\n".encode())
            for _ in range(rows // 100_000):
                file.write(block)
        table.row(["infer", family, path, *words, "--json"],
                  f"{rows:,} rows, {size(path):,.0f} MiB (CSV, {family})", "", 2 * size(path))
        path.unlink()


def shaken(value, draw, part=0.02):
    """The same with its numbers moved a little; shares stay below one."""
    if isinstance(value, float):
        moved = value * (1 + part * (2 * draw.random() - 1))
        return min(moved, 1.0) if value <= 1 else moved
    if isinstance(value, list):
        return [shaken(entry, draw, part) for entry in value]
    if isinstance(value, dict):
        return {key: shaken(entry, draw, part) for key, entry in value.items()}
    return value


def records(folder, runs, different):
    """Records of so many rows: each row has curves of its own, each run of it figures of its own."""
    draw = random.Random(4)
    for row in range(different):
        record = json.loads(RECORD.read_text())
        record.pop("sha256", None)
        record["evaluations"] = [one for one in record["evaluations"] if one["row"] == "IVON"]
        for evaluation in record["evaluations"]:
            evaluation["row"] = f"IVON {row}"
            for part in ["out_of_domain", "reliability"]:
                evaluation[part] = shaken(evaluation[part], draw)
        for number in range(row, runs, different):
            record["seed"] = number // different
            record["name"] = f"ivon-{row}-seed{record['seed']}"
            record["curves"] = shaken(record["curves"], draw)
            for evaluation in record["evaluations"]:
                evaluation["in_domain"] = shaken(evaluation["in_domain"], draw)
                for out in evaluation["out_of_domain"]:
                    out["metrics"] = shaken(out["metrics"], draw)
            run = folder / record["name"]
            run.mkdir(parents=True)
            (run / "record.json").write_text(json.dumps(record))


def report(table, folder, runs):
    for different, most_bytes, most_seconds in [(100, 5e6, 2), (runs, None, 5)]:
        made = folder / f"records-{different}"
        records(made, runs, different)
        page = folder / f"report-{different}.html"
        start = time.time()
        table.row(["report", made, "-o", page], f"{runs:,} records of {different:,} rows, {size(made):.0f} MiB", "")
        count = page.stat().st_size
        print(f"{page.name}: {count / 1e6:.2f} MB, made in {time.time() - start:.1f} s", file=sys.stderr)
        if most_bytes is not None and count > most_bytes:
            table.failed.append(f"{page.name}: {count} bytes are more than {most_bytes:.0f}")
        took = open_page(page)
        if took is not None and took > most_seconds:
            table.failed.append(f"{page.name}: opens in {took:.2f} s, more than {most_seconds}")


def open_page(page):
    """Seconds until a browser has painted the page, the best of five; the start of an empty one taken off."""
    empty = page.with_name("empty.html")
    empty.write_text("<!doctype html><title>x</title>")

    def seconds(file):
        picture = page.with_name("page.png")
        picture.unlink(missing_ok=True)
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900",
                 f"--screenshot={picture}", file.as_uri()]
        start = time.time()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert picture.stat().st_size > 0
        return time.time() - start

    try:
        took = min(seconds(page) for _ in range(5)) - min(seconds(empty) for _ in range(5))
    except FileNotFoundError:
        print("there is no Chromium to open the page", file=sys.stderr)
        return None
    print(f"{page.name}: opens in {took:.2f} s", file=sys.stderr)
    return took


def sweep(table, folder, runs):
    """Many tiny runs in one process, looked at while it works."""
    file, out = folder / "sweep.toml", folder / "sweep"
    file.write_text(f"""name = "tiny"
configs = ["fashion-mnist-lenet/sgd"]
[set]
data.dataset = "fashion-mnist-mini"
data.limit = 40
data.out_of_domain = []
train.epochs = 1
rows = [{{ row = "a", predictive = "point" }}]
network = {{ name = "tiny", layers = [{{ layer = "avg-pool", size = 7 }}, {{ layer = "flatten" }}, {{ layer = "dense" }}] }}
[grid]
seed = {list(range(runs))}
""")
    process = subprocess.Popen([table.command, "sweep", file, "--out", out, "--jobs", "2", "--quiet"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seen = []
    proc = Path(f"/proc/{process.pid}")
    while process.poll() is None:
        try:
            status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
            handles = len(list((proc / "fd").iterdir()))
            memory = int(status["VmRSS"].split()[0]) / 1024
            done = sum(1 for _ in out.glob("*/record.json")) if out.exists() else 0
            seen.append((done, handles, int(status["Threads"]), memory))
        except (OSError, KeyError, ValueError):
            break
        time.sleep(0.2)
    said = process.stderr.read()
    process.wait()
    assert process.returncode == 0, said
    print("runs done, open files, threads, MiB:", file=sys.stderr)
    for part in range(11):
        near = min(seen, key=lambda s: abs(s[0] - part * runs / 10))
        print(f"  {near[0]:5} {near[1]:4} {near[2]:4} {near[3]:7.1f}", file=sys.stderr)
    # the records of all runs are held to the end, where their table is printed; twice their text is allowed for them
    text = sum(path.stat().st_size for path in out.glob("*/record.json")) / runs / MIB
    early = [s for s in seen if 0.1 * runs < s[0] <= 0.3 * runs]
    late = [s for s in seen if 0.8 * runs < s[0] < runs]
    middle = [[statistics.median(s[i] for s in part) for i in range(4)] for part in (early, late)]
    more = [after - before for before, after in zip(*middle)]
    print(f"| sweep | {runs:,} runs of 40 pictures | dense, 1 | {max(s[3] for s in seen):,.0f} |")
    print(f"a run more: {1024 * more[3] / more[0]:.0f} KiB, its record has {1024 * text:.0f}", file=sys.stderr)
    if more[1] > 0 or more[2] > 0 or more[3] > 2 * text * more[0]:
        table.failed.append(f"sweep: {more[1:]} more open files, threads and MiB at the end than at the beginning")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="train, predict, evaluate, infer, report, sweep, a net")
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    table = Table(program("maxitive", "maxitive"), options.only)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(table, folder)
        if table.wanted("predict"):
            predict(table, folder)
        if table.wanted("evaluate"):
            evaluate(table, folder)
        infer(table, folder)
        if table.wanted("report"):
            report(table, folder, options.runs)
        if table.wanted("sweep"):
            sweep(table, folder, options.runs)
    for problem in table.failed:
        print(problem, file=sys.stderr)
    sys.exit(bool(table.failed))


if __name__ == "__main__":
    main()
