#!/usr/bin/env python3
"""Tables and curves of the study, from run records and from what the example `doubt` printed.

    tar xf records.tar.xz
    python3 tables.py RECORDS DOUBTS > tables.md

RECORDS is a folder with record.json files at any depth, DOUBTS one with *.jsonl files. Writes
tradeoff.svg beside itself.
"""

import collections
import json
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).parent
SCORES = {"max_probability": "maximum probability", "energy": "energy", "probit": "probit",
          "necessity": "necessity", "lower": "lower probability", "width": "−width"}
GIVEN_AWAY = 0.01


def mean(values):
    values = list(values)
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def read_records(folder):
    """By row: what each run found of it at its last weights, with bounds."""
    rows = collections.defaultdict(list)
    for path in sorted(folder.rglob("record.json")):
        record = json.loads(path.read_text())
        for found in record["evaluations"]:
            if found["checkpoint"] == "final" and found.get("bounds"):
                rows[(record["dataset"], found["row"])].append(found)
    return rows


def out_of_domain(found):
    return {entry["dataset"]: entry["bounds"]["scored"] for entry in found["out_of_domain"]}


def table(rows, dataset):
    """One line a row and score."""
    known = {key: found for key, found in rows.items() if key[0] == dataset}
    sets = list(out_of_domain(next(iter(known.values()))[0]))
    print(f"| row | factor | median Λ | score | {' | '.join(sets)} | right/wrong |")
    print("|:--|--:|--:|:--|" + "--:|" * (len(sets) + 1))
    for (_, row), found in known.items():
        details = [entry["details"] for entry in found]
        factors = ", ".join(f"{d['factor']:.3g}" for d in details)
        precision = statistics.mean(d["median_precision"] for d in details)
        for place, (score, name) in enumerate(SCORES.items()):
            cells = [mean(out_of_domain(f)[s][score] for f in found) for s in sets]
            cells.append(mean(f["bounds"]["scored"][score] for f in found))
            head = (row, factors, f"{precision:.3g}") if place == 0 else ("", "", "")
            print("| " + " | ".join([*head, name, *cells]) + " |")
    print()


def sets_of_classes(rows, dataset, named):
    """Coverage and size of the sets, over all runs of a row."""
    found = [f for key, all_found in rows.items() if key == (dataset, named) for f in all_found]
    if not found:
        return
    print(f"**{named}**, {len(found)} run(s), {found[0]['bounds']['sets'][0]['images']} images each\n")
    print("| contour | α | covered | aim | simulation error | classes in a set |")
    print("|:--|--:|--:|--:|--:|--:|")
    for place, contour in enumerate(found[0]["bounds"]["sets"]):
        for level, at in enumerate(contour["levels"]):
            all_sets = [f["bounds"]["sets"][place] for f in found]
            images = sum(s["images"] for s in all_sets)
            covered = sum(s["levels"][level]["covered"] for s in all_sets) / images
            classes = sum(s["levels"][level]["classes"] for s in all_sets) / images
            # calibration and test images are both finite; the runs share their test images
            n, m, a = contour["calibration"], contour["images"], at["alpha"]
            error = math.sqrt(a * (1 - a) * (1 / (n + 2) + 1 / m))
            print(f"| {contour['contour']} | {a} | {covered:.4f} | {1 - a} | {error:.4f} | {classes:.2f} |")
    print()


def read_doubts(folder):
    runs = collections.defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            runs[pathlib.Path(entry["run"]).name].append(entry)
    return runs


def chosen(entries):
    """What the criterion right-wrong chooses of these factors, on validation images alone."""
    best = None
    for entry in sorted(entries, key=lambda entry: -entry["factor"]):
        validation = entry["found"]["validation"]
        if validation["maximum"] - validation["lower"] > GIVEN_AWAY:
            break
        best = entry
    return best


def layers(runs):
    print("| run | what may move | factor chosen | others | right/wrong |")
    print("|:--|:--|--:|--:|--:|")
    for run, entries in runs.items():
        moves = list(dict.fromkeys(e["moves"] for e in entries if "moves" in e))
        for move in moves:
            best = chosen([e for e in entries if e.get("moves") == move])
            if best is None:
                continue
            found = best["found"]
            others = [f"{v['lower']:.3f}" for k, v in found.items() if k not in ("validation", "test")]
            print(f"| {run} | {move} | {best['factor']:.3g} | {', '.join(others)} | {found['test']['lower']:.3f} |")
        maximum = entries[0]["found"]
        others = [f"{v['maximum']:.3f}" for k, v in maximum.items() if k not in ("validation", "test")]
        print(f"| {run} | nothing (maximum probability) | – | {', '.join(others)} | {maximum['test']['maximum']:.3f} |")
    print()


