"""Choosing where to look for neighbours, how many to ask and how to weigh them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.stats import kstest

from nearcal._arrays import FloatArray, as_response, as_space, check_choice, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution
from nearcal.neighbors import NeighborIndex, build_index
from nearcal.recalibration._adjustment import ADJUSTMENTS, Adjustment
from nearcal.recalibration._base import calibration_scores, require_distribution
from nearcal.recalibration._chunks import Progress, Workers, check_workers
from nearcal.recalibration._left_out import View, cross_fitted_views
from nearcal.scaling import SCALINGS, Scaling, is_constant
from nearcal.scores import crps
from nearcal.smoothing import SMOOTHINGS, Smoothing
from nearcal.tuning._candidates import Candidate, SearchSpace
from nearcal.tuning._choice import RULES, Comparison, Rule
from nearcal.tuning._leave_one_out import LeaveOneOut
from nearcal.tuning._moved import Scores, adjusted_scores, shrunk_scores
from nearcal.tuning._tuning import Tuning, conclude

DEFAULT_K = (10, 20, 50, 100, 200, 500, 1000)
_UNIFORM_ENOUGH = 0.05  # p-value of PIT values below which a model is not taken for calibrated overall


def tune(
    dist_cal: Distribution,
    y_cal: Any,
    spaces: Any,
    *,
    k: int | Sequence[int] = DEFAULT_K,
    smoothings: Smoothing | Sequence[Smoothing] = ("biweight", "epanechnikov"),
    scalings: Scaling | Sequence[Scaling] = ("standard", "whiten", "relevance"),
    components: int | Sequence[int | None] | None = None,
    adjustments: Adjustment | Sequence[Adjustment] = ("none", "linear"),
    shrinkage: bool | Sequence[bool] = (False, True),
    rule: Rule = "two-standard-errors",
    threads: int | None = None,
    memory: int = 2**28,
    progress: Progress = False,
) -> Tuning:
    """Choose how to recalibrate by the leave-one-out CRPS of the calibration set.

    Every calibration row is recalibrated by the others, under every candidate, and scored by its own response.
    Candidates are all combinations of the options below, and always also no recalibration and global recalibration, so
    that a good model is left alone.

    Parameters
    ----------
    dist_cal : Distribution
        Predictive distributions of the n calibration points, which the model was not trained on.
    y_cal : array_like of shape (n,) or (n, 1)
        What was observed.
    spaces : mapping of str to array_like of shape (n, d), or one array
        Where the points are, by the name of the space: inputs, layers of a network. One array is named "space".
    k : int or sequence of int
        Numbers of neighbours. Those above n - 1 are left out; of those given at least one must remain.
    smoothings, scalings : str or sequence of str
        As in :class:`LocalRecalibrator`.
    components : int, None or a sequence of them
        Numbers of principal components to keep, None for all, as are numbers not below a space's width.
    adjustments : {"none", "linear"} or a sequence of them
        Whether neighbours' scores are adjusted to the row. Adjusted neighbourhoods are tried in the three best spaces.
    shrinkage : bool or sequence of bool
        Whether neighbourhoods are shrunk; tried for the two best local candidates.
    rule : {"two-standard-errors", "one-standard-error", "best"}
        "best" takes the smallest mean CRPS. The others take, of all candidates whose paired difference from the best is
        within that many standard errors of the difference, or within a five-hundredth of the best's score, the
        simplest: no recalibration, unless a Kolmogorov-Smirnov test rejects at the 5% level that PIT values are
        uniform; else global, if it scores better than none; else the best. Two errors, since the best of a hundred
        candidates owes something to chance.
    threads, memory, progress
        As in :class:`LocalRecalibrator`. Beside ``memory``, one number a candidate and row is held.

    Returns
    -------
    Tuning
        The choice, the reason, and a table of all candidates.

    Notes
    -----
    Neighbours are searched once in every scaled space, at the largest k; smaller neighbourhoods are parts of that one.
    The score of a row is that of the step rule, to rounding (to 1e-9 where quantiles have no formula) the same as
    after fitting on the other n - 1 rows, but for some liberties:

    - standard deviations, principal components and the variances behind shrinkage are learnt once, from all n rows or
      2,000 of them;
    - relevance, which looks at scores, is learnt five times, each time without a fifth of the rows, which are scored in
      the space so learnt;
    - in global recalibration of more than 2,001 rows whose distributions differ in more than location and scale, 2,000
      scores at evenly spaced ranks stand for all;
    - of the moved scores of more than 50 neighbours, 50 quantiles stand for all where quantiles have no formula.

    Candidates with adjustment or shrinkage take a sort for each row, so few are scored: of those with adjustment, where
    there are more than 1,000 rows, the three best on 1,000 of them. The table holds what was scored on all rows.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = rng.normal(x[:, 0], np.exp(2 * x[:, 1]))
    >>> tuning = nc.tune(nc.Normal(x[:, 0], 1.0), y, {"both": x, "useless": x[:, :1]})
    >>> tuning.chosen.space
    'both'
    >>> rc = tuning.recalibrator().fit(nc.Normal(x[:, 0], 1.0), y, x)
    """
    dist = require_distribution(dist_cal, "dist_cal")
    z = calibration_scores(dist, y_cal)
    y = as_response(y_cal, len(z), "y_cal")
    if len(y) < 2:
        raise InvalidInputError(f"y_cal must have at least 2 responses, to leave one out, got {len(y)}")
    positions = _as_spaces(spaces, len(y))
    check_choice(rule, RULES, "rule")
    check_workers(threads, memory, progress)
    sizes = sorted({check_count(size, "k") for size in _several(k, "k")}, reverse=True)
    if k is not DEFAULT_K and sizes[-1] >= len(y):
        raise InvalidParameterError(
            f"k must be below the number of calibration points, {len(y)}, to leave one out, got {sizes[-1]} at least"
        )
    sizes = [size for size in sizes if size < len(y)]
    kernels = _choices(smoothings, SMOOTHINGS, "smoothings")
    moves = _choices(adjustments, ADJUSTMENTS, "adjustments")
    blends = _choices(shrinkage, (False, True), "shrinkage")
    searches = _searches(positions, _choices(scalings, SCALINGS, "scalings"), _several(components, "components"))

    def build(points: FloatArray) -> NeighborIndex:
        return build_index(points, "euclidean", "auto", sizes[0] + 1)

    def view(search: SearchSpace) -> list[View]:
        return cross_fitted_views(search.scaling, positions[search.space], search.components, z, build)

    workers = Workers(threads, memory, progress, "tuning")
    searches = searches if sizes else []
    with ThreadPoolExecutor(workers.count()) as pool:
        views = dict(zip(searches, pool.map(view, searches), strict=True))
    leave_one_out = LeaveOneOut(dist, y, z, workers)
    everyone, plain = leave_one_out.crps(list(views.values()), sizes, kernels)
    names = [candidate for search in views for candidate in search.candidates(sizes, kernels)]
    local: Scores = dict(zip(names, plain.reshape(-1, len(y)), strict=True))
    adjusted = adjusted_scores(local, views, sizes, leave_one_out) if "linear" in moves else {}
    local = {**(local if "none" in moves else {}), **adjusted}
    shrunk = shrunk_scores(local, views, leave_one_out) if True in blends else {}
    local = {**(local if False in blends else {}), **shrunk}
    scored = {Candidate("none"): crps(dist, y), Candidate("global"): everyone, **local}
    is_calibrated = float(kstest(z, "norm").pvalue) >= _UNIFORM_ENOUGH
    return conclude(list(scored), Comparison.of(np.array(list(scored.values()))), rule, is_calibrated)


def _as_spaces(spaces: Any, n: int) -> dict[str, FloatArray]:
    named = spaces if isinstance(spaces, Mapping) else {"space": spaces}
    if not named:
        raise InvalidInputError('spaces must name at least one space, such as {"input": X}, got an empty mapping')
    return {str(name): as_space(space, f"spaces[{name!r}]", n) for name, space in named.items()}


def _several(value: Any, name: str) -> list[Any]:
    """Return one option or a sequence of them as a list without repetitions."""
    values = [value] if value is None or isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
    if not values:
        raise InvalidParameterError(f"{name} must hold at least one option, got none")
    return list(dict.fromkeys(values))


def _choices(values: Any, known: Sequence[Any], name: str) -> list[Any]:
    chosen = _several(values, name)
    for value in chosen:
        check_choice(value, known, name)
    return chosen


def _searches(
    positions: Mapping[str, FloatArray], scalings: Sequence[Scaling], components: Sequence[int | None]
) -> list[SearchSpace]:
    for number in components:
        if number is not None:
            check_count(number, "components")
    searches = [
        SearchSpace(space, scaling, None if number is None or number >= table.shape[1] else number)
        for space, table in positions.items()
        for scaling in scalings
        for number in components
        if _is_worth_trying(scaling, scalings, table)
    ]
    return list(dict.fromkeys(searches))


def _is_worth_trying(scaling: Scaling, scalings: Sequence[Scaling], table: FloatArray) -> bool:
    """Tell whether a scaling can be learnt from a space, and is not another one under a different name."""
    if scaling not in ("whiten", "relevance"):
        return True
    is_standard = table.shape[1] == 1 and "standard" in scalings
    return not is_standard and not is_constant(table).all()
