"""Two processes on one machine, as any optimizer: the same weights as one process on all data."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

import distributed
import maxitive.torch as optim


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
@pytest.mark.parametrize("rule", ["UCBOpt", "LCBOptAdapt"])
def test_two_processes(form, rule, tmp_path):
    script = Path(distributed.__file__)
    workers = [
        subprocess.Popen(
            [sys.executable, script, form, rule, str(rank), tmp_path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        try:
            said, _ = worker.communicate(timeout=600)
        finally:
            worker.kill()
        assert worker.returncode == 0, said
    model = distributed.network()
    distributed.train(model, getattr(optim, rule)(model.parameters(), lr=1e-3))
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for p, one, other in zip(model.parameters(), *(f["params"] for f in found), strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(one, p.detach(), rtol=1e-4, atol=1e-6)
    assert found[0]["shapes"] == [tuple(p.shape) for p in model.parameters()]
    if form == "fsdp":
        # each process keeps its half of the state
        halves = [a + b for a, b in zip(found[0]["local"], found[1]["local"], strict=True)]
        assert halves == [p.numel() for p in model.parameters()]
