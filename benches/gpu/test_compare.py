"""What can be tested of compare.py without a GPU: python3 -m unittest benches/gpu/test_compare.py"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "compare.py"
SPEC = importlib.util.spec_from_file_location("gpu_compare", SCRIPT)
compare = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare)

# stands for the program: one run of ResNet-20 takes 0.5 ms, thirty 12 ms, and DenseNet is refused
FAKE = """#!/usr/bin/env python3
import json, sys
if "--version" in sys.argv:
    print("maxitive 0.0.0 (fake)")
    sys.exit()
value = lambda key, default: sys.argv[sys.argv.index(key) + 1] if key in sys.argv else default
net, runs = value("--net", "lenet"), int(value("--runs", "1"))
if net == "densenet121":
    print("something\\nerror: out of device memory", file=sys.stderr)
    sys.exit(2)
if "--predict" in sys.argv:
    print(json.dumps({"s_best": 0.9, "s_median": 1.1}))
    sys.exit()
ms = {1: 0.5, 30: 12.0}[runs]
print(json.dumps({"ms_best": ms, "ms_median": 2 * ms, "gflops": 31.5 * runs / ms * 1e3, "device_mb": 10.0 * runs}))
"""


class WithoutGpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = Path(self.folder.name) / "maxitive"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        self.out = Path(self.folder.name) / "results.json"

    def run_script(self, *arguments, **environment):
        command = [sys.executable, str(SCRIPT), "--maxitive", str(self.program), "--out", str(self.out), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)

    def test_results_have_floors_aims_and_what_is_missing(self):
        done = self.run_script("--without-torch", "--rounds", "2", "--seconds", "0.1")
        self.assertEqual(done.returncode, 3, done.stderr)
        work = json.loads(self.out.read_text())["work"]
        self.assertEqual(len(work), 8)
        one, many = (work["resnet20 tf32"]["sides"][f"ours, {n}"] for n in ("1 run", "30 runs"))
        # 31.5 GFLOP at 402 TFLOP/s are less than 0.52 GB at 4.3 TB/s
        self.assertAlmostEqual(one["floor_ms"], 0.52e9 / 4.3e12 * 1e3)
        self.assertAlmostEqual(many["floor_ms"], 30 * one["floor_ms"])
        self.assertEqual((one["ms_best"], one["ms_median"], one["measurements"]), (0.5, 0.75, 4))
        self.assertTrue(one["met"])
        self.assertFalse(many["met"])
        one = work["resnet20 f32"]["sides"]["ours, 1 run"]
        self.assertAlmostEqual(one["floor_ms"], 31.5e9 / 67e12 * 1e3)
        self.assertAlmostEqual(one["over_floor"], 0.5 / one["floor_ms"])
        self.assertEqual(work["densenet121 f32"]["missing"]["ours, 1 run"], "error: out of device memory")
        self.assertEqual(work["densenet121 f32"]["sides"], {})
        self.assertNotIn("met", work["lenet tf32"]["sides"]["ours, 1 run"])
        self.assertTrue(work["resnet20 tf32, 64 samples"]["sides"]["ours"]["met"])
        self.assertTrue(work["start"]["sides"]["ours"]["ms_best"] > 0)

    def test_parts_are_put_together(self):
        for only in ("lenet f32", "resnet20 f32"):
            done = self.run_script("--without-torch", "--only", only, "--rounds", "1", "--seconds", "0.1")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(json.loads(self.out.read_text())["work"]), {"lenet f32", "resnet20 f32"})
        done = self.run_script("--without-torch", "--only", "vgg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no work has 'vgg'", done.stderr)

    def test_what_an_older_run_measured_is_kept_with_its_date(self):
        graph = {"ms_best": 2.0, "ms_median": 2.5, "measurements": 4}
        old = {"date": "2026-01-02", "card": "a card", "torch": "2.11", "work": {
            "resnet20 f32": {"sides": {"graph": graph, "ours, 1 run": {"ms_best": 9.0}}, "missing": {"graph": "not begun"}},
            "densenet121 f32": {"sides": {"graph": graph}, "missing": {"eager": "not begun"}}}}
        self.out.write_text(json.dumps(old))
        for only in ("resnet20 f32", "lenet f32"):
            done = self.run_script("--without-torch", "--only", only, "--rounds", "1", "--seconds", "0.1")
            self.assertEqual(done.returncode, 0, done.stderr)
        record = json.loads(self.out.read_text())
        self.assertEqual((record["card"], record["torch"]), ("a card", "2.11"))
        self.assertEqual(set(record["work"]), {"resnet20 f32", "densenet121 f32", "lenet f32"})
        for work in ("resnet20 f32", "densenet121 f32"):
            self.assertEqual(record["work"][work]["sides"]["graph"], graph | {"date": "2026-01-02"})
        self.assertEqual(record["work"]["densenet121 f32"]["missing"], {"eager": "not begun"})
        one = record["work"]["resnet20 f32"]["sides"]["ours, 1 run"]
        self.assertEqual((one["ms_best"], one["date"], one["torch_over_ours"]), (0.5, record["date"], 4.0))

    def test_nothing_is_begun_that_would_end_too_late(self):
        done = self.run_script("--without-torch", "--only", "lenet f32", "--seconds", "10", "--within", "20")
        self.assertEqual(done.returncode, 3)
        work = json.loads(self.out.read_text())["work"]["lenet f32"]
        self.assertIn("not begun: ", work["missing"]["ours, 1 run"])
        now = [0.0]
        clock = compare.Clock(100, now=lambda: now[0])

        def slow():
            now[0] += 40
            return "done"

        self.assertEqual(clock.run("a", 5, slow), "done")
        self.assertEqual(clock.run("a", 5, slow), "done")
        with self.assertRaisesRegex(compare.Failed, "20 s were left"):
            clock.run("a", 5, slow)

    def test_a_machine_without_a_gpu_is_told_so(self):
        # a torch that finds none, whatever this machine has
        fake = Path(self.folder.name) / "torch.py"
        fake.write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
        done = self.run_script(PYTHONPATH=self.folder.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("PyTorch finds no GPU", done.stderr)
        fake.write_text("raise ImportError('none')\n")
        done = self.run_script(PYTHONPATH=self.folder.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--without-torch", done.stderr)
        self.program.write_text("#!/bin/sh\necho 'error: cuda: libcuda.so.1 is not here' >&2\nexit 2\n")
        done = self.run_script("--without-torch")
        self.assertEqual(done.returncode, 1)
        self.assertIn("our side does not run: error: cuda: libcuda.so.1", done.stderr)
        self.assertFalse(self.out.exists())

    def test_pytorchs_runs_follow_one_another(self):
        class Made:
            operations, device_mb = 31.5e9, 1.0

        times = {"ours, 1 run": [1.0], "ours, 30 runs": [10.0], "eager": [9.0], "graph": [3.0, 4.0]}
        entry = compare.summary("resnet20", "f32", {who: Made for who in times}, times, {}, {"f32": 67, "tf32": 402, "bandwidth": 4.3})
        self.assertEqual(entry["torch_best"], {"mode": "graph", "ms": 3.0})
        self.assertEqual(entry["sides"]["ours, 1 run"]["torch_over_ours"], 3.0)
        self.assertEqual(entry["sides"]["ours, 30 runs"]["torch_over_ours"], 9.0)


if __name__ == "__main__":
    unittest.main()
