"""How fast `maxitive infer` takes a Parquet file of one column of 64-bit floating-point numbers.

    python3 benches/parquet/measure.py [--rows 10000000] [--rounds 5]

The script makes its own virtual environment, writes the file once, uncompressed, with Snappy and with Zstandard, builds
the command in release mode and runs it in turn on each file. Reported are gigabytes of decoded data (8 bytes a row)
per second, of reading alone as `--timings` reports it, and of the whole process from start to exit.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import add_environment_arguments, enter_environment, program

PACKAGES = ["numpy==2.4.6", "pyarrow==26.0.1"]
SEED = 20240607


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    add_environment_arguments(parser)
    arguments = parser.parse_args()
    enter_environment(arguments, PACKAGES)

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    command = program("maxitive", "maxitive")
    gigabytes = 8 * arguments.rows / 1e9
    with tempfile.TemporaryDirectory() as folder:
        x = np.random.default_rng(SEED).normal(3.0, 1.0, arguments.rows)
        files = {codec: Path(folder) / f"{codec}.parquet" for codec in ("none", "snappy", "zstd")}
        for codec, path in files.items():
            pq.write_table(pa.table({"x": x}), path, compression=codec, use_dictionary=False)
        seconds = {codec: ([], []) for codec in files}
        for _ in range(arguments.rounds):
            for codec, path in files.items():
                start = time.perf_counter()
                run = subprocess.run([command, "infer", "normal", path, "--variance", "1", "--json", "--timings"],
                                     capture_output=True, text=True, check=True)
                whole = time.perf_counter() - start
                assert abs(json.loads(run.stdout)["mode"] - x.mean()) < 1e-12
                reading = float(re.search(r"reading ([0-9.]+) s", run.stderr).group(1))
                seconds[codec][0].append(reading)
                seconds[codec][1].append(whole)
    for codec, (reading, whole) in seconds.items():
        rate = lambda seconds: f"{gigabytes / min(seconds):.2f} ({gigabytes / statistics.median(seconds):.2f})"
        print(f"{codec}: GB/s, best (median): reading {rate(reading)}, whole command {rate(whole)}")


if __name__ == "__main__":
    main()
