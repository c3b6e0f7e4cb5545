"""Memory of ``nearcal predict`` on a table of five million rows, and its output against the result in memory.

    python benchmarks/streaming.py [--rows 5000000]

Writes results/streaming.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from timing import save

import nearcal as nc

SEED, CALIBRATION_ROWS, GROUP, FEW = 7, 50_000, 500_000, 1_000
COLUMNS = ["mu", "sigma", "x1", "x2"]
WRITTEN = ["mean", "std", "lower_90", "upper_90", "lower_95", "upper_95", "q10", "q50"]
ASKED = ["--coverage", "0.9", "--coverage", "0.95", "--quantiles", "0.1,0.5", "--keep", "id"]


def make_rows(rng, count, start=0):
    """Return a table of predictions that are too sure where x2 is large."""
    x = rng.normal(size=(count, 2))
    sigma = rng.uniform(0.5, 1.5, size=count)
    y = rng.normal(np.sin(x[:, 0]) + 0.3 * x[:, 1], sigma * np.exp(0.5 * x[:, 1]))
    columns = {
        "id": np.arange(start, start + count),
        "mu": np.sin(x[:, 0]),
        "sigma": sigma,
        "x1": x[:, 0],
        "x2": x[:, 1],
    }
    return pa.table({**columns, "y": y})


def write_new(path, rng, rows):
    """Write new rows group by group, so that this process does not hold them."""
    with parquet.ParquetWriter(path, make_rows(rng, 1).schema) as writer:
        for start in range(0, rows, GROUP):
            writer.write_table(make_rows(rng, min(GROUP, rows - start), start))


def run_command(*arguments):
    """Run ``nearcal`` in a process of its own; return its peak memory in megabytes, seconds and what it printed."""
    # a process of one child, since the peak of children is that of the largest
    code = (
        "import json, resource, subprocess, sys, time\n"
        "begin = time.perf_counter()\n"
        "command = [sys.executable, '-m', 'nearcal.cli', *sys.argv[1:]]\n"
        "done = subprocess.run(command, stdout=subprocess.PIPE, check=True)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024\n"
        "print(json.dumps([peak, time.perf_counter() - begin, done.stdout.decode()]))"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def compare(model, new, out):
    """Return how many of the values written equal those computed in memory, all rows at once, to the last bit."""
    table = parquet.read_table(new, columns=COLUMNS)
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    begin = time.perf_counter()
    found = nc.load(model).predict(columns).summary(0.9, p=[0.5 - 0.95 / 2, 0.5 + 0.95 / 2, 0.1, 0.5])
    seconds = time.perf_counter() - begin
    expected = dict(zip(WRITTEN, [found.mean, found.std, found.lower, found.upper, *found.quantiles.T], strict=True))
    written = parquet.read_table(out)
    assert written.column_names == ["id", *WRITTEN]
    assert np.array_equal(written["id"].to_numpy(), np.arange(len(table)))
    equal = sum(
        int((written[name].to_numpy().view(np.int64) == values.view(np.int64)).sum())
        for name, values in expected.items()
    )
    return {"values": written.num_rows * len(WRITTEN), "equal to the last bit": equal, "seconds in memory": seconds}


def main():
    """Make the files, run the command, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        calibration, few, new, model, out = (
            Path(folder) / name
            for name in ("cal.parquet", "few.parquet", "new.parquet", "model.nearcal", "out.parquet")
        )
        parquet.write_table(make_rows(rng, CALIBRATION_ROWS), calibration)
        parquet.write_table(make_rows(rng, FEW), few)
        write_new(new, rng, rows)
        asked = ["--family", "normal", "--param", "loc=mu", "--param", "scale=sigma", "--y", "y", "--space", "x*"]
        run_command("fit", calibration, "-o", model, *asked, "--k", 50)
        least, _, _ = run_command("predict", model, few, "-o", out, *ASKED)
        peak, seconds, said = run_command("predict", model, new, "-o", out, *ASKED)
        print(said)
        content = {
            "rows": rows,
            "calibration rows": CALIBRATION_ROWS,
            "megabytes of the table": new.stat().st_size / 2**20,
            "megabytes of the model": model.stat().st_size / 2**20,
            f"peak megabytes, {FEW} rows": least,
            "peak megabytes": peak,
            "seconds": seconds,
            **compare(model, new, out),
        }
    content["peak megabytes of the comparison in memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(content, indent=1))
    save("streaming", content)


if __name__ == "__main__":
    main()
