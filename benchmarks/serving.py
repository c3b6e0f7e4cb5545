"""A service on onnxruntime alone under load, on loopback: rows a second, p50 and p99 of a request.

    python benchmarks/serving.py

Clients on threads of this process ask the server of examples/serve_onnx.py, in a process of its own, for single rows
and for batches of 64, over connections that stay open. Writes results/serving.json.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from timing import save

import nearcal as nc

EXAMPLE = Path(__file__).parents[1] / "examples" / "serve_onnx.py"
SERVER = (
    "import sys; sys.path.insert(0, sys.argv[2]); import serve_onnx; server = serve_onnx.make_server(sys.argv[1], 0); "
    "print(server.server_port, flush=True); server.serve_forever()"
)
CLIENTS, SECONDS = 4, 5.0


def compiled_file(folder):
    """Return the file of a compiled recalibrator of 2,000 points in 10 dimensions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = rng.normal(np.sin(X[:, 1]), 1 + np.abs(X[:, 0]))
    exact = nc.LocalRecalibrator(k=200, quantile_rule="predictive", corrections=(nc.Polish(), nc.Fade()))
    compiled = nc.compile(exact.fit(nc.Normal(np.zeros(2000), 1.0), y, X), tolerance=1.0)
    return compiled.to_onnx(folder / "model.onnx", "normal")


def load(port, rows):
    """Return requests a second and the times of single requests, in milliseconds."""
    rng = np.random.default_rng(1)
    question = {"loc": np.zeros((rows, 1)), "scale": np.ones((rows, 1)), "position": rng.normal(size=(rows, 10))}
    body = json.dumps({name: table.tolist() for name, table in question.items()})
    times, stop = [], time.perf_counter() + SECONDS

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while time.perf_counter() < stop:
            start = time.perf_counter()
            connection.request("POST", "/", body)
            response = connection.getresponse()
            response.read()
            assert response.status == 200
            times.append(time.perf_counter() - start)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p50, p99 = 1e3 * np.percentile(times, [50, 99])
    return {"rows a second": rows * len(times) / SECONDS, "p50 milliseconds": p50, "p99 milliseconds": p99}


def main():
    """Start the server, ask it, print and write."""
    with tempfile.TemporaryDirectory() as place:
        path = compiled_file(Path(place))
        command = [sys.executable, "-c", SERVER, str(path), str(EXAMPLE.parent)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                port = int(server.stdout.readline())
                results = {f"{rows} rows a request": load(port, rows) for rows in (1, 64)}
            finally:
                server.terminate()
    print(json.dumps(results, indent=1))
    save("serving", {"clients": CLIENTS, "seed": 0, "results": results})


if __name__ == "__main__":
    main()
