"""Recalibrate a probabilistic regressor of skpro: a linear mean, and absolute residuals for the scale."""

from diamonds import show, split
from sklearn.linear_model import LinearRegression
from skpro.regression.residual import ResidualDouble

import nearcal as nc


def main():
    """Train, recalibrate, print."""
    (X, y), (X_cal, y_cal), new = split(__doc__, rows=8_000)
    model = ResidualDouble(LinearRegression(), min_scale=0.05).fit(X, y)
    show("skpro ResidualDouble", nc.calibrate(model, X_cal, y_cal), new)


if __name__ == "__main__":
    main()
