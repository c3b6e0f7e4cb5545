"""Past one process: Dask and Spark against one process, memory of workers, and an index larger than memory.

    python benchmarks/scale.py predict [--rows 10000000]   one process, Dask and Spark on the same processors
    python benchmarks/scale.py index [--rows 100000000]    a calibration set on disk: built, searched, compared
    python benchmarks/scale.py queries                     the same index, searched again
    python benchmarks/scale.py brute [--rows 100000000]    the neighbours of the same queries, by brute force
    python benchmarks/scale.py page                        results/scale.md from what was measured

Writes results/scale_*.json. Folders, ``--folder`` and names that begin like it, are left for the next command.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import njit
from pyarrow import parquet
from timing import RESULTS, load, save

import nearcal as nc

SEED, CALIBRATION_ROWS, PART = 22, 10_000, 100_000
COLUMNS, NEIGHBORS = 5, 1_000  # of predictions: 22 µs of work a row; with two columns and k = 100 it is 4 µs
ENGINES = ["local", "dask", "spark", "compiled"]
DIMENSIONS, K, QUERIES, BATCH = 5, 100, 1_000, 500_000


# ---- predictions ----------------------------------------------------------------------------------------------------


def make_rows(rng, count):
    """Return a table of predictions that are too sure where x2 is large."""
    x, sigma = rng.normal(size=(count, COLUMNS)), rng.uniform(0.5, 1.5, size=count)
    y = rng.normal(np.sin(x[:, 0]), sigma * np.exp(0.5 * x[:, 1]))
    space = {f"x{number}": column for number, column in enumerate(x.T, 1)}
    return pa.table({"mu": np.sin(x[:, 0]), "sigma": sigma, **space, "y": y})


def write_parts(folder, rows):
    """Write new rows in parts; the model is learnt from others."""
    (folder / "new").mkdir()
    for number in range(rows // PART):
        parquet.write_table(
            make_rows(np.random.default_rng([SEED, number]), PART), folder / f"new/{number:05d}.parquet"
        )
    space = tuple(f"x{number}" for number in range(1, COLUMNS + 1))
    columns = nc.adapters.ColumnsModel("normal", {"loc": "mu", "scale": "sigma"}, {"space": space}, "y")
    table = make_rows(np.random.default_rng([SEED, 10**6]), CALIBRATION_ROWS)
    recalibrator = nc.LocalRecalibrator(k=NEIGHBORS, scaling="standard")
    nc.save(nc.calibrate(columns, table, table["y"], recalibrator=recalibrator), folder / "model.nearcal")


def run_alone(task, *arguments):
    """Run a task of this file in a process of its own; return what it prints."""
    command = [sys.executable, __file__, task, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.decode().splitlines()[-1])


def predict_folder(folder, engine):
    """Predict all parts by the command, with whatever starts up before the clock runs; print seconds and peaks."""
    from nearcal.cli._folders import Engine, go_through
    from nearcal.distributed.batches import BatchPredictor, open_model
    from nearcal.distributed.parts import PartPredictor, connected, list_parts, run_on
    from nearcal.distributed.wanted import Wanted

    folder, names = Path(folder), list_parts(Path(folder, "new"))
    task = BatchPredictor(Wanted(True, True, (0.9,), (), False, None))
    model = folder / ("compiled.nearcal" if engine == "compiled" else "model.nearcal")
    if not model.exists():
        nc.save(nc.compile(nc.load(folder / "model.nearcal")), model)
    schema = task.schema(parquet.read_schema(folder / "new" / names[0]), open_model(model))
    places = [str(model), *(str(folder / name) for name in ("new", f"out-{engine}"))]
    if engine != "dask":
        work = PartPredictor(*places, task, schema)
        work(names[0])  # compiled code is loaded
        begin, cpu = time.perf_counter(), time.process_time()
        go_through(work, names[1:], Engine("local", None, None), keep_going=False)
        print(json.dumps([time.perf_counter() - begin, [peak_megabytes()], time.process_time() - cpu]))
        return
    work = PartPredictor(*places, task, schema, 1)
    with connected(2, None) as client:
        client.run(work, names[0])
        begin, cpu = time.perf_counter(), sum(client.run(time.process_time).values()) + time.process_time()
        done = list(run_on(client, work, names[1:]))
        seconds = time.perf_counter() - begin
        assert not any(one.error for one in done)
        cpu = sum(client.run(time.process_time).values()) + time.process_time() - cpu
        print(json.dumps([seconds, list(client.run(peak_megabytes).values()), cpu]))


def predict_spark(folder):
    """Predict all parts on Spark local[2], and write them."""
    from pyspark.sql import SparkSession

    folder = Path(folder)
    options = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]")
    options |= {"spark.sql.files.maxPartitionBytes": "8m", "spark.sql.execution.arrow.maxRecordsPerBatch": "100000"}
    for name, value in options.items():
        builder = builder.config(name, value)
    with builder.getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        first = spark.read.parquet(str(folder / "new/00000.parquet")).repartition(2)
        nc.spark.predict(folder / "model.nearcal", first).collect()  # workers are there, compiled code is loaded
        begin = time.perf_counter()
        out = nc.spark.predict(folder / "model.nearcal", spark.read.parquet(str(folder / "new")))
        out.write.mode("overwrite").parquet(str(folder / "out-spark"))
        seconds = time.perf_counter() - begin
        print(json.dumps([seconds, spark_peaks(), None]))


def spark_peaks():
    """Return the peaks of the processes of Python that Spark has started."""
    peaks = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command, lines = (status.parent / "cmdline").read_text(), status.read_text().splitlines()
        except OSError:  # it has ended
            continue
        if "pyspark.daemon" in command:
            peaks += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return peaks


def peak_megabytes():
    """Return the peak of the memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare_parts(folder, names):
    """Return whether all engines have written the same bits."""
    equal = all(
        parquet.read_table(folder / "out-local" / name).equals(parquet.read_table(folder / "out-dask" / name))
        for name in names
    )
    here, spark = (
        np.sort(parquet.read_table(folder / f"out-{engine}", columns=["mean"])["mean"].to_numpy())
        for engine in ("local", "spark")
    )
    return equal and np.array_equal(here, spark)