def ascents(runs):
    print("| run | factor | images | p | linear P̄ | reached in the weights | linear lower by over .01 | higher by over .01 | largest difference |")
    print("|:--|--:|--:|--:|--:|--:|--:|--:|--:|")
    for run, entries in runs.items():
        for entry in (e for e in entries if "ascent" in e):
            found = entry["ascent"]
            means = [f"{statistics.mean(image[k] for image in found):.4f}" for k in range(3)]
            low = sum(linear < reached - 0.01 for _, linear, reached in found)
            high = sum(linear > reached + 0.01 for _, linear, reached in found)
            largest = max(abs(linear - reached) for _, linear, reached in found)
            cells = [run, f"{entry['factor']:g}", str(len(found)), *means, str(low), str(high)]
            print("| " + " | ".join([*cells, f"{largest:.4f}"]) + " |")
    print()


COLORS = ["#2166ac", "#b2182b", "#1b7837", "#762a83", "#8c510a", "#01665e"]


def tradeoff(runs):
    """Right against wrong to the right, the mean over the other sets upwards; a line a run."""
    lines = []
    for run, entries in runs.items():
        tried = sorted((e for e in entries if e.get("moves") == "all"), key=lambda e: e["factor"])
        if not tried:
            continue
        point = lambda e, score: (
            e["found"]["test"][score],
            statistics.mean(v[score] for k, v in e["found"].items() if k not in ("validation", "test")))
        lines.append((run, [point(e, "lower") for e in tried], point(tried[0], "maximum"),
                      point(chosen(tried), "lower") if chosen(tried) else None))
    if not lines:
        return
    xs = [x for _, points, _, _ in lines for x, _ in points]
    ys = [y for _, points, top, _ in lines for _, y in [*points, top]]
    x0, x1, y0, y1 = min(xs) - 0.01, max(xs) + 0.01, min(ys) - 0.01, max(ys) + 0.01
    width, height, left, bottom = 720, 440, 60, 50
    px = lambda x: left + (x - x0) / (x1 - x0) * (width - left - 180)
    py = lambda y: height - bottom - (y - y0) / (y1 - y0) * (height - bottom - 20)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">',
           '<title>Lower probability at all factors: telling other sets against telling mistakes'
           '</title>', f'<rect width="{width}" height="{height}" fill="white"/>']
    tick = lambda low, high: [k / 50 for k in range(math.ceil(low * 50), math.floor(high * 50) + 1)]
    for x in tick(x0, x1):
        out.append(f'<path d="M{px(x):.1f} 20V{height - bottom}" stroke="#ddd"/>'
                   f'<text x="{px(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x:.2f}</text>')
    for y in tick(y0, y1):
        out.append(f'<path d="M{left} {py(y):.1f}H{width - 180}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{y:.2f}</text>')
    for place, (run, points, top, best) in enumerate(lines):
        color = COLORS[place % len(COLORS)]
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        out.append(f'<rect x="{px(top[0]) - 4:.1f}" y="{py(top[1]) - 4:.1f}" width="8" height="8" fill="{color}"/>')
        if best:
            out.append(f'<circle cx="{px(best[0]):.1f}" cy="{py(best[1]):.1f}" r="6" fill="white" '
                       f'stroke="{color}" stroke-width="3"/>')
        out.append(f'<text x="{width - 172}" y="{40 + 18 * place}" fill="{color}">{run}</text>')
    out.append(f'<text x="{width - 172}" y="{52 + 18 * len(lines)}">■ maximum probability</text>')
    out.append(f'<text x="{width - 172}" y="{70 + 18 * len(lines)}">○ chosen on validation</text>')
    out.append(f'<text x="{(left + width - 180) / 2}" y="{height - 12}" text-anchor="middle">'
               'AUROC of right against wrong answers</text>')
    out.append(f'<text transform="translate(16 {height / 2}) rotate(-90)" text-anchor="middle">'
               'mean AUROC against other sets</text></svg>')
    (HERE / "tradeoff.svg").write_text("\n".join(out) + "\n")


def main():
    rows = read_records(pathlib.Path(sys.argv[1]))
    runs = read_doubts(pathlib.Path(sys.argv[2]))
    for dataset in dict.fromkeys(key[0] for key in rows):
        print(f"## {dataset}\n\nAUROC, last weights, mean ± deviation over the seeds.\n")
        table(rows, dataset)
    print("## Sets of classes\n")
    for dataset, row in rows:
        if "right-wrong" in row and "last layer" not in row:
            sets_of_classes(rows, dataset, row)
    print("## Which weights may move\n\nLower probability, one seed; the factor chosen on validation images.\n")
    layers(runs)
    print("## Linear logits and ascent in the weights\n")
    ascents(runs)
    tradeoff(runs)


if __name__ == "__main__":
    main()
