"""The diamonds, short: a network is trained and recalibrated; what it got wrong before and after, in words."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._atomic import replacing
from nearcal._optional import import_extra
from nearcal._table import Table
from nearcal.calibrated import calibrate
from nearcal.datasets import load_diamonds
from nearcal.diagnostics import described_regions, local_calibration, pit, pit_ecdf
from nearcal.distributions import Distribution
from nearcal.evaluation import evaluate
from nearcal.evaluation._judged import Metric
from nearcal.plots import pit_ecdf as plot_pit_ecdf
from nearcal.reporting import report
from nearcal.studies._drawing import new_figure
from nearcal.studies._reproduce import DPI
from nearcal.studies._training import Schedule
from nearcal.studies.diamonds._data import Data, split
from nearcal.studies.diamonds._figures import draw_panels
from nearcal.studies.diamonds._methods import for_figures
from nearcal.studies.diamonds._network import as_model, train_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS: list[Metric] = [
    "crps",
    "rmse",
    "interval_score",
    "coverage",
    "worst_region_coverage",
    "regional_coverage_error",
]
SCHEDULE = Schedule(epochs=8, batch_size=128, learning_rate=0.003)
COVERAGE = 0.95


def demo(out: Path | str | None = None, progress: bool = True, *, rows: int | None = None) -> Path:
    """Train a network on the diamonds, recalibrate it, and print what it got wrong before and after.

    Takes a minute or two. Needs the extra "studies".

    Parameters
    ----------
    out : path, optional
        The folder for figures and the report; None takes ``nearcal-demo``.
    progress : bool
        Whether to tell on standard error what is being done.
    rows : int, optional
        Number of diamonds; None takes all.

    Returns
    -------
    Path
        The folder.
    """
    import_extra("matplotlib", "studies", "demo")
    out = Path("nearcal-demo" if out is None else out)
    out.mkdir(parents=True, exist_ok=True)
    train, cal, new = split(0, rows)

    _tell(progress, f"Training a network on the prices of {len(train.y):,} diamonds")
    model = as_model(train_network(train, cal, SCHEDULE, seed=0))
    _tell(progress, f"Recalibrating it by its errors on {len(cal.y):,} others")
    calibrated = calibrate(model, cal.X, cal.y, progress=progress and sys.stderr.isatty())
    dists = {"before": calibrated.base(new.X), "after": calibrated.predict(new.X)}

    _tell(progress, f"Judging both on {len(new.y):,} more")
    print(f"{calibrated.reason}\n")
    print(f"Prices of {len(new.y):,} diamonds in dollars, 95% intervals, before and after recalibration:\n")
    print(evaluate(dists, new.y, space=new.X, metrics=METRICS))
    print("\nWhat is wrong where, in regions that were found on the other half of these diamonds:\n")
    print(diagnose(dists, new, len(cal.y)), end="\n\n")
    for name, figure in _draw(dists, new).items():
        with replacing(out / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=DPI)
        print(out / f"{name}.png")
    page, levels = out / "report.html", load_diamonds().categories
    report(
        dists,
        new.y,
        new.X,
        path=page,
        features=features(new),
        levels=levels,
        title="Prices of diamonds",
        response="price",
        n_cal=len(cal.y),
        coverage=COVERAGE,
        tuning=calibrated.tuning,
    )
    print(f"\nThe report, for a browser: {page.resolve().as_uri()}")
    return out


def _tell(progress: bool, message: str) -> None:
    if progress:
        print(f"{message} …", file=sys.stderr, flush=True)


def diagnose(dists: Mapping[str, Distribution], new: Data, n_cal: int) -> Table:
    """Return what is wrong with both in regions where the network is wrong in different ways."""
    levels = load_diamonds().categories
    regions = described_regions(dists["before"], new.y, features(new), levels=levels, coverage=COVERAGE)
    found = {
        name: local_calibration(
            dist, new.y, regions=regions, coverage=COVERAGE, n_cal=None if name == "before" else n_cal
        )
        for name, dist in dists.items()
    }
    columns: dict[str, Any] = {"region": regions.names, "diamonds": [len(rows) for rows in regions.rows]}
    for name, table in found.items():
        columns[f"coverage {name}"] = table["coverage"]
        columns[name] = table["finding"]
    return Table(columns)


def features(new: Data) -> dict[str, Any]:
    """Return the diamonds' columns as published, grades by name."""
    diamonds = load_diamonds()
    columns: dict[str, Any] = dict(zip(diamonds.feature_names, new.space.T, strict=True))
    for name, grades in diamonds.categories.items():
        columns[name] = np.array(grades)[columns[name].astype(np.int64)]
    return columns


def _draw(dists: Mapping[str, Distribution], new: Data) -> "dict[str, Figure]":
    """Return figure 5 of the paper, and the distribution of PIT values."""
    figure = new_figure(3.8, 3.2)
    tables = {name: pit_ecdf(pit(dist, new.y, rng=0)) for name, dist in dists.items()}
    plot_pit_ecdf(tables, figure.subplots())
    panels = for_figures({"base": dists["before"], "local": dists["after"]}, new)
    return {"diamonds": draw_panels(panels), "pit": figure}
