"""Logits of exported networks: onnxruntime reads the files that the example `onnx_cases` of crates/experiment writes.

The example also writes the engine's own logits; the script stops if the two are not those of the same network. Needs Rust, and
onnx==1.23.2 and onnxruntime==1.31.1 beside requirements.txt.
"""
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from common import args, write_json

ROOT = Path(__file__).resolve().parent.parent.parent
CASES = ["layers", "blocks", "flat", "lenet", "resnet20", "densenet121"]
IMAGES, TOLERANCE = 3, 1e-5


def main():
    _, outdir = args()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        command = ["cargo", "run", "--quiet", "-p", "maxitive-experiment", "--example", "onnx_cases", folder]
        subprocess.run(command, check=True, cwd=ROOT)
        for name in CASES:
            path = Path(folder) / name
            file = path.with_suffix(".onnx")
            onnx.checker.check_model(str(file), full_check=True)
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            (given,), (wanted,) = session.get_inputs(), session.get_outputs()
            assert (given.name, wanted.name) == ("pixels", "logits")
            pixels = np.fromfile(path.with_suffix(".pixels"), "<f4").reshape(IMAGES, *given.shape[1:])
            ours = np.fromfile(path.with_suffix(".logits"), "<f4").reshape(IMAGES, -1)
            logits = session.run(None, {"pixels": pixels})[0]
            assert logits.shape == ours.shape == (IMAGES, wanted.shape[1])
            one = session.run(None, {"pixels": pixels[:1]})[0]
            far, largest = np.abs(logits - ours).max(), np.abs(logits).max()
            alone = np.abs(one - logits[:1]).max()
            print(f"{name}: largest difference {far / largest:.1e} of the largest logit, of one image alone {alone / largest:.1e}")
            assert max(far, alone) <= TOLERANCE * largest, name
            cases.append({"name": name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
                          "logits": logits.astype(np.float64).ravel()})
    head = {"schema": "onnx", "source": f"onnxruntime {onnxruntime.__version__}, CPU"}
    write_json(os.path.join(outdir, "onnx", "logits.json"), head, cases)


main()
