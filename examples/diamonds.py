"""What the examples share: the diamonds, split at random, and a table before and after recalibration."""

import argparse

import numpy as np

import nearcal as nc

METRICS = ["crps", "rmse", "interval_score", "coverage", "worst_region_coverage", "regional_coverage_error"]


def split(description, rows=53_940):
    """Return training, calibration and new diamonds, each as inputs and prices in thousands of dollars."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows, help="diamonds, the first 5/8 of them for training")
    rows = parser.parse_args().rows
    diamonds = nc.datasets.load_diamonds()
    order = np.random.default_rng(0).permutation(len(diamonds.y))[:rows]
    X, y = diamonds.X[order].astype(np.float32), (diamonds.y[order] / 1000).astype(np.float32)
    ends = [5 * rows // 8, 13 * rows // 16]
    return tuple(zip(np.split(X, ends), np.split(y, ends), strict=True))


def compare(name, model, layer, calibration, new):
    """Print a table of a model as it is, and recalibrated by its neighbours in a layer."""
    (X_cal, y_cal), (X_new, y_new) = calibration, new
    model = model.prepared(X_cal, y_cal)
    dist_cal, space_cal = model.run(X_cal, [layer])
    before, space_new = model.run(X_new, [layer])
    recalibrator = nc.LocalRecalibrator(k=min(200, len(y_cal) // 10), scaling="standard")
    after = recalibrator.fit(dist_cal, y_cal, space_cal[layer]).recalibrate(before, space_new[layer])
    print(f"{name}: prices of {len(y_new):,} diamonds in thousands of dollars, 95% intervals")
    print(nc.evaluate({"before": before, "after": after}, y_new, space=X_new, metrics=METRICS), end="\n\n")


def show(name, calibrated, new):
    """Print what a calibrated model chose and why, and a table of it before and after recalibration."""
    X_new, y_new = new
    dists = {"before": calibrated.base(X_new), "after": calibrated.predict(X_new)}
    print(f"{name}: prices of {len(y_new):,} diamonds in thousands of dollars, 95% intervals")
    print(calibrated.reason)
    print(nc.evaluate(dists, y_new, space=X_new, metrics=METRICS), end="\n\n")
