"""Writes the Parquet files of the tests, and the same rows as CSV (pyarrow 21 or newer; run inside this folder)."""
import csv
import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 40


def row(i):
    return {
        "k": (7 * i * i + 3 * i) % 11,
        "x": None if i in (5, 23) else ((37 * i) % 101 - 50) / 8,
        "y": float((i * i) % 7) + i / 4,
        "g": ["north", "south, east", "west"][(i * 5) % 3],
        "ok": (i * i) % 5 < 2,
        "u": (3000000000 + i) if i % 2 else i,
        "f": (i % 9) / 4,
        "w": i % 4 + 1,
    }


def table(rows):
    types = {"k": pa.int64(), "x": pa.float64(), "y": pa.float64(), "g": pa.string(), "ok": pa.bool_(),
             "u": pa.uint32(), "f": pa.float32(), "w": pa.int16()}
    return pa.table({name: pa.array([r[name] for r in rows], type) for name, type in types.items()})


def odd(rows):
    """Columns that cannot be read, beside one that can."""
    n = range(len(rows))
    return pa.table({
        "k": pa.array([r["k"] for r in rows], pa.int64()),
        "when": pa.array([datetime.datetime(2024, 1, 1 + i) for i in n], pa.timestamp("us")),
        "day": pa.array([datetime.date(2024, 1, 1 + i) for i in n]),
        "price": pa.array([decimal.Decimal(i) / 4 for i in n], pa.decimal128(9, 2)),
        "tags": pa.array([[i, i + 1] for i in n], pa.list_(pa.int32())),
        "pair": pa.array([{"a": i} for i in n], pa.struct([("a", pa.int32())])),
        "nan": pa.array([float("nan") if i == 2 else 1.0 for i in n]),
        "word": pa.array(["seven" if i == 3 else str(i) for i in n]),
        "all": pa.array([None for i in n], pa.float64()),
    })


def many(n=40_000):
    """More rows than are read together: all well, one that no count can be, one that is missing."""
    good = [i % 5 for i in range(n)]
    return pa.table({
        "good": pa.array(good, pa.int32()),
        "real": pa.array([(i * i) % 97 / 8 for i in range(n)], pa.float64()),
        "late": pa.array([-2 if i == 36_000 else k for i, k in enumerate(good)], pa.int64()),
        "gap": pa.array([None if i == 20_001 else k for i, k in enumerate(good)], pa.float32()),
        "flag": pa.array([i % 3 == 0 for i in range(n)]),
        "bit": pa.array([i % 3 % 2 for i in range(n)], pa.uint8()),
    })


def main():
    rows = [row(i) for i in range(ROWS)]
    whole = table(rows)
    with open("rows.csv", "w", newline="") as f:
        out = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        out.writeheader()
        for r in rows:
            out.writerow({k: "" if v is None else str(v).lower() if isinstance(v, bool) else v for k, v in r.items()})
    for codec in ["none", "snappy", "gzip", "lz4", "zstd"]:
        version = "2.0" if codec in ("zstd", "gzip") else "1.0"
        pq.write_table(whole, f"rows-{codec}.parquet", compression=codec, row_group_size=17, data_page_version=version)
    encodings = {"k": "DELTA_BINARY_PACKED", "g": "DELTA_BYTE_ARRAY", "y": "BYTE_STREAM_SPLIT", "u": "PLAIN"}
    pq.write_table(whole, "rows-encoded.parquet", use_dictionary=False, column_encoding=encodings, compression="none")
    # a partitioned table: each part in its own way
    for part, (start, end) in enumerate([(0, 3), (3, 20), (20, 21), (21, 40)]):
        codec = ["zstd", "snappy", "none", "gzip"][part]
        pq.write_table(table(rows[start:end]), f"part-{part}.parquet", compression=codec, row_group_size=5)
    pq.write_table(odd(rows[:6]), "odd.parquet")
    pq.write_table(table([]), "empty.parquet")
    pq.write_table(many(), "many.parquet", compression="zstd", row_group_size=35_000)


if __name__ == "__main__":
    main()
