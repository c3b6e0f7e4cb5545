"""Sharpness against calibration."""

from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.plots._drawing import add_legend, as_axes, require_columns
from nearcal.plots._style import REFERENCE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = {
    "width": "Mean width of the intervals",
    "pce": "Probabilistic calibration error",
    "regional_coverage_error": "Regional coverage error",
    "crps": "CRPS",
    "interval_score": "Interval score",
}


def sharpness(
    table: Table, ax: "Axes | None" = None, *, x: str = "width", y: str = "pce", floor: float | None = None
) -> "Axes":
    """Draw one metric of :func:`nearcal.evaluate` against another: by default sharpness against calibration.

    Both are better when smaller: the best methods are at the lower left.

    Parameters
    ----------
    table : Evaluation
        From :func:`nearcal.evaluate`, with both metrics.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    x, y : str
        Metrics on the two axes; "regional_coverage_error" as y tells local calibration from marginal.
    floor : float, optional
        What a perfectly calibrated forecast would show, such as :func:`nearcal.diagnostics.pce_floor` of n: a line.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> observed = np.random.default_rng(1).normal(size=300)
    >>> dists = {"wide": nc.Normal(np.zeros(300), 2.0), "right": nc.Normal(np.zeros(300), 1.0)}
    >>> table = nc.evaluate(dists, observed, metrics=["width", "pce"])
    >>> nc.plots.sharpness(table, floor=nc.diagnostics.pce_floor(300)).get_xlabel()
    'Mean width of the intervals'
    """
    require_columns(table, ("metric", "method", "value", "se"), "evaluate")
    ax = as_axes(ax)
    across, up = (_select(table, metric) for metric in (x, y))
    for index, method in enumerate(across):
        look, (value_x, error_x), (value_y, error_y) = style(index), across[method], up[method]
        looks: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 6, "linestyle": "none"}
        ax.errorbar(value_x, value_y, error_y, error_x, **looks, markerfacecolor="white", label=method)
    if floor is not None:
        ax.axhline(floor, color=REFERENCE, linewidth=0.8, linestyle=":", label="perfect forecast")
    ax.set(xlabel=_NAMES.get(x, x), ylabel=_NAMES.get(y, y))
    ax.set_ylim(bottom=0)
    add_legend(ax)
    return ax


def _select(table: Table, metric: str) -> dict[str, tuple[float, float]]:
    """Return the value and standard error of a metric by method."""
    rows = {row["method"]: (row["value"], np.nan_to_num(row["se"])) for row in table if row["metric"] == metric}
    if not rows:
        known = ", ".join(dict.fromkeys(table["metric"].tolist()))
        raise InvalidInputError(f"table must hold the metric {metric!r}, it has {known}; ask nearcal.evaluate for it")
    return rows
