"""Batches of every kind of distribution, for what all of them promise."""

import numpy as np
from scipy import stats

import nearcal as nc

ROWS = 24


def families(rows=ROWS, seed=5):
    """Return batches of every family with parameters that differ from row to row, and with some shared by all."""
    rng = np.random.default_rng(seed)
    loc, scale, shape = rng.normal(size=rows), rng.uniform(0.2, 3.0, rows), rng.uniform(0.6, 60.0, rows)
    df = rng.uniform(2.2, 40.0, rows)
    draws = rng.normal(loc[:, None], scale[:, None], size=(rows, 31))
    weights = rng.uniform(size=(rows, 31)) * (rng.uniform(size=(rows, 31)) < 0.8)
    levels = np.array([0.03, 0.2, 0.5, 0.6, 0.93])
    parts = [nc.Normal(loc + c, scale * (1 + c % 3)) for c in range(11)]
    return {
        "normal": nc.Normal(loc, scale),
        "normal, one scale": nc.Normal(loc, 1.7),
        "lognormal": nc.LogNormal(loc, scale / 3),
        "lognormal, one sigma": nc.LogNormal(loc, 0.37),
        "laplace": nc.Laplace(loc, scale),
        "gamma": nc.Gamma(shape, scale),
        "gamma, one shape": nc.Gamma(5.37, scale),
        "gamma, one scale": nc.Gamma(shape, 0.3),
        "student": nc.StudentT(df, loc, scale),
        "student, one df": nc.StudentT(4.3, loc, scale),
        "mixture": nc.Mixture([0.2, 0.5, 0.3], [nc.Normal(loc, scale), nc.Gamma(shape, scale), nc.Laplace(loc, 1.0)]),
        "mixture of eleven": nc.Mixture(rng.uniform(size=(rows, 11)), parts),
        "samples": nc.Samples(draws),
        "samples, one row of memory a draw": nc.Samples(np.asfortranarray(draws), np.asfortranarray(weights + 0.1)),
        "weighted samples": nc.Samples(draws, weights),
        "empirical samples": nc.Samples(draws, tails="empirical"),
        "empirical weighted samples": nc.Samples(draws, np.asfortranarray(weights), tails="empirical"),
        "quantiles": nc.Quantiles(levels, np.sort(draws[:, :5])),
        "empirical quantiles": nc.Quantiles(levels, np.sort(draws[:, :5]), tails="empirical"),
        "quantile average": nc.QuantileAverage([0.3, 0.7], [nc.Normal(loc, scale), nc.Gamma(shape, scale)]),
        "scipy": nc.from_scipy(stats.gumbel_r(loc, scale)),
        "scipy, one shape": nc.from_scipy(stats.weibull_min(1.7, scale=scale)),
    }


def calibration_set(n, seed=3):
    """Return predictions, responses and places whose errors are shifted, wide and skewed by turns."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = 0.5 * x[:, 0] + np.exp(0.4 * x[:, 1]) * rng.standard_t(6, size=n)
    return nc.Normal(np.zeros(n), 1.5), y, x


def places(rows=ROWS, seed=8):
    """Return where new rows are, some of them far from all calibration points."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    x[::6] *= 4
    return x


ALL_ROWS_ALIKE = {
    "global": nc.GlobalRecalibrator(),
    "global, conservative": nc.GlobalRecalibrator(quantile_rule="conservative"),
    "global, interpolated": nc.GlobalRecalibrator(quantile_rule="interpolated"),
    "global, predictive": nc.GlobalRecalibrator(quantile_rule="predictive"),
    "isotonic": nc.IsotonicRecalibrator(),
    "conformal": nc.ConformalRecalibrator(),
    "variance scaling": nc.VarianceScaling(),
    "identity": nc.IdentityRecalibrator(),
}
LOCAL = {
    "step": {"k": 130},
    "conservative": {"k": 130, "quantile_rule": "conservative"},
    "interpolated": {"k": 130, "quantile_rule": "interpolated"},
    "predictive": {"k": 25, "quantile_rule": "predictive"},
    "linear": {"k": 130, "corrections": (nc.LocalLinear(),)},
    "shrunk": {"k": 12, "quantile_rule": "conservative", "corrections": (nc.Shrinkage(),)},
    "linear, shrunk, polished": {
        "k": 60, "quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish())
    },
    "trend": {"k": 40, "corrections": (nc.Trend(),)},
    "trend, linear, polished, cautious": {
        "k": 60,
        "quantile_rule": "predictive",
        "corrections": (nc.Trend(), nc.LocalLinear(), nc.Polish(), nc.Caution(0.3)),
    },
    "polished": {"k": 130, "quantile_rule": "interpolated", "corrections": (nc.Polish(),), "scaling": "whiten"},
    "faded": {"k": 130, "corrections": (nc.Fade(0.3),)},
    "faded, conservative": {"k": 60, "quantile_rule": "conservative", "corrections": (nc.Fade(0.3),)},
    "faded to all, polished": {
        "k": 60, "quantile_rule": "predictive", "corrections": (nc.LocalLinear(), nc.Polish(), nc.Fade(0.3, "global"))
    },
    "radius, nearest": {"radius": nc.Radius(0.6, 20, "nearest")},
    "radius, base, conservative": {"radius": nc.Radius(0.6, 20, "base"), "quantile_rule": "conservative"},
    "radius, global, predictive": {"radius": nc.Radius(0.6, 20, "global"), "quantile_rule": "predictive"},
    "radius, faded": {
        "radius": nc.Radius(1.0, 5, "nearest"), "quantile_rule": "predictive", "corrections": (nc.Fade(0.3),)
    },
    "radius, polished": {
        "radius": nc.Radius(1.5, 5, "nearest"),
        "quantile_rule": "interpolated",
        "smoothing": "uniform",
        "corrections": (nc.LocalLinear(), nc.Shrinkage(), nc.Polish()),
    },
}  # fmt: skip


GUARANTEED = {
    "guaranteed": nc.GuaranteedRecalibrator(
        nc.LocalRecalibrator(k=60, quantile_rule="predictive", corrections=(nc.Polish(), nc.Fade(0.3))), "marginal"
    ),
    "guaranteed, global": nc.GuaranteedRecalibrator(nc.GlobalRecalibrator(quantile_rule="predictive"), nc.PAC()),
    "crossed": nc.CrossRecalibrator(nc.LocalRecalibrator(k=60, quantile_rule="predictive"), nc.Cross(folds=3)),
}


def recalibrators(n):
    """Return every recalibrator, fitted to n calibration points."""
    made = {name: recalibrator.fit(*calibration_set(n)) for name, recalibrator in ALL_ROWS_ALIKE.items()}
    made |= {name: recalibrator.fit(*calibration_set(n)) for name, recalibrator in GUARANTEED.items()}
    return made | {name: nc.LocalRecalibrator(**options).fit(*calibration_set(n)) for name, options in LOCAL.items()}
