"""How close the search in high dimension is to what its arithmetic must cost: n_cal = 1e5, d = 200, k = 1000.

    python benchmarks/roofline.py

Without structure to prune by, an exact search needs a product with every coordinate of every point: n · d multiply-adds
a query. Their time in a bare matrix product (BLAS, one thread, many queries at once, nothing selected, weighed or
summarised) is the floor for any method that computes in that precision. Writes results/roofline.json.
"""

import time

import numpy as np
from cases import fit_ours, generate
from threadpoolctl import threadpool_limits
from timing import cost_per_row, save

import nearcal as nc

N, D, K, ROWS = 100_000, 200, 1000, 1024


def matrix_product(space, queries, dtype):
    """Return microseconds per query of the products alone."""
    points, rows = np.ascontiguousarray(space.T, dtype=dtype), queries.astype(dtype)
    times = []
    for _ in range(5):
        start = time.process_time()
        for part in np.split(rows, 8):
            part @ points
        times.append(time.process_time() - start)
    return 1e6 * min(times) / len(rows)


def main():
    """Time the bare products and the whole recalibration in one run."""
    data = generate(N, D, 4 * ROWS)
    recalibrator = fit_ours(data, K, workers=nc.Workers(threads=1))

    def ours(m):
        recalibrator.recalibrate(nc.Normal(data.mean_new[:m], data.sigma), data.space_new[:m]).summary(0.95)

    with threadpool_limits(1):
        floors = {
            np.dtype(dtype).name: matrix_product(data.space, data.space_new[:ROWS], dtype)
            for dtype in (np.float32, np.float64)
        }
    content = {
        "n": N,
        "d": D,
        "k": K,
        "multiply-adds per row": N * D,
        "bytes of float64 coordinates of the k nearest": 8 * K * D,
        "bare matrix product, microseconds per row": floors,
        "nearcal end to end, microseconds per row": cost_per_row(ours, lambda m: m, 3.0),
    }
    print(content)
    save("roofline", content)


if __name__ == "__main__":
    main()
