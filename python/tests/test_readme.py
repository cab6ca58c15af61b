"""The examples of the README run as they are, one after the other."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"## .*?: `([\w.]+)`.*?```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("name,block", BLOCKS, ids=[name for name, _ in BLOCKS])
def test_block(name, block, tmp_path, monkeypatch):
    for package in ["torch", "lightning"]:
        if re.search(rf"import {package}|maxitive\.{package}", block):
            pytest.importorskip("torch")
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    found = {"__name__": "readme"}
    exec(compile(block, f"README.md: {name}", "exec"), found)
    if name == "maxitive.torch":
        # it begins at log 3
        assert found["loss"].item() < 0.5
    if "report" in block and "# maxitive.report" not in block:
        assert (tmp_path / "report.html").exists()


def test_every_part_has_an_example():
    assert len(BLOCKS) == README.read_text().count("\n## ")
