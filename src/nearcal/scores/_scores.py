"""Scores of the density, the mean, quantiles and intervals, and the divergence from a known truth."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array, as_response, require_sized
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import log_normal_density
from nearcal.distributions import Distribution, check_coverage, require_distribution
from nearcal.distributions.base import overflow_is_infinite
from nearcal.distributions.interpolation import add_up
from nearcal.scores.arrays import score_interval

# Over normal scores the trapezoidal rule converges faster than any power of the step.
_STEP = 1 / 64  # finer than smooth densities need, to tell the jumps of rough ones apart
_REACH = 10.0
_JUMP = 0.01  # of the rises on either side, by which that of a smooth ratio does not differ from their mean
_ROUNDING = 1e-9
_HALVINGS = 10  # of a cell with a jump, after which a thousandth of it is left


def log_score(dist: Distribution, y: Any) -> FloatArray:
    """Return the logarithmic score -log f(y) of every observation; lower is better.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.

    Returns
    -------
    ndarray of shape (n,)
        Infinite where the density is zero.

    Notes
    -----
    The density is the derivative of the cdf: rough where a distribution is made of many draws, and its log score
    measures that roughness too. A distribution with atoms has no density and raises its own error. The CRPS exists for
    all of them.

    References
    ----------
    I. J. Good, *Rational decisions*, JRSS B 14 (1952), doi:10.1111/j.2517-6161.1952.tb00104.x.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.log_score(nc.Normal(0.0, 1.0), [0.0]).round(4)
    array([0.9189])
    """
    dist = require_distribution(dist, "dist")
    return -dist.logpdf(as_response(y, len(dist), "y"))


def squared_error(dist: Distribution, y: Any) -> FloatArray:
    """Return (y - mean)² of every observation; lower is better.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed, or a known true mean.

    Returns
    -------
    ndarray of shape (n,)
        NaN where the predictive distribution has no mean.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.squared_error(nc.Gamma([1.0, 4.0], 1.0), [3.0, 3.0])
    array([4., 1.])
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    with overflow_is_infinite():
        return (response - dist.mean()) ** 2


def pinball(dist: Distribution, y: Any, p: Any) -> FloatArray:
    """Return the pinball (quantile, check) loss of the predicted quantiles; lower is better.

    (1{y < q} - p) (q - y), with q the quantile at level p. The CRPS is twice its integral over p.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    p : array_like
        Levels: a scalar, or (q,).

    Returns
    -------
    ndarray
        Shape (n,) for a scalar p, else (n, q).

    References
    ----------
    R. Koenker and G. Bassett, *Regression quantiles*, Econometrica 46 (1978), doi:10.2307/1913643.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.pinball(nc.Normal(0.0, 1.0), [2.0], [0.1, 0.5]).round(3)
    array([[0.328, 1.   ]])
    """
    dist = require_distribution(dist, "dist")
    levels = as_float_array(p, "p")
    if levels.ndim > 1:
        raise InvalidInputError(f"p must be a scalar or have shape (q,), got {levels.shape}")
    column = as_response(y, len(dist), "y")
    with overflow_is_infinite():
        excess = dist.ppf(levels) - (column if levels.ndim == 0 else column[:, np.newaxis])
        share = np.where(excess > 0, 1 - levels, levels)
        return share * np.where(share > 0, np.abs(excess), 0.0)  # at the level 0 a quantile may be infinitely low


def interval_score(dist: Distribution, y: Any, coverage: float = 0.95) -> FloatArray:
    """Return the interval (Winkler) score of the central intervals (l, u); lower is better.

    (u - l) + 2 / (1 - coverage) · (distance of y from the interval).

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    coverage : float
        Nominal coverage of the intervals, strictly between 0 and 1.

    Returns
    -------
    ndarray of shape (n,)

    References
    ----------
    T. Gneiting and A. E. Raftery (2007), section 6.2, doi:10.1198/016214506000001437.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.interval_score(nc.Normal(0.0, 1.0), [0.0], coverage=0.9).round(3)
    array([3.29])
    """
    dist = require_distribution(dist, "dist")
    response = as_response(y, len(dist), "y")
    lower, upper = dist.interval(check_coverage(coverage))
    with overflow_is_infinite():
        return score_interval(lower, upper, response, coverage)


def smis(dist: Distribution, y: Any, y_cal: Any, coverage: float = 0.95) -> FloatArray:
    """Return the paper's standardised interval score; its mean is the sMIS, lower is better.

    The interval score divided by the mean absolute response of the calibration set, which makes it comparable
    across data sets.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    y_cal : array_like of shape (m,) or (m, 1)
        Responses of the calibration (validation) set.
    coverage : float
        Nominal coverage of the intervals, strictly between 0 and 1.

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    The paper's equation carries a minus sign, but its tables, like this function, are positive.

    References
    ----------
    R. Torres et al., *Model-Free Local Recalibration of Neural Networks*, arXiv:2403.05756, section 4.1.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.smis(nc.Normal(0.0, 1.0), [0.0], y_cal=[2.0, -2.0]).round(2)
    array([1.96])
    """
    size = np.abs(as_float_array(y_cal, "y_cal"))
    if size.ndim not in (1, 2) or size.size == 0 or size.size != len(size):
        raise InvalidInputError(f"y_cal must have shape (m,) or (m, 1) with m >= 1, got {size.shape}")
    require_sized(size, "y_cal")
    if not size.any():
        raise InvalidInputError("y_cal must not be all zeros: the score is divided by its mean absolute value")
    with overflow_is_infinite():
        return interval_score(dist, y, coverage) / size.mean()


