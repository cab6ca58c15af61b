#!/usr/bin/env python3
"""Prints paper.toml: every number of the paper's result tables, read from its LaTeX source.

usage: extract.py PAPER.tex > paper.toml

Numbers are copied as printed, bold ones marked; what is known to be a slip is said in notes.toml, never repaired here.
"""
import re
import sys

IN_DOMAIN = ["accuracy", "top5", "nll", "ece", "brier", "auroc"]
# the column "FPR@95" holds the averaged rate, see notes.toml
OUT_OF_DOMAIN = ["mean_fpr_below_95_tpr", "detection_error", "auroc", "aupr_in", "aupr_out"]
SHORT = ["accuracy", "nll", "ece", "OOD/mean_fpr_below_95_tpr", "OOD/auroc", "OOD/aupr_out"]
BLOCKS = {"Fashion-MNIST": ("fmnist", "emnist-letters"),
          "CIFAR-10": ("cifar10", "svhn"),
          "CIFAR-100": ("cifar100", "tiny-imagenet")}
# label: (name, checkpoint, columns, experiment and symbol of an ablation)
TABLES = [
    ("tab:main-results", "main", "best", SHORT, None),
    ("tab:in-domain-best-val", "full", "best", IN_DOMAIN, None),
    ("tab:ood-best-val", "full", "best", ["OOD/" + c for c in OUT_OF_DOMAIN], None),
    ("tab:in-domain-final", "full", "final", IN_DOMAIN, None),
    ("tab:ood-final", "full", "final", ["OOD/" + c for c in OUT_OF_DOMAIN], None),
    ("tab:ablation_vartheta", "ablation", "best", SHORT, ("ablation-vartheta", "ϑ")),
    ("tab:ablation_gamma_ucbo", "ablation", "best", SHORT, ("ablation-gamma-upper", "γ")),
    ("tab:ablation_beta3_ucbo", "ablation", "best", SHORT, ("ablation-beta3-upper", "β₃")),
    ("tab:ablation_gamma_lcbo", "ablation", "best", SHORT, ("ablation-gamma-lower", "γ")),
    ("tab:ablation_beta3_lcbo", "ablation", "best", SHORT, ("ablation-beta3-lower", "β₃")),
    ("tab:mcdrop-cbopt", "mc-dropout", "best", SHORT, ("mc-dropout", None)),
]
VALUE = re.compile(r"\$(\\bm\{)?([0-9.]+)\}?_\{\\pm ([0-9.]+)\}\$")


def body(tex, label):
    start = tex.index(r"\label{%s}" % label)
    return tex[start:tex.index(r"\end{table*}", start)]


def number(text):
    """1e-7 for `1 \\cdot 10^{-7}`, 0 for `0^{+}`, 2 for `2.0`."""
    text = text.strip().strip("$").strip()
    match = re.fullmatch(r"(\d+) *\\cdot *10\^\{(-?\d+)\}", text)
    if match:
        return "%se%s" % match.groups()
    return re.sub(r"\.?0+$", "", text) if "." in text else re.sub(r"\^\{\+\}", "", text)


def method(text):
    text = re.sub(r"\\rowcolor\{[^}]*\}|\\cellcolor\{[^}]*\}|\\graycell\{\}", "", text).strip()
    text = re.sub(r"\\graycell\{(.*)\}$", r"\1", text)
    text = re.sub(r"\\texttt\{([^}]*)\}", r"\1", text)
    text = re.sub(r"\$\(\\vartheta\\to0\^\{\+\}\)\$", "(ϑ→0)", text)
    text = re.sub(r"\$\(\\vartheta= *(\d+) *\\cdot *10\^\{(-\d+)\}\)\$", r"(ϑ = \1e\2)", text)
    return re.sub(r"\s+", " ", text).strip()


def rows(text):
    """(block, row name, [(bold, value, deviation)]) of one table."""
    block = None
    text = text[text.index(r"\midrule"):text.index(r"\bottomrule")]
    for line in text.split(r"\\"):
        for name in sorted(BLOCKS, key=len, reverse=True):
            # blocks are announced once, before their first row
            if re.search(r"(?:\}|\\textbf\{In:\} ?|\{)%s\b(?!-?\d)" % re.escape(name), line):
                block = name
                break
        values = VALUE.findall(line)
        if not values:
            continue
        first = VALUE.search(line).start()
        cells = line[:first].split("&")
        yield block, [cell for cell in cells if method(cell)][-1], values


def main():
    tex = open(sys.argv[1], encoding="utf-8").read()
    print("# Every number of the paper's result tables, as printed: mean ± deviation over three runs,")
    print("# `bold` where the paper sets the number in bold.")
    print("# Written by extract.py from the paper's source; slips are said in notes.toml.")
    count = 0
    for label, table, checkpoint, columns, ablation in TABLES:
        groups = {}
        for block, name, values in rows(body(tex, label)):
            assert len(values) == len(columns), (label, name, values)
            if ablation:
                experiment, symbol = ablation
                out = "svhn" if experiment == "mc-dropout" else "emnist-letters"
                line = re.sub(r".*\\midrule|\\rowcolor\{[^}]*\}", "", name, flags=re.S)
                row = method(line) if symbol is None else "%s = %s" % (symbol, number(line))
            else:
                experiment, out = BLOCKS[block]
                row = method(re.sub(r".*\}\n\}\n", "", name, flags=re.S))
                # the row of the paper's chosen ϑ is plain uCBOpt
                row = re.sub(r"^uCBOpt \(ϑ = .*\)$", "uCBOpt", row)
            groups.setdefault((experiment, out), []).append((row, values))
        for (experiment, out), lines in groups.items():
            print("\n[[table]]")
            print('label = "%s"' % label)
            print('table = "%s"' % table)
            print('experiment = "%s"' % experiment)
            print('checkpoint = "%s"' % checkpoint)
            names = [c.replace("OOD/", out + "/") for c in columns]
            print("columns = [%s]" % ", ".join('"%s"' % c for c in names))
            print("[table.rows]")
            for row, values in lines:
                cells = ", ".join(
                    '"%s ± %s%s"' % (value, deviation, " bold" if bold else "")
                    for bold, value, deviation in values)
                print('"%s" = [%s]' % (row, cells))
                count += len(values)
    runtime = body(tex, "tab:runtime-memory")
    names = ["AdamW", "SGD", "IVON", "CBOpt variants"]
    keys = {"Runtime (seconds)": "seconds", "Memory allocated (GiB)": "allocated_gib",
            "Memory reserved (GiB)": "reserved_gib"}
    for line in runtime[runtime.index(r"\midrule"):].split(r"\\"):
        found = re.search(r"\{(Fashion-MNIST|CIFAR-100?)$", line)
        if found:
            experiment = BLOCKS[found.group(1)][0]
            print('\n[[runtime]]\nexperiment = "%s"\ncolumns = [%s]' % (
                experiment, ", ".join('"%s"' % name for name in names)))
        cells = [cell.strip() for cell in line.split("&")]
        if len(cells) > 4 and cells[1] in keys:
            print("%s = [%s]" % (keys[cells[1]], ", ".join(cells[2:6])))
            count += 4
    print("%d numbers" % count, file=sys.stderr)


if __name__ == "__main__":
    main()
