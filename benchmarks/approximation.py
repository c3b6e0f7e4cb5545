"""What eps buys and costs: speed, recall and CRPS for eps 0, 0.5, 1, 2 at n_cal = 1e5, d = 20, k = 1000.

    python benchmarks/approximation.py

The data are those of the paper's simulation study, the model a linear regression with one σ. Writes
results/approximation.json.
"""

import time

import numpy as np
from cases import inputs
from timing import save

import nearcal as nc

N, D, K, M, SEED = 100_000, 20, 1000, 4000, 0


def respond(x, rng):
    """Return responses of the paper's simulation model (section 4.3), noise of standard deviation 1."""
    x = x.T
    mean = 5 + 10 * x[0] + 10 / (x[1] ** 2 + 1) + 5 * x[2] * x[3] + 2 * x[3] + 5 * x[3] ** 2 + 5 * x[4] + 2 * x[5]
    mean = mean + 10 / (x[6] ** 2 + 1) + 5 * x[7] * x[8] + 5 * x[8] ** 2 + 5 * x[9]
    return mean + rng.normal(size=len(mean))


def main():
    """Fit once, search with each eps, compare with the exact neighbourhoods."""
    rng = np.random.default_rng(SEED)
    x = inputs(3 * N + M, D, rng)
    y = respond(x, rng)
    train, cal, new = slice(0, 2 * N), slice(2 * N, 3 * N), slice(3 * N, 3 * N + M)
    design = np.column_stack([np.ones(len(x)), x])
    coefficients = np.linalg.lstsq(design[train], y[train], rcond=None)[0]
    fitted = design @ coefficients
    sigma = float(np.std((y - fitted)[train]))

    rows, exact, exact_time = [], None, None
    for search in ("auto", "boxes"):
        for eps in (0.0, 0.5, 1.0, 2.0):
            rc = nc.LocalRecalibrator(k=K, eps=eps, search=search, workers=nc.Workers(threads=1))
            rc.fit(nc.Normal(fitted[cal], sigma), y[cal], x[cal])
            out = rc.recalibrate(nc.Normal(fitted[new], sigma), x[new])
            out[:64].summary()  # compile and warm up
            start = time.process_time()
            out.summary()
            cost = 1e6 * (time.process_time() - start) / M
            found = [set(row) for row in out.neighbors(slice(0, 500)).indices]
            if exact is None:
                exact, exact_time = found, cost
            recall = np.mean([len(a & b) / K for a, b in zip(found, exact, strict=True)])
            crps = float(np.mean(nc.scores.crps(out, y[new])))
            method = type(rc.index_).__name__
            rows.append({"search": search, "index": method, "eps": eps, "microseconds per row": cost})
            rows[-1] |= {"speed relative to exact": exact_time / cost, "recall": recall, "crps": crps}
            print(rows[-1], flush=True)
    save("approximation", {"n": N, "d": D, "k": K, "m": M, "seed": SEED, "rows": rows})


if __name__ == "__main__":
    main()
