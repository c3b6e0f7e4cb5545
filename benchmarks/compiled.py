"""What a row of compiled recalibration costs, beside the exact path and the pass of a network, one thread.

    python benchmarks/compiled.py

n_cal = 1e5, d = 20, k = 1000, Normal predictions; batches of 1,024 rows, and single rows. Costs are processor time, of
single rows wall time; all in one run, so that their ratios hold on other machines. The largest form, two wide networks
with trend and anchors, which this case does not need, is measured too, hardly taught. Writes results/compiled.json.
"""

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
from cases import fit_ours, generate
from timing import cost_per_row, save

import nearcal as nc
from nearcal.compiled import compiling
from nearcal.compiled.network import Effort
from nearcal.compiled.student import Form, Kind

LARGEST = Form((Kind(True, Effort(256, 10, members=2)),), has_anchors=True)
BATCH, SECONDS = 1024, 4.0
WIDTHS = {"paper, small": (20, 50, 100, 200, 5, 1), "paper, big": (20, 200, 200, 200, 5, 1)}


def session(path):
    """Return a session of one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def cost_in_batches(run, inputs):
    """Return microseconds per row of a session fed with batches of the same rows."""
    batch = {name: np.ascontiguousarray(table[:BATCH]) for name, table in inputs.items()}

    def work(rows):
        for _ in range(max(rows // BATCH, 1)):
            run(batch)

    best = np.inf
    for _ in range(5):
        start = time.process_time()
        work(40 * BATCH)
        best = min(best, time.process_time() - start)
    return 1e6 * best / (40 * BATCH)


def latency(run, inputs):
    """Return p50 and p99 of single rows, in microseconds."""
    one = {name: np.ascontiguousarray(table[:1]) for name, table in inputs.items()}
    times = []
    for _ in range(3000):
        start = time.perf_counter()
        run(one)
        times.append(time.perf_counter() - start)
    return [1e6 * float(value) for value in np.percentile(times[100:], [50, 99])]


def network_sessions(folder):
    """Return sessions of the paper's networks."""
    torch.manual_seed(0)
    found = {}
    for name, widths in WIDTHS.items():
        layers = []
        for inside, outside in pairwise(widths):
            layers += [torch.nn.Linear(inside, outside), torch.nn.ReLU()]
        path = folder / "net.onnx"
        torch.onnx.export(
            torch.nn.Sequential(*layers[:-1]), (torch.zeros(2, widths[0]),), path, dynamo=False, opset_version=18,
            input_names=["X"], dynamic_axes={"X": {0: "batch"}},
        )  # fmt: skip
        found[name] = session(path)
    return found


def main():
    """Measure, print and write."""
    torch.set_num_threads(1)
    data = generate(100_000, 20, 20_000)  # as many as a cost is taken of at most
    exact = fit_ours(data, 1000)
    start = time.process_time()
    compiled = nc.compile(exact, tolerance=1.0)
    results = {"compile seconds": time.process_time() - start, "loss": compiled.loss_.loss, "form": compiled.loss_.form}
    base = nc.Normal(data.mean_new, data.sigma)
    space = np.asarray(data.space_new, dtype=np.float64)
    one_thread = nc.LocalRecalibrator(**{**exact.get_params(), "workers": nc.Workers(threads=1)})
    exact.workers = one_thread.workers
    results["exact, microseconds a row"] = cost_per_row(
        lambda m: exact.recalibrate(base[:m], space[:m]).summary(0.95), lambda m: m, SECONDS
    )
    results["numpy tables, microseconds a row"] = cost_per_row(lambda m: compiled.read(space[:m]), lambda m: m, 1.0)
    results["numpy summary, microseconds a row"] = cost_per_row(
        lambda m: compiled.recalibrate(base[:m], space[:m]).summary(0.95), lambda m: m, 1.0
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = compiled.to_onnx(folder / "recalibration.onnx", "normal")
        results["bytes"] = path.stat().st_size
        inputs = {
            "loc": np.asarray(base.loc)[:, np.newaxis],
            "scale": np.broadcast_to(base.scale, len(base))[:, np.newaxis],
            "position": space,
        }
        recalibration = session(path)
        ask = lambda batch: recalibration.run(None, batch)  # noqa: E731
        results["onnxruntime, microseconds a row"] = cost_in_batches(ask, inputs)
        results["onnxruntime, single row p50 and p99"] = latency(ask, inputs)
        with patch.object(compiling, "_forms", lambda fit: [LARGEST]):
            largest = nc.compile(exact, tolerance=1e9)
        path = largest.to_onnx(folder / "largest.onnx", "normal")
        results["largest form, bytes"] = path.stat().st_size
        recalibration = session(path)
        results["largest form, onnxruntime, microseconds a row"] = cost_in_batches(ask, inputs)
        results["largest form, single row p50 and p99"] = latency(ask, inputs)
        results["largest form, numpy summary, microseconds a row"] = cost_per_row(
            lambda m: largest.recalibrate(base[:m], space[:m]).summary(0.95), lambda m: m, 1.0
        )
        for name, own in network_sessions(folder).items():
            single = {"X": space.astype(np.float32)}
            results[f"network {name}, microseconds a row"] = cost_in_batches(
                lambda batch, own=own: own.run(None, batch), single
            )
    results["exact / onnxruntime"] = results["exact, microseconds a row"] / results["onnxruntime, microseconds a row"]
    for name, value in results.items():
        print(f"{name}: {value}")
    save("compiled", {"seed": 0, "setting": "n_cal = 1e5, d = 20, k = 1000", "results": results})


if __name__ == "__main__":
    main()
