"""Limits of features in words: "carat > 1.9 and clarity ≤ SI2"."""

from collections.abc import Mapping, Sequence

import numpy as np

from nearcal.diagnostics._features import Feature

Limits = tuple[float, float] | frozenset[int]  # low < value <= high, or one of these levels

EVERYWHERE = "all rows"
_SHOWN_LEVELS = 4


def describe_limits(limits: Mapping[int, Limits], columns: Sequence[Feature]) -> str:
    """Join the limits of features, given by their places; none are all rows."""
    return " and ".join(_condition(columns[j], limits[j]) for j in sorted(limits)) or EVERYWHERE


def _condition(column: Feature, limit: Limits) -> str:
    if not isinstance(limit, tuple):
        return _set_condition(column, limit)
    if column.levels is not None:
        return _graded_condition(column.name, column.levels, limit)
    low, high = (f"{end:.15g}" for end in limit)
    if limit[0] == -np.inf:
        return f"{column.name} ≤ {high}" + (" or missing" if np.isnan(column.values).any() else "")
    return f"{column.name} > {low}" if limit[1] == np.inf else f"{low} < {column.name} ≤ {high}"


def _graded_condition(name: str, levels: tuple[str, ...], limit: tuple[float, float]) -> str:
    first, last = max(0, int(max(limit[0], -1)) + 1), int(min(limit[1], len(levels) - 1))
    if first == last:
        return f"{name} = {levels[first]}"
    if first == 0:
        return f"{name} ≤ {levels[last]}"
    return f"{name} ≥ {levels[first]}" if last == len(levels) - 1 else f"{levels[first]} ≤ {name} ≤ {levels[last]}"


def _set_condition(column: Feature, chosen: frozenset[int]) -> str:
    levels = column.levels or ()
    inside = [level for code, level in enumerate(levels) if code in chosen]
    if len(inside) == 1:
        return f"{column.name} = {inside[0]}"
    rest = [level for code, level in enumerate(levels) if code not in chosen]
    if len(rest) == 1 and len(inside) > 2:
        return f"{column.name} ≠ {rest[0]}"
    shown, more = inside[:_SHOWN_LEVELS], len(inside) - _SHOWN_LEVELS
    return f"{column.name} in {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")
