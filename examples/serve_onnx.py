"""Serve compiled recalibration over HTTP, with onnxruntime and numpy alone: no nearcal, no numba, no calibration set.

Run it with a file that ``to_onnx`` or ``nearcal compile`` has written:

    python examples/serve_onnx.py model.onnx 8000
    curl -d '{"loc": [[0.1]], "scale": [[1.0]], "position": [[1.2, 2.0]]}' http://127.0.0.1:8000
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

TYPES = {"tensor(double)": np.float64, "tensor(float)": np.float32}


def make_server(path: str, port: int) -> ThreadingHTTPServer:
    """Return a server of one model, on loopback; port 0 takes a free one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # requests run side by side
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {one.name: TYPES[one.type] for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an answer is sent at once

        def do_POST(self) -> None:
            try:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                inputs = {name: np.array(given[name], dtype=kind) for name, kind in types.items()}
                answers = session.run(names, inputs)
                status, body = 200, {name: table.tolist() for name, table in zip(names, answers, strict=True)}
            except Exception as error:  # whatever a caller sends, it is told why
                status, body = 400, {"error": str(error)}
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing of single requests."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def demo_model() -> str:
    """Write a small compiled recalibrator, for a run without arguments."""
    import tempfile

    import nearcal as nc

    rng = np.random.default_rng(0)
    X = rng.uniform(1, 3, size=(200, 2))
    exact = nc.LocalRecalibrator(k=40).fit(nc.Normal(np.zeros(200), 1.0), rng.normal(0.0, X[:, 0]), X)
    return str(nc.compile(exact, tolerance=1.0).to_onnx(f"{tempfile.mkdtemp()}/model.onnx", "normal"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make_server(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000).serve_forever()
    else:  # ask itself once
        from threading import Thread
        from urllib.request import urlopen

        server = make_server(demo_model(), 0)
        Thread(target=server.serve_forever, daemon=True).start()
        question = {"loc": [[0.0]], "scale": [[1.0]], "position": [[2.5, 2.0]]}
        with urlopen(f"http://127.0.0.1:{server.server_port}", json.dumps(question).encode()) as answer:
            print(json.loads(answer.read()))
        server.shutdown()