def kl_divergence(true: Distribution, dist: Distribution, *, reverse: bool = False) -> FloatArray:
    """Return the Kullback-Leibler divergence between the true and the predictive distributions, in nats.

    KL(f, g) = ∫ f log(f / g), with f the true density and g that of ``dist``; ``reverse=True`` returns KL(g, f).

    Parameters
    ----------
    true : Distribution
        The true, continuous distributions of n rows, known from a simulation.
    dist : Distribution
        Predictive distributions of the same rows. They need a density: one made of atoms, such as a plain weighted
        sample, has none and raises its own error.
    reverse : bool
        Which of the two divergences.

    Returns
    -------
    ndarray of shape (n,)
        Infinite where the density in the denominator is zero at a place that is possible under the other.

    Notes
    -----
    By quadrature over the normal scores t of the distribution that weighs: KL(f, g) is ∫ φ(t) log(f / g) dt at
    y = F⁻¹(Φ(t)), within ±10, and KL(g, f) the same with the two exchanged: all of the weight is there, wherever the
    other lies. Where the ratio of densities jumps, as at the knots of a curve, the place is searched; several jumps
    within a 64th of a standard deviation are not all found. The density of a distribution made of many draws is rough,
    and the divergence measures that roughness too. It is evaluated at some 1280 values a row, and 10 a jump, so take a
    few thousand rows at most.

    References
    ----------
    S. Kullback and R. A. Leibler, *On information and sufficiency*, Ann. Math. Stat. 22 (1951),
    doi:10.1214/aoms/1177729694.

    Examples
    --------
    >>> import nearcal as nc
    >>> nc.scores.kl_divergence(nc.Normal(0.0, 1.0), nc.Normal(1.0, 1.0)).round(6)
    array([0.5])
    """
    true, dist = require_distribution(true, "true"), require_distribution(dist, "dist")
    if len(true) != len(dist) or not true.is_continuous:
        raise InvalidInputError(
            f"true must be a continuous distribution with the {len(dist)} rows of dist, got {true!r}"
            f"{'' if true.is_continuous else ', which has atoms'}"
        )
    if reverse and not dist.is_continuous:
        raise InvalidInputError(f"dist must be continuous for reverse=True, got {dist!r}, which has atoms")
    f, g = (dist, true) if reverse else (true, dist)
    t = np.arange(-_REACH, _REACH + _STEP, _STEP)
    log_ratio = _log_ratio(f, g, np.broadcast_to(t, (len(f), len(t))))
    smooth = _STEP * (np.exp(log_normal_density(t)) * log_ratio).sum(axis=1)
    return smooth + _across_jumps(f, g, t, log_ratio)


def _log_ratio(f: Distribution, g: Distribution, t: FloatArray) -> FloatArray:
    """Return log(f / g) at the scores t of f, (n, q)."""
    y = f.from_z(t)
    log_f, log_g = f.logpdf(y), g.logpdf(y)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_f), 0.0, log_f - log_g)  # a quantile may be rounded out of the support


def _across_jumps(f: Distribution, g: Distribution, t: FloatArray, log_ratio: FloatArray) -> FloatArray:
    """Return what the trapezoidal rule misses in cells where the ratio jumps, by halving them about the jump."""
    has_jump = _have_jumps(log_ratio)
    cells = np.argsort(~has_jump, axis=1, kind="stable")[:, : int(has_jump.sum(axis=1).max())]
    counts = np.take_along_axis(has_jump, cells, axis=1)  # rows with fewer jumps end in other cells
    low, high = t[cells], t[cells + 1]
    at_low, at_high = (np.take_along_axis(log_ratio, cells + shift, axis=1) for shift in (0, 1))
    missed = -_trapezoid(low, high, at_low, at_high)
    for _ in range(_HALVINGS if cells.shape[1] else 0):
        middle = (low + high) / 2
        at_middle = _log_ratio(f, g, middle)
        with np.errstate(invalid="ignore"):  # infinite ratios
            is_left = np.abs(at_middle - at_low) > np.abs(at_high - at_middle)
        missed += np.where(
            is_left, _trapezoid(middle, high, at_middle, at_high), _trapezoid(low, middle, at_low, at_middle)
        )
        low, at_low = np.where(is_left, low, middle), np.where(is_left, at_low, at_middle)
        high, at_high = np.where(is_left, middle, high), np.where(is_left, at_middle, at_high)
    missed += _trapezoid(low, high, at_low, at_high)
    return add_up(np.pad(np.where(counts, missed, 0.0), ((0, 0), (1, 0))))


def _have_jumps(values: FloatArray) -> NDArray[np.bool_]:
    """Tell in which cells a function rises otherwise than on both sides of them, (n, cells)."""
    with np.errstate(invalid="ignore"):  # between infinite values
        rise = np.diff(values, axis=1)
        left, right = rise[:, :-2], rise[:, 2:]
        inner = np.abs(rise[:, 1:-1] - (left + right) / 2) > _JUMP * (np.abs(left) + np.abs(right)) + _ROUNDING
    return np.pad(inner, ((0, 0), (1, 1))) & np.isfinite(rise)


def _trapezoid(low: FloatArray, high: FloatArray, at_low: FloatArray, at_high: FloatArray) -> FloatArray:
    """Return the integral over normal scores between two of them, with values as on a straight line."""
    weighed = np.exp(log_normal_density(low)) * at_low + np.exp(log_normal_density(high)) * at_high
    return (high - low) / 2 * weighed
