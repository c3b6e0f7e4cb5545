"""The diamonds, short: a network is trained and recalibrated; what it got wrong before and after, in words."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._optional import import_extra
from nearcal._table import Table
from nearcal.calibrated import calibrate
from nearcal.diagnostics import local_calibration, pit, pit_ecdf
from nearcal.diagnostics._regions import kmeans_regions
from nearcal.distributions import Distribution
from nearcal.evaluation import evaluate
from nearcal.evaluation._judged import Metric
from nearcal.persistence._atomic import replacing
from nearcal.plots import pit_ecdf as plot_pit_ecdf
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
REGIONS = 8


def demo(out: Path | str | None = None, progress: bool = True, *, rows: int | None = None) -> Path:
    """Train a network on the diamonds, recalibrate it, and print what it got wrong before and after.

    Takes a minute or two. Needs the extra "studies".

    Parameters
    ----------
    out : path, optional
        The folder for figures and, where it can be made, the report; None takes ``nearcal-demo``.
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
    print("\nWhat is wrong where: groups of like diamonds, from light to heavy\n")
    print(diagnose(dists, new, len(cal.y)), end="\n\n")
    for name, figure in _draw(dists, new).items():
        with replacing(out / f"{name}.png") as file:
            figure.savefig(file, format="png", dpi=DPI)
        print(out / f"{name}.png")
    return out


def _tell(progress: bool, message: str) -> None:
    if progress:
        print(f"{message} …", file=sys.stderr, flush=True)


def diagnose(dists: Mapping[str, Distribution], new: Data, n_cal: int) -> Table:
    """Return what is wrong with both in groups of like diamonds, from light to heavy."""
    regions = kmeans_regions(new.X, REGIONS, rng=0)
    found = {
        "before": local_calibration(dists["before"], new.y, regions=regions),
        "after": local_calibration(dists["after"], new.y, regions=regions, n_cal=n_cal),
    }
    columns: dict[str, Any] = {
        "diamonds": [len(rows) for rows in regions.rows],
        "median price": [round(float(np.median(new.y[rows]))) for rows in regions.rows],
    }
    for name, table in found.items():
        columns[f"coverage {name}"] = table["coverage"]
        columns[name] = table["finding"]
    return Table(columns)


def _draw(dists: Mapping[str, Distribution], new: Data) -> "dict[str, Figure]":
    """Return figure 5 of the paper, and the distribution of PIT values."""
    figure = new_figure(3.8, 3.2)
    tables = {name: pit_ecdf(pit(dist, new.y, rng=0)) for name, dist in dists.items()}
    plot_pit_ecdf(tables, figure.subplots())
    panels = for_figures({"base": dists["before"], "local": dists["after"]}, new)
    return {"diamonds": draw_panels(panels), "pit": figure}
