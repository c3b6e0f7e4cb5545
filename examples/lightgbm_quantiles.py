"""Recalibrate quantiles predicted by LightGBM, one model a level; neighbours share inputs, leaves or predictions."""

import lightgbm
from diamonds import show, split

import nearcal as nc

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def main():
    """Train, recalibrate, print."""
    (X, y), (X_cal, y_cal), new = split(__doc__, rows=8_000)
    options = {"objective": "quantile", "n_estimators": 50, "n_jobs": 1, "verbose": -1}
    models = {level: lightgbm.LGBMRegressor(alpha=level, **options).fit(X, y) for level in LEVELS}
    calibrated = nc.calibrate(models, X_cal, y_cal)
    show("LightGBM quantiles", calibrated, new)


if __name__ == "__main__":
    main()
