"""Plots over probability levels: the empirical cdf of PIT values, and the reliability diagram."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nearcal.plots._drawing import Tables, add_legend, as_axes, as_named
from nearcal.plots._style import BAND, BAND_EDGE, BAND_NAME, REFERENCE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pit_ecdf(table: Tables, ax: "Axes | None" = None, *, difference: bool = True) -> "Axes":
    """Draw the empirical cdf of PIT values over the band that all of it stays in if they are uniform.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.pit_ecdf`; each distinct band is drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    difference : bool
        Draw the cdf less that of uniform values, which shows more; False draws the cdf itself.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> p = np.random.default_rng(1).uniform(size=500)
    >>> nc.plots.pit_ecdf({"base": nc.diagnostics.pit_ecdf(p)}).get_ylabel()
    'ECDF - uniform'
    """
    named = as_named(table, ("u", "ecdf", "lower", "upper"), "diagnostics.pit_ecdf")
    ax = as_axes(ax)
    bands = {(*one["u"], *one["lower"], *one["upper"]): one for one in named.values()}
    looks: dict[str, Any] = {"facecolor": BAND, "edgecolor": BAND_EDGE, "linewidth": 0.8}
    for place, one in enumerate(bands.values()):
        base, label = one["u"] if difference else 0.0, "_band" if place else BAND_NAME
        lower, upper = one["lower"] - base, one["upper"] - base
        ax.fill_between(one["u"], lower, upper, zorder=0.5, label=label, **looks)
    for index, (name, one) in enumerate(named.items()):
        look, base = style(index), one["u"] if difference else 0.0
        ax.plot(one["u"], one["ecdf"] - base, color=look.color, linestyle=look.line, label=name or "_ecdf")
    ax.plot([0, 1], [0, 0] if difference else [0, 1], color=REFERENCE, linewidth=0.8, linestyle=":")
    ax.set(xlabel="PIT value", ylabel="ECDF - uniform" if difference else "ECDF", xlim=(0, 1))
    add_legend(ax)
    return ax


def reliability(
    table: Tables, ax: "Axes | None" = None, *, kind: Literal["quantile", "interval"] = "quantile"
) -> "Axes":
    """Draw observed shares against nominal levels, with confidence limits; a reliable forecast is on the diagonal.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.reliability`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    kind : {"quantile", "interval"}
        What the levels are, for the labels of the axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> p = np.random.default_rng(1).uniform(size=500)
    >>> nc.plots.reliability(nc.diagnostics.reliability(p)).get_xlabel()
    'Nominal level of the quantile'
    """
    named = as_named(table, ("level", "observed", "lower", "upper"), "diagnostics.reliability")
    ax = as_axes(ax)
    ax.plot([0, 1], [0, 1], color=REFERENCE, linewidth=0.8, linestyle=":")
    for index, (name, one) in enumerate(named.items()):
        look, bars = style(index), np.stack([one["observed"] - one["lower"], one["upper"] - one["observed"]])
        looks: dict[str, Any] = {"color": look.color, "linestyle": look.line, "linewidth": 1, "marker": look.marker}
        looks |= {"markersize": 4, "markerfacecolor": "white", "label": name or "_shares"}
        ax.errorbar(one["level"], one["observed"], bars, **looks)
    words = {"quantile": ("level of the quantile", "share below"), "interval": ("coverage", "coverage")}[kind]
    ax.set(xlabel=f"Nominal {words[0]}", ylabel=f"Observed {words[1]}", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    add_legend(ax)
    return ax
