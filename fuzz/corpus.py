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
    bitmaps()


def bitmaps():
    """BMP files of 5x3 pixels that Pillow does not write."""
    def file(bits, compression, behind, pixels):
        info = struct.pack("<IiiHHIIiiII", 40, 5, 3, 1, bits, compression, 0, 0, 0, 0, 0)
        return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + len(behind)) + info + behind + pixels

    def palette(bits, entry):
        return bytes(range(entry * 2**bits))

    put("picture", "one-bit.bmp", file(1, 0, palette(1, 4), bytes([0xA8, 0, 0, 0]) * 3))
    put("picture", "four-bits.bmp", file(4, 0, palette(4, 4), bytes([0x12, 0x34, 0x50, 0]) * 3))
    runs = bytes([3, 4, 0, 0, 0, 3, 1, 2, 3, 0, 0, 2, 1, 1, 1, 9, 0, 1])
    put("picture", "runs-eight.bmp", file(8, 1, bytes(1024), runs))
    put("picture", "runs-four.bmp", file(4, 2, palette(4, 4), runs))
    masks = struct.pack("<III", 0xF800, 0x07E0, 0x001F)
    put("picture", "masks.bmp", file(16, 3, masks, bytes(range(36))))
    old = struct.pack("<IHHI", 0, 0, 0, 50) + struct.pack("<IHHHH", 12, 5, 3, 1, 2) + palette(2, 3)
    put("picture", "old.bmp", b"BM" + old.ljust(48, b"\0") + bytes([0x1B, 0xC0, 0, 0]) * 3)


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


def tables():
    put("csv", "plain.csv", b"a,b,c\n1,x,0.5\n-2e3,y,1\n")
    put("csv", "quoted.csv", b'# a comment\n\n"a ""b""", c ,d\n"1,5",\t2 ,"x\ny"\n3,4,\xc3\xa4\n')
    put("csv", "windows.csv", b"p\r\n0.25\r\n0.5\r\n")
    tables = HERE.parent / "crates/cli/tests/parquet"
    for kind in ["none", "encoded", "snappy", "lz4", "gzip"]:
        put("parquet", f"{kind}.parquet", (tables / f"rows-{kind}.parquet").read_bytes())
    # one group of three rows: zstd takes long to begin each column of each group
    put("parquet", "zstd.parquet", (tables / "part-0.parquet").read_bytes())
    events = ["x > 0.5", "0.2 <= p[red] <= 0.4", "x in [1, 2) or x = 0", "not (x in {1, 2})",
              "2*height - red/3 > 1e-3 and x != 7", "x not in [0, 1] ∪ {3} or not (height < 2)"]
    for number, event in enumerate(events):
        put("event", f"{number}.txt", event.encode())
    data = {"rows": 5, "count": 5.0, "mean": [0.4], "log_likelihood": -3.5}
    posterior = {"format": "maxitive-posterior/1", "family": "bernoulli", "settings": {},
                 "prior": {"mean": [0.5], "weight": 2.0}, "data": data}
    put("posterior", "bernoulli.json", json.dumps(posterior).encode())


def networks():
    layers = [
        'layer = "conv"\nchannels = 8\nkernel = 3\npadding = "same"\nstride = 2',
        'layer = "frn"', 'layer = "relu"', 'layer = "max-pool"\nsize = 2',
        'layer = "residual"\nchannels = 6\nstride = 1',
        'layer = "dense-block"\nlayers = 2\ngrowth = 3', 'layer = "transition"',
        'layer = "avg-pool"\nsize = 2\nstride = 1', 'layer = "dropout"\nrate = 0.1\nalways_on = true',
        'name = "pool"\nlayer = "global-avg-pool"', 'layer = "dense"\noutputs = 5', 'layer = "dense"',
    ]
    text = 'name = "mine"\n' + "".join(f"[[layers]]\n{layer}\n" for layer in layers)
    put("network", "layers.toml", text.encode())
    put("network", "named.toml", b'name = "lenet"\ndropout = 0.1\n')


if __name__ == "__main__":
    shutil.rmtree(HERE / "corpus", ignore_errors=True)
    arrays()
    archives()
    pictures()
    texts()
    tables()
    networks()
