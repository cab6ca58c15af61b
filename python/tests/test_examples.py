"""The notebooks and scripts of `examples` run as they are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        # what is kept is what is written, not what some machine answered
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None)
        for word in ["torch", "pandas"]:
            if f"import {word}" in cell.source:
                pytest.importorskip(word)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown)


def test_three_notebooks_are_there():
    assert len(NOTEBOOKS) == 3
    assert all(json.loads(path.read_text())["nbformat"] == 4 for path in NOTEBOOKS)


@pytest.mark.parametrize("is_changed", [True, False], ids=["maxitive", "as it was"])
def test_a_script_changes_in_two_lines(is_changed, tmp_path):
    pytest.importorskip("torch")
    lines = (EXAMPLES / "train_resnet.py").read_text().splitlines()
    if not is_changed:
        old = [i for i, line in enumerate(lines) if line.strip().startswith("# ") and "AdamW" in line]
        assert len(old) == 2
        for i in old:
            assert "UCBOptAdapt" in lines[i + 1]
            lines[i : i + 2] = ["", lines[i].replace("# ", "", 1)]
        assert not any("maxitive" in line for line in lines)
    script = tmp_path / "train.py"
    script.write_text("\n".join(lines))
    words = [script, "--steps", "3", "--batch", "4", "--width", "8", "--device", "cpu"]
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("loss") == 3 and "nan" not in run.stdout
