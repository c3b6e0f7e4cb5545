"""Recalibrate the distributions of NGBoost, here LogNormal prices; its parameters are one of the spaces."""

from diamonds import show, split
from ngboost import NGBRegressor
from ngboost.distns import LogNormal

import nearcal as nc


def main():
    """Train, recalibrate, print."""
    (X, y), (X_cal, y_cal), new = split(__doc__, rows=8_000)
    model = NGBRegressor(Dist=LogNormal, n_estimators=60, learning_rate=0.1, verbose=False, random_state=0).fit(X, y)
    show("NGBoost", nc.calibrate(model, X_cal, y_cal), new)


if __name__ == "__main__":
    main()
