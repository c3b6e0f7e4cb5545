"""Recalibrate XGBoost: a model of the mean, and one of several quantiles, whose levels are read from it."""

import xgboost
from diamonds import show, split

import nearcal as nc


def main():
    """Train, recalibrate, print."""
    (X, y), (X_cal, y_cal), new = split(__doc__, rows=8_000)
    mean = xgboost.XGBRegressor(n_estimators=50, n_jobs=1).fit(X, y)
    show("XGBoost mean", nc.calibrate(mean, X_cal, y_cal), new)
    levels = {"objective": "reg:quantileerror", "quantile_alpha": [0.05, 0.25, 0.5, 0.75, 0.95]}
    quantiles = xgboost.XGBRegressor(n_estimators=50, n_jobs=1, **levels).fit(X, y)
    show("XGBoost quantiles", nc.calibrate(quantiles, X_cal, y_cal), new)


if __name__ == "__main__":
    main()
