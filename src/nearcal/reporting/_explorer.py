"""What the explorer of the page needs to know of every row, small enough to travel in the page."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray
from nearcal.diagnostics.features import Feature
from nearcal.diagnostics.local import calibration_columns, local_figures, neighborhood_means
from nearcal.diagnostics.regions import standardize
from nearcal.distributions import Distribution
from nearcal.reporting._judgement import Observed
from nearcal.space import Scaling

SCORES = np.linspace(-2.5, 2.5, 11)  # normal scores of the quantiles that densities are drawn from
DIMENSIONS = 12  # of the space that neighbours are searched in; more are reduced to principal components
LARGEST = 1e300  # beyond, the length of an axis may be more than any number
_AXES = 24  # features that can be chosen as axes
_MOST_DISTINCT = 4096  # beyond, a list of values is longer than the values themselves
_STEPS = 2**16 - 1
_EXTREMES = 0.02  # share of rows beyond the ends of a colour scale


def can_be_drawn(y: FloatArray, features: Sequence[Feature]) -> bool:
    """Tell whether the map can show numbers as large as these."""
    columns = [y, *(feature.values for feature in features)]
    return all(np.nanmax(np.abs(values), initial=0.0) < LARGEST for values in columns)


def choose_k(n: int) -> int:
    """Return the size of a neighbourhood: 2% of the rows, within what is still local and what still says something."""
    return min(n, int(np.clip(n / 50, 50, 300)))


def explorer_data(
    dists: Mapping[str, Distribution],
    observed: Sequence[Observed],
    y: FloatArray,
    features: Sequence[Feature],
    space: FloatArray,
    rows: IntArray,
    *,
    k: int,
    axes: Sequence[str],
    response: str,
) -> dict[str, Any]:
    """Return names, numbers and packed arrays of the chosen rows; ``axes`` are the features to start with."""
    points, kept = _positions(space[rows])
    columns = np.column_stack([calibration_columns(one.z[rows], one.covered[rows]) for one in observed])
    means, _ = neighborhood_means(points, k, columns)
    local = [local_figures(means[:, 3 * j : 3 * j + 3]) for j in range(len(observed))]
    offered = _offered(features, axes)
    shown = [_axis(feature, rows) for feature in offered] + _components(points)
    return {
        "n": len(rows),
        "total": len(y),
        "k": k,
        "coverage": observed[0].coverage,
        "response": response,
        "methods": list(dists),
        "rows": pack(rows, "uint32"),
        "y": pack_numbers(y[rows]),
        "axes": shown,
        "start": _start(offered, axes, len(shown)),
        "dimensions": points.shape[1],
        "columns": space.shape[1],
        "kept": kept,
        "space": [pack_scaled(column, column.min(), column.max()) for column in points.T],
        "pit": [pack_scaled(one.pit[rows], 0.0, 1.0) for one in observed],
        "local": _local_figures(local, observed[0].coverage),
        "scores": SCORES.tolist(),
        **_quantiles([dist[rows] for dist in dists.values()], observed[0].coverage),
    }


def _positions(space: FloatArray) -> tuple[FloatArray, float]:
    """Return scaled positions, of principal components where there are many columns, and the variance they keep."""
    scaled = standardize(space)
    if space.shape[1] <= DIMENSIONS:
        return scaled, 1.0
    reduced = Scaling("none", DIMENSIONS).learn(scaled)(scaled)
    return reduced, float(reduced.var(axis=0).sum() / max(scaled.var(axis=0).sum(), 1e-300))


def _offered(features: Sequence[Feature], axes: Sequence[str]) -> list[Feature]:
    """Return the features that can be chosen, in their order: those of the regions, and the first others."""
    others = [feature.name for feature in features if feature.name not in axes]
    names = {*axes, *others[: max(0, _AXES - len(axes))]}
    return [feature for feature in features if feature.name in names]


def _start(offered: Sequence[Feature], axes: Sequence[str], count: int) -> list[int]:
    """Choose the axes to start with: what cuts regions first, and of the others what tells most beside it."""
    used = [j for j, feature in enumerate(offered) if feature.name in axes]
    used.sort(key=lambda j: axes.index(offered[j].name))
    if len(used) > 1:
        return [used[0], min(used[1:], key=lambda j: _dependence(offered[used[0]], offered[j]))]
    others = [j for j in (*range(len(offered), count), *range(len(offered))) if j not in used]
    return ([*used, *others] * 2)[:2]


def _dependence(first: Feature, second: Feature) -> float:
    both = ~(np.isnan(first.values) | np.isnan(second.values))
    a, b = (np.argsort(np.argsort(feature.values[both], kind="stable")) for feature in (first, second))
    return float(abs(np.corrcoef(a, b)[0, 1])) if both.sum() > 1 else 1.0


def _axis(feature: Feature, rows: IntArray) -> dict[str, Any]:
    values = feature.values[rows]
    if feature.levels is None:
        return {"name": feature.name, **pack_numbers(values)}
    count = len(feature.levels)
    kind = "uint8" if count <= 2**8 else "uint16" if count <= 2**16 else "uint32"
    return {"name": feature.name, "levels": list(feature.levels), **pack(values, kind)}


def _components(points: FloatArray) -> list[dict[str, Any]]:
    """Return the principal components of the space as axes, where there is something to reduce."""
    if points.shape[1] < 3:
        return []
    components = Scaling("none", 2).learn(points)(points)
    return [
        {"name": f"principal component {j + 1}", "isComponent": True, **pack_scaled(column, column.min(), column.max())}
        for j, column in enumerate(components.T)
    ]


def _local_figures(local: Sequence[Mapping[str, FloatArray]], coverage: float) -> dict[str, Any]:
    """Pack the local figures of all methods on common scales, so that colours can be compared."""
    bias = _extreme([one["mean_z"] for one in local], 0.3)
    spread = _extreme([np.log2(np.maximum(one["std_z"], 2.0**-4)) for one in local], 0.5)
    gap = _extreme([np.minimum(one["coverage"] - coverage, 0.0) for one in local], 0.1)
    return {
        "bias": {"end": bias, "figures": [pack_scaled(one["mean_z"], -5.0, 5.0) for one in local]},
        "spread": {"end": spread, "figures": [pack_scaled(one["std_z"], 0.0, 5.0) for one in local]},
        "coverage": {"end": min(gap, coverage), "figures": [pack_scaled(one["coverage"], 0.0, 1.0) for one in local]},
    }


def _extreme(values: Sequence[FloatArray], least: float) -> float:
    return max(least, float(np.quantile(np.abs(np.concatenate(values)), 1 - _EXTREMES)))


def _quantiles(dists: Sequence[Distribution], coverage: float) -> dict[str, Any]:
    """Pack quantiles and interval ends of each row in steps between its own least and largest."""
    quantiles = np.stack([dist.ppf(ndtr(SCORES)) for dist in dists], axis=1)  # (n, methods, scores)
    ends = np.stack([np.column_stack(dist.interval(coverage)) for dist in dists], axis=1)
    both = np.concatenate([quantiles, ends], axis=2).reshape(len(quantiles), -1)
    known = np.abs(both) < LARGEST
    low = np.where(known, both, np.inf).min(axis=1)
    high = np.where(known, both, -np.inf).max(axis=1)
    low, high = (np.where(known.any(axis=1), end, 0.0) for end in (low, high))
    packed = {"low": pack_floats(low), "high": pack_floats(high)}
    low, high = (end.astype(packed[name]["kind"]).astype(np.float64) for name, end in (("low", low), ("high", high)))
    span = np.where(high > low, high - low, 1.0)[:, np.newaxis]
    share = np.clip((np.clip(both, -LARGEST, LARGEST) - low[:, np.newaxis]) / span, 0.0, 1.0)
    return {**packed, "quantiles": pack_scaled(share, 0.0, 1.0)}


# ---- arrays as text: typed, little-endian, base64; what `page/arrays.js` unpacks ------------------------------------


def pack(array: NDArray[Any], kind: str) -> dict[str, Any]:
    """Pack an array as it is, in C order; kind is uint8, uint16, uint32, float32 or float64."""
    data = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<"))
    return {"kind": kind, "data": b64encode(data.tobytes()).decode("ascii")}


def pack_scaled(values: FloatArray, low: float, high: float) -> dict[str, Any]:
    """Pack numbers as 65,535 steps from low to high; what lies beyond is moved to the end."""
    span = high - low if high > low else 1.0
    steps = np.clip(np.rint((values - low) / span * _STEPS), 0, _STEPS)
    return {**pack(steps, "uint16"), "low": float(low), "high": float(low + span)}


def pack_floats(values: FloatArray) -> dict[str, Any]:
    """Pack numbers to seven digits, or as they are where float32 has no such numbers."""
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    fits = not len(size) or (size.min() > np.finfo(np.float32).tiny and size.max() < np.finfo(np.float32).max)
    return pack(values, "float32" if fits else "float64")


def pack_numbers(values: FloatArray) -> dict[str, Any]:
    """Pack numbers so that they read as they were: places in a list if few differ, else to seven digits."""
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) > _MOST_DISTINCT:
        return pack_floats(values)
    listed = [None if np.isnan(value) else value for value in distinct.tolist()]
    return {**pack(place, "uint8" if len(distinct) <= 256 else "uint16"), "values": listed}
