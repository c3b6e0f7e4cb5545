"""The data, the misspecified model before and after recalibration, and what is measured of each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nearcal as nc
from nearcal_studies import recalibrators
from nearcal_studies.measures import interval_scores
from nearcal_studies.study import Outcome

METHODS = {"linear": "Linear", "global": "Globally Recalibrated Linear", "local": "Locally Recalibrated Linear"}
OWN_CHOICE = "chosen"
_SLICES = 6  # of equally many test rows, in the order of x
_POINTS = 100_001  # of a quadrature over x


class Data(NamedTuple):
    """Inputs and responses of one part of the data."""

    x: NDArray[Any]
    y: NDArray[Any]


def true_mean(x: Any) -> Any:
    """Return E(Y | x)."""
    return 10 + 5 * x**2


def true_distribution(x: NDArray[Any]) -> nc.Normal:
    """Return the distribution of Y given x."""
    return nc.Normal(true_mean(x), 30 * x)


def generate(n: int, seed: int) -> tuple[Data, Data, Data]:
    """Return training, calibration and test data, 80%, 10% and 10% of n: X uniform on (2, 20), Y given X as above."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(2, 20, size=n)
    y = rng.normal(true_mean(x), 30 * x)
    ends = [8 * n // 10, 9 * n // 10]
    train, cal, new = (Data(*part) for part in zip(np.split(x, ends), np.split(y, ends), strict=True))
    return train, cal, new


@dataclass(frozen=True)
class LinearModel(nc.adapters.ModelAdapter):
    """The misspecified model: Normal(intercept + slope x, sigma)."""

    intercept: float
    slope: float
    sigma: float

    @classmethod
    def fitted(cls, train: Data) -> "LinearModel":
        """Fit by least squares."""
        slope, intercept = np.polyfit(train.x, train.y, 1)
        sigma = np.std(train.y - intercept - slope * train.x)
        return cls(float(intercept), float(slope), float(sigma))

    def layers(self) -> tuple[str, ...]:
        """Return the only space there is."""
        return ("input",)

    def represent(self, X: Any, layer: str) -> NDArray[Any]:
        """Return the inputs as a column."""
        return np.asarray(X, dtype=np.float64).reshape(-1, 1)

    def distribution(self, X: Any) -> nc.Distribution:
        """Return the plug-in predictive distributions."""
        return nc.Normal(self.intercept + self.slope * np.asarray(X), self.sigma)


def population_figures() -> dict[str, float]:
    """Return MSE and coverage in per cent of the best straight line with endless data, by quadrature over x."""
    x = np.linspace(2, 20, _POINTS)
    mean = true_mean(x)
    line = LinearModel.fitted(Data(x, mean))  # its sigma is the misfit alone: the data have no noise
    sigma = np.sqrt(line.sigma**2 + np.mean((30 * x) ** 2))
    lower, upper = replace(line, sigma=float(sigma)).distribution(x).interval(0.95)
    true = true_distribution(x)
    return {"mse": line.sigma**2, "coverage": float(100 * np.mean(true.cdf(upper) - true.cdf(lower)))}


def run_seed(settings: Mapping[str, Any]) -> Outcome:
    """Fit, recalibrate and measure on the data of one seed."""
    train, cal, new = generate(settings["n"], settings["seed"])
    model = LinearModel.fitted(train)
    base, before = model.distribution(cal.x), model.distribution(new.x)
    own = recalibrators.calibrate(model, cal.x, cal.y)

    def by_rule(rule: str) -> dict[str, nc.Distribution]:
        everywhere = nc.GlobalRecalibrator(quantile_rule=rule).fit(base, cal.y)  # type: ignore[arg-type]
        nearby = recalibrators.local(settings["k"], quantile_rule=rule).fit(base, cal.y, cal.x)
        own_choice = own.predict(new.x)
        recalibrated = {"global": everywhere.recalibrate(before), "local": nearby.recalibrate(before, new.x)}
        return {"linear": before, **recalibrated, OWN_CHOICE: own_choice}

    rows = evenly_spread(new.x, settings["kl_rows"])
    dists, dense = by_rule("step"), by_rule("interpolated")  # a weighted sample has no density to diverge from
    numbers = {
        name: _measure(dist, dense[name][rows], new, cal, rows, None if name == "linear" else len(cal.y))
        for name, dist in dists.items()
    }
    uniformity = nc.diagnostics.uniformity_tests(nc.diagnostics.pit(base, cal.y), ["frosini"])
    arrays = {"x": new.x, "y": new.y}
    for name in METHODS:
        arrays |= {f"mean_{name}": dists[name].mean(), f"std_{name}": dists[name].std()}
    return Outcome(
        {
            "methods": numbers,
            "model": vars(model),
            "frosini_calibration": {"statistic": uniformity["statistic"][0], "p_value": uniformity["p_value"][0]},
            "choice": own.reason,
        },
        arrays if settings["seed"] == settings["drawn"] else {},
    )


def evenly_spread(x: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return rows at evenly spaced ranks of x: the Kullback-Leibler divergence is smooth in x and dear to compute."""
    places = ((np.arange(count) + 0.5) * len(x) / count).astype(np.int64)
    return np.argsort(x)[places]


def _measure(
    dist: nc.Distribution, dense: nc.Distribution, new: Data, cal: Data, rows: Any, n_cal: int | None
) -> dict[str, float]:
    true = true_distribution(new.x[rows])
    lower, upper = dist.interval(0.95)
    covered = (lower <= new.y) & (new.y <= upper)
    slices = np.array_split(np.argsort(new.x), _SLICES)
    pit = nc.diagnostics.pit(dist, new.y, rng=0)
    return {
        "mse": nc.scores.squared_error(dist, true_mean(new.x)).mean(),
        "kl": nc.scores.kl_divergence(true, dense).mean(),
        "kl_reverse": nc.scores.kl_divergence(true, dense, reverse=True).mean(),
        "coverage": 100 * covered.mean(),
        "worst_slice": min(100 * covered[part].mean() for part in slices),
        "width": (upper - lower).mean(),
        "smis": interval_scores(lower, upper, new.y, 0.95).mean() / np.abs(cal.y).mean(),
        "frosini_p_value": nc.diagnostics.uniformity_tests(pit, ["frosini"], n_cal=n_cal)["p_value"][0],
    }
