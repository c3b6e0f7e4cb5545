"""PIT histograms, overall and by region, the empirical cdf of PIT values, and the reliability diagram."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._table import Table
from nearcal.reporting.plots._drawing import (
    BAND,
    BAND_EDGE,
    BAND_NAME,
    REFERENCE,
    Tables,
    add_legend,
    as_axes,
    as_named,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = ("left", "right", "density", "lower", "upper")
_GAP = 0.15  # between the histograms of two regions, in units of a histogram


def pit_histogram(table: Tables, ax: "Axes | None" = None) -> "Axes":
    """Draw PIT histograms over the band that uniform values stay in.

    A hump means predictions too wide, a bowl too narrow, a slope too low (mass on the right) or too high.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.pit_histogram`. One is drawn as bars, several as outlines by name; each distinct
        band is drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> p = np.random.default_rng(1).uniform(size=500)
    >>> ax = nc.plots.pit_histogram(nc.diagnostics.pit_histogram(p))
    >>> ax.get_xlabel()
    'PIT value'
    """
    named = as_named(table, _COLUMNS, "diagnostics.pit_histogram")
    ax = as_axes(ax)
    _draw_bands(ax, list(named.values()))
    for index, (name, one) in enumerate(named.items()):
        _draw_histogram(ax, one["left"], one["right"], one["density"], index, name, filled=len(named) == 1)
    ax.axhline(1.0, color=REFERENCE, linewidth=0.8, linestyle=":")
    ax.set(xlabel="PIT value", ylabel="Density", xlim=(0, 1))
    ax.set_ylim(bottom=0)
    add_legend(ax)
    return ax


def local_pit_histograms(table: Tables, ax: "Axes | None" = None, *, labels: Any = None) -> "Axes":
    """Draw the PIT histogram of every region side by side, each over its own band.

    Parameters
    ----------
    table : Table or mapping of str to Table
        From :func:`nearcal.diagnostics.local_pit_histograms`. One is drawn as bars, several as outlines by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a figure one column wide.
    labels : sequence of str, optional
        What to call the regions, in the order of the table; None takes their names.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> p = np.random.default_rng(1).uniform(size=500)
    >>> ax = nc.plots.local_pit_histograms(nc.diagnostics.local_pit_histograms(p, p < 0.5))
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['False', 'True']
    """
    named = as_named(table, ("region", *_COLUMNS), "diagnostics.local_pit_histograms")
    ax = as_axes(ax)
    first = next(iter(named.values()))
    regions = list(dict.fromkeys(first["region"].tolist()))
    for place, region in enumerate(regions):
        _draw_region(ax, named, region, place * (1 + _GAP), is_first=place == 0)
    ax.axhline(1.0, color=REFERENCE, linewidth=0.8, linestyle=":")
    names = [str(region) for region in regions] if labels is None else list(labels)
    ax.set_xticks([place * (1 + _GAP) + 0.5 for place in range(len(regions))], names)
    ax.tick_params(axis="x", length=0)
    ax.set(xlabel="Region (PIT from 0 to 1 in each)", ylabel="Density", ylim=(0, None))
    add_legend(ax)
    return ax


def _draw_region(ax: "Axes", named: dict[str, Table], region: Any, shift: float, *, is_first: bool) -> None:
    parts = [_select(table, region, shift) for table in named.values()]
    _draw_bands(ax, parts, named=is_first)
    for index, (name, part) in enumerate(zip(named, parts, strict=True)):
        label = name if is_first else ""
        _draw_histogram(ax, part["left"], part["right"], part["density"], index, label, filled=len(named) == 1)
    if not is_first:
        ax.axvline(shift - _GAP / 2, color=BAND, linewidth=0.5)


def _select(table: Table, region: Any, shift: float) -> Table:
    """Return one region's histogram, moved to its place."""
    rows = np.array([name == region for name in table["region"].tolist()])
    columns = {name: table[name][rows] for name in _COLUMNS}
    return Table({**columns, "left": columns["left"] + shift, "right": columns["right"] + shift})


def _draw_bands(ax: "Axes", tables: list[Table], *, named: bool = True) -> None:
    """Draw the bands, one where all are the same."""
    ends = [tables[0]["left"][0], tables[0]["right"][-1]]
    looks: dict[str, Any] = {"facecolor": BAND, "edgecolor": BAND_EDGE, "linewidth": 0.8}
    bands = dict.fromkeys((float(table["lower"][0]), float(table["upper"][0])) for table in tables)
    for place, (lower, upper) in enumerate(bands):
        label = BAND_NAME if named and place == 0 else "_band"
        ax.fill_between(ends, lower, upper, zorder=0.5, label=label, **looks)


def _draw_histogram(
    ax: "Axes", left: FloatArray, right: FloatArray, density: FloatArray, index: int, name: str, *, filled: bool
) -> None:
    look, label = style(index), name or "_histogram"
    edges = np.append(left, right[-1])
    if filled:  # see-through, so that the band stays visible behind the bars
        ax.stairs(density, edges, fill=True, color=look.color, alpha=0.35, linewidth=0)
    ax.stairs(density, edges, color=look.color, linestyle=look.line, linewidth=1.3, baseline=None, label=label)


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
