"""Invert an increasing function z(u), many at once, by Newton steps kept inside a bracket."""

from collections.abc import Callable

import numpy as np

from nearcal._arrays import FloatArray, IntArray

_MAX_STEPS = 200
_ROUNDING = 4e-16  # a score this close to its target, relatively, is as good as equal


def invert_increasing(
    score: Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]],
    target: FloatArray,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """Solve score(u) = target elementwise.

    Parameters
    ----------
    score : callable
        Maps (positions, which elements) to (z, dz/du); ``which`` are the indices of the elements still in work.
    target, start, lower, upper : ndarray of shape (n,)
        Finite targets and first guesses; brackets that hold the solution, possibly infinite.

    Notes
    -----
    A Newton step that leaves the bracket, or shrinks less than twofold (in a flat stretch between the modes of a
    mixture, or many orders of magnitude away), is replaced by bisection or, while an end is still infinite, by a
    doubling step. The solution is accurate to a few ulp of u.
    """
    u = start.copy()
    low, high = lower.copy(), upper.copy()
    work = np.arange(len(u))
    step = np.full(len(u), np.inf)
    stride = np.ones(len(u))
    for _ in range(_MAX_STEPS):
        if len(work) == 0:
            break
        here = u[work]
        z, slope = score(here, work)
        excess = z - target[work]
        low[work] = np.where(excess <= 0, here, low[work])
        high[work] = np.where(excess >= 0, here, high[work])
        settled = np.abs(excess) <= _ROUNDING * np.maximum(np.abs(target[work]), 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a flat stretch: caught by the bracket
            newton = here - excess / slope
            inside = (newton > low[work]) & (newton < high[work]) & (2 * np.abs(newton - here) < step[work])
        proposal = np.where(inside, newton, _retreat(here, low[work], high[work], stride[work], excess))
        proposal = np.where(settled, here, proposal)
        stride[work] = np.where(inside, stride[work], stride[work] * 2)
        step[work] = np.abs(proposal - here)
        u[work] = proposal
        moved = step[work] > 4 * np.spacing(np.maximum(np.abs(here), np.abs(proposal)))
        work = work[moved]
    return u


def _retreat(here: FloatArray, low: FloatArray, high: FloatArray, stride: FloatArray, excess: FloatArray) -> FloatArray:
    """Return the middle of a closed bracket, or a growing step towards the open end."""
    closed = np.isfinite(low) & np.isfinite(high)
    a, b = np.where(closed, low, 0.0), np.where(closed, high, 0.0)
    middle = a / 2 + b / 2
    # across orders of magnitude the geometric mean halves the number of digits to find
    one_sign = (np.sign(a) * np.sign(b) > 0) & (np.maximum(np.abs(a), np.abs(b)) > 4 * np.minimum(np.abs(a), np.abs(b)))
    geometric = np.copysign(np.sqrt(np.abs(a)) * np.sqrt(np.abs(b)), a)
    outward = np.clip(here - np.sign(excess) * stride, low, high)
    return np.where(closed, np.where(one_sign, geometric, middle), outward)
