"""Reliability: the share of observations below predicted quantiles, or in predicted intervals, against its level."""

from typing import Any, Literal, get_args

import numpy as np

from nearcal._arrays import check_choice
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.diagnostics._uniformity import as_pit
from nearcal.distributions.base import as_levels, interval_levels

ReliabilityKind = Literal["quantile", "interval"]
_LEVELS = np.concatenate([[0.01, 0.025, 0.05], np.arange(1, 10) / 10, [0.95, 0.975, 0.99]])


def reliability(
    p: Any, levels: Any = _LEVELS, *, kind: ReliabilityKind = "quantile", confidence: float = 0.95
) -> Table:
    """Return the observed share of what is predicted to happen with probability ``level``.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values in [0, 1].
    levels : array_like of shape (q,)
        Nominal levels, strictly between 0 and 1.
    kind : {"quantile", "interval"}
        The share of observations below the predicted quantile of that level, or inside the central interval of that
        coverage.
    confidence : float
        Level of the confidence limits, each level by itself.

    Returns
    -------
    Table
        ``level``, the share ``observed``, and its exact (Clopper-Pearson) confidence limits ``lower`` and ``upper``.

    Examples
    --------
    >>> import nearcal as nc
    >>> print(nc.diagnostics.reliability([0.1, 0.2, 0.3, 0.9], [0.25, 0.5]))
    level  observed    lower   upper
     0.25       0.5  0.06759  0.9324
      0.5      0.75   0.1941  0.9937
    """
    values = as_pit(p)
    check_choice(kind, get_args(ReliabilityKind), "kind")
    level = np.atleast_1d(as_levels(levels))
    if level.ndim > 1 or not ((level > 0) & (level < 1)).all():
        raise InvalidInputError(f"levels must be numbers strictly between 0 and 1, shape (q,), got {levels!r}")
    depth = values if kind == "quantile" else np.sort(np.abs(2 * values - 1))
    count = np.searchsorted(depth, level, side="right")
    lower, upper = clopper_pearson(count, len(values), confidence)
    return Table({"level": level, "observed": count / len(values), "lower": lower, "upper": upper})


def clopper_pearson(count: Any, n: Any, confidence: float) -> tuple[Any, Any]:
    """Return exact confidence limits of probabilities, given the number of successes among n."""
    from scipy.special import betaincinv

    low, high = interval_levels(confidence)
    lower = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1, low), 0.0)
    upper = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), high), 1.0)
    return lower, upper