def measure_predict(folder, rows, engines, repeats):
    """Return rows a second of each engine, the best of repeats, their efficiency against one process, and peaks."""
    if not (folder / "model.nearcal").exists():
        write_parts(folder, rows)
    results = load(f"scale_predict_{rows}") if set(engines) < set(ENGINES) else None
    results = results or {"calibration_rows": CALIBRATION_ROWS, "k": NEIGHBORS, "dimensions": COLUMNS, "seed": SEED}
    results |= {"rows": rows, "repeats": repeats, "processors": len(os.sched_getaffinity(0))}
    for engine in repeats * list(engines):  # by turns: others may be at work on the machine
        shutil.rmtree(folder / f"out-{engine}", ignore_errors=True)
        task = ("part-spark", folder) if engine == "spark" else ("part-folder", folder, engine)
        seconds, peaks, cpu = run_alone(*task)
        done = rows if engine == "spark" else rows - PART
        own = {"rows_a_second": done / seconds, "seconds": seconds, "peak_megabytes": peaks, "processor_seconds": cpu}
        best = results.setdefault(engine, own)
        results[engine] = own if repeats == 1 or seconds < best["seconds"] else best
    for engine in ("dask", "spark"):
        if engine in results:
            results[engine]["efficiency"] = results[engine]["rows_a_second"] / results["local"]["rows_a_second"]
    if all((folder / f"out-{engine}").exists() for engine in ENGINES[:3]):
        results["equal_bits"] = compare_parts(folder, sorted(path.name for path in (folder / "new").iterdir()))
    return {name: value for name, value in results.items() if name not in ("python", "versions")}


# ---- an index larger than memory ------------------------------------------------------------------------------------


