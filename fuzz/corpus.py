#!/usr/bin/env python3
"""Makes the small valid files in corpus/ that damage is done to; needs numpy, scipy and pillow."""

import io
import json
import pathlib
import shutil
import struct
import tarfile
import zipfile

import numpy as np
import scipy.io
from PIL import Image

HERE = pathlib.Path(__file__).parent
RANDOM = np.random.default_rng(0)


def put(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def arrays():
    numbers = np.arange(12, dtype="<f4").reshape(3, 4)
    put("npy", "f4.npy", written(lambda b: np.save(b, numbers)))
    put("npy", "i8.npy", written(lambda b: np.save(b, np.arange(5))))
    swapped = np.asfortranarray(numbers.astype(">f8"))
    put("npy", "fortran.npy", written(lambda b: np.save(b, swapped)))
    put("npz", "stored.npz", written(lambda b: np.savez(b, x=numbers, y=np.arange(3))))
    put("npz", "deflated.npz", written(lambda b: np.savez_compressed(b, x=numbers, y=np.arange(3))))
    digits = {"X": RANDOM.integers(0, 255, (4, 4, 3, 2), dtype=np.uint8), "y": np.array([[1.0], [2.0]])}
    put("mat", "plain.mat", written(lambda b: scipy.io.savemat(b, digits)))
    put("mat", "compressed.mat", written(lambda b: scipy.io.savemat(b, digits, do_compression=True)))
    put("idx", "images.idx", struct.pack(">IIII", 0x803, 2, 3, 4) + bytes(range(24)))
    put("idx", "labels.idx", struct.pack(">II", 0x801, 3) + bytes([1, 2, 3]))
    put("cifar", "one.bin", bytes([3]) + RANDOM.integers(0, 255, 3072, dtype=np.uint8).tobytes())


def archives():
    def pack(buffer):
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.txt", "hello hello hello")
            archive.writestr("d/b.bin", bytes(range(64)))

    put("zip", "two.zip", written(pack))
    for name, form in [("gnu.tar", tarfile.GNU_FORMAT), ("pax.tar", tarfile.PAX_FORMAT)]:
        def pack_tar(buffer, form=form):
            with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
                for member, data in [("a.txt", b"hello"), ("d/" + "long" * 40, bytes(100))]:
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(link)

        put("tar", name, written(pack_tar)[:5120])


def pictures():
    colored = Image.fromarray(RANDOM.integers(0, 255, (7, 9, 3), dtype=np.uint8))
    for form in ["PNG", "BMP", "GIF", "TIFF", "WEBP", "JPEG"]:
        put("picture", f"rgb.{form.lower()}", written(lambda b, f=form: colored.save(b, f)))
    for form in ["PNG", "JPEG"]:
        put("picture", f"gray.{form.lower()}", written(lambda b, f=form: colored.convert("L").save(b, f)))
    put("picture", "palette.png", written(lambda b: colored.quantize(8).save(b, "PNG")))
    put("picture", "progressive.jpeg", written(lambda b: colored.save(b, "JPEG", progressive=True)))


def texts():
    configs = HERE.parent / "crates/experiment/configs"
    for name in ["ivon", "swag", "lcbopt-adapt"]:
        put("config", f"{name}.toml", (configs / f"fashion-mnist-lenet/{name}.toml").read_bytes())
    for name in ["quickstart", "ablation-gamma-upper"]:
        put("sweep", f"{name}.toml", (configs / f"reproduce/{name}.toml").read_bytes())
    run = HERE.parent / "results/fmnist-cuda/runs/ivon-seed0/record.json"
    record = json.loads(run.read_text())
    record["curves"], record["evaluations"] = record["curves"][:2], record["evaluations"][:1]
    # out-of-domain curves are long
    record["evaluations"][0]["out_of_domain"] = []
    put("record", "ivon.json", json.dumps(record, separators=(",", ":")).encode())


if __name__ == "__main__":
    shutil.rmtree(HERE / "corpus", ignore_errors=True)
    arrays()
    archives()
    pictures()
    texts()