def batches(rows):
    """Yield scores and positions: every batch has a seed of its own, so that nobody needs to keep them."""
    for number in range(-(-rows // BATCH)):
        rng = np.random.default_rng([SEED, number])
        count = min(BATCH, rows - number * BATCH)
        yield rng.normal(size=count), rng.normal(size=(count, DIMENSIONS))


def make_queries():
    """Return positions like those of the calibration set."""
    return np.random.default_rng([SEED, 10**7]).normal(size=(QUERIES, DIMENSIONS))


def build(folder, rows):
    """Build shards by streaming; print seconds and peak memory."""
    begin = time.perf_counter()
    rc = nc.ShardedRecalibrator(k=K, quantile_rule="predictive", folder=Path(folder) / "shards")
    rc.fit_scores(batches(int(rows)))
    nc.save(rc, Path(folder) / "rc.nearcal")
    size = sum(path.stat().st_size for path in (Path(folder) / "shards").iterdir())
    print(json.dumps([time.perf_counter() - begin, peak_megabytes(), size, len(rc.index_.shards)]))


def query(folder, is_cold):
    """Search the neighbours of all queries, and recalibrate them; print microseconds a row and peak memory."""
    folder, queries = Path(folder), make_queries()
    if is_cold == "cold":
        for path in (folder / "shards").iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    warm_up()
    rc = nc.load(folder / "rc.nearcal")
    begin = time.perf_counter()
    found = rc.index_.nearest(queries, K, 0.0)
    middle = time.perf_counter()
    rc.recalibrate(nc.Normal(np.zeros(QUERIES), 1.0), queries).summary()
    end = time.perf_counter()
    radius = float(np.median(found.radius))
    within = rc.index_.within(queries, radius)
    last = time.perf_counter()
    np.savez(folder / "found.npz", **{f"k_{n}": getattr(found, n) for n in ("indptr", "indices", "distances")},
             **{f"r_{n}": getattr(within, n) for n in ("indptr", "indices", "distances")}, radius=radius)  # fmt: skip
    micro = [1e6 * seconds / QUERIES for seconds in (middle - begin, end - middle, last - end)]
    print(json.dumps([*micro, peak_megabytes()]))


def warm_up():
    """Load compiled code, with a small index."""
    with tempfile.TemporaryDirectory() as place:
        rng = np.random.default_rng(1)
        rc = nc.ShardedRecalibrator(k=K, quantile_rule="predictive", folder=Path(place) / "shards")
        rc.fit_scores([(rng.normal(size=20_000), rng.normal(size=(20_000, DIMENSIONS)))])
        rc.index_.within(make_queries()[:10], 0.5)
        rc.recalibrate(nc.Normal(np.zeros(10), 1.0), make_queries()[:10]).summary()


@njit
def _squares(points, query, out):
    for i in range(len(points)):
        total = 0.0
        for j in range(points.shape[1]):
            diff = points[i, j] - query[j]
            total += diff * diff
        out[i] = total


def brute(folder, rows):
    """Find the same neighbours by the distances of all rows; return how many queries agree to the last bit."""
    queries, found = make_queries(), np.load(Path(folder) / "found.npz")
    radius, start, squares = float(found["radius"]), 0, np.empty(BATCH)
    kept = [(np.empty(0), np.empty(0, np.int64)) for _ in queries]
    inside = [[] for _ in queries]
    for _, points in batches(rows):
        for q, point in enumerate(queries):
            own = squares[: len(points)]
            _squares(points, point, own)
            bound = kept[q][0][-1] if len(kept[q][0]) == K else np.inf
            near = np.flatnonzero(own <= max(bound, radius * radius * (1 + 1e-9)))
            inside[q].append(near[np.sqrt(own[near]) <= radius] + start)
            values, numbers = np.concatenate([kept[q][0], own[near]]), np.concatenate([kept[q][1], near + start])
            order = np.lexsort((numbers, values))[:K]
            kept[q] = values[order], numbers[order]
        start += len(points)
    by_k = sum(_agree(found, "k", q, *kept[q]) for q in range(QUERIES))
    by_radius = sum(_agree(found, "r", q, None, np.concatenate(inside[q])) for q in range(QUERIES))
    return {"rows": rows, "queries": QUERIES, "k_equal": by_k, "radius_equal": by_radius, "radius": radius}


def _agree(found, kind, q, squares, numbers):
    span = slice(*found[f"{kind}_indptr"][q : q + 2])
    indices, distances = found[f"{kind}_indices"][span], found[f"{kind}_distances"][span]
    order = np.argsort(indices)
    if not np.array_equal(indices[order], np.sort(numbers)):
        return False
    return squares is None or np.array_equal(distances[order], np.sqrt(squares)[np.argsort(numbers)])


def measure_index(folder, rows):
    """Return the cost of building and of searching, cold and warm."""
    seconds, peak, size, shards = run_alone("part-build", folder, rows)
    results = {"rows": rows, "dimensions": DIMENSIONS, "k": K, "seed": SEED, "shards": shards, "bytes": size}
    results["build"] = {"seconds": seconds, "peak_megabytes": peak}
    return measure_queries(folder, results)


def measure_queries(folder, results):
    """Return the same with the cost of searching what was built."""
    names = ("nearest_microseconds", "recalibrate_microseconds", "within_microseconds", "peak_megabytes")
    for state in ("cold", "warm"):
        results[state] = dict(zip(names, run_alone("part-query", folder, state), strict=True))
    return results


# ---- the page -------------------------------------------------------------------------------------------------------


def write_page():
    """Write results/scale.md from what was measured."""
    lines = []
    for path in sorted(RESULTS.glob("scale_predict_*.json"), key=lambda path: int(path.stem.rpartition("_")[2])):
        lines += _predict_lines(load(path.stem))
    if (index := load("scale_index")) is not None:
        lines += _index_lines(index, load("scale_brute"))
    (RESULTS / "scale.md").write_text("\n".join(lines))


def _predict_lines(result):
    repeats = f", the best of {result['repeats']} by turns" if result.get("repeats", 1) > 1 else ", once"
    title = (
        f"{result['rows']:,} new rows, {result['calibration_rows']:,} calibration rows, d = {result['dimensions']}, "
        f"k = {result['k']}: "
        f"mean, standard deviation and an interval, from Parquet to Parquet on {result['processors']} processors"
        f"{repeats}. Efficiency is against one process with a thread for each."
    )
    head = ("", "rows a second", "efficiency", "µs of processor a row", "peak MB of a worker", "hours for 10⁹ rows")
    lines = [title, "", f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    names = {"local": "one process", "dask": "Dask, 2 processes", "spark": "Spark local[2]"}
    for engine, name in {**names, "compiled": "one process, compiled"}.items():
        if own := result.get(engine):
            share = f"{own['efficiency']:.2f}" if "efficiency" in own else ""
            cpu = own.get("processor_seconds")
            cost = "" if cpu is None else f"{1e6 * cpu / own['seconds'] / own['rows_a_second']:.1f}"
            rate, hours = own["rows_a_second"], 1e9 / own["rows_a_second"] / 3600
            lines.append(
                f"| {name} | {rate:,.0f} | {share} | {cost} | {max(own['peak_megabytes']):.0f} | {hours:.1f} |"
            )
    equal = {True: "All engines wrote the same bits. ", False: "They did not write the same bits. "}
    told = f"{equal.get(result.get('equal_bits'), '')}Hours are those of {result['processors']} processors."
    return [*lines, "", told, ""]


def _index_lines(result, brute_result):
    gigabytes = result["bytes"] / 1e9
    lines = [
        f"{result['rows']:,} calibration rows, d = {result['dimensions']}, in {result['shards']} shards of "
        f"{gigabytes:.1f} GB together, built in {result['build']['seconds'] / 60:.1f} minutes with at most "
        f"{result['build']['peak_megabytes']:.0f} MB resident. {QUERIES:,} queries in any order, k = {result['k']}:",
        "",
        "| page cache | µs a query, k nearest | µs, within a radius | µs a row, recalibrated | peak MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for state in ("cold", "warm"):
        names = ("nearest_microseconds", "within_microseconds", "recalibrate_microseconds", "peak_megabytes")
        lines.append(f"| {state} | " + " | ".join(f"{result[state][name]:,.0f}" for name in names) + " |")
    if brute_result is None or brute_result["rows"] != result["rows"]:
        return [*lines, ""]
    counts = brute_result["k_equal"], brute_result["radius_equal"]
    told = f"Of {QUERIES:,} queries {counts[0]:,} (k) and {counts[1]:,} (radius) equal a brute force over all rows."
    return [*lines, "", told, ""]


def main():
    """Run what is asked."""
    if sys.argv[1].startswith("part-"):
        parts = {"folder": predict_folder, "spark": predict_spark, "build": build, "query": query}
        parts[sys.argv[1].removeprefix("part-")](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["predict", "index", "queries", "brute", "page"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "nearcal-scale")
    given = parser.parse_args()
    if given.what == "page":
        write_page()
        return
    if given.what == "predict":
        rows = given.rows or 10**7
        folder = given.folder.with_name(f"{given.folder.name}-{rows}")
        folder.mkdir(exist_ok=True)
        save(f"scale_predict_{rows}", measure_predict(folder, rows, given.engine or ENGINES, given.repeats))
        return
    given.folder.mkdir(exist_ok=True)
    if given.what == "index":
        save("scale_index", measure_index(given.folder, given.rows or 10**8))
    elif given.what == "queries":
        built = load("scale_index")
        save(
            "scale_index",
            measure_queries(given.folder, {n: built[n] for n in built if n not in ("python", "versions")}),
        )
    else:
        save("scale_brute", brute(given.folder, given.rows or 10**8))
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
