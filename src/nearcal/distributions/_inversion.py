"""Invert an increasing function z(u), many at once: Newton steps inside a bracket of floating-point numbers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray

_NEWTON_STEPS = 60  # after which the bracket is only halved: 128 more steps then end any search
_ROUNDING = 4e-16  # a score this close to its target, relatively, is as good as equal
_LARGEST = np.finfo(np.float64).max


def invert_increasing(
    score: Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]],
    target: FloatArray,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """Return elementwise the least floating-point number u with score(u) >= target.

    Parameters
    ----------
    score : callable
        Maps (positions, which elements) to (z, dz/du); ``which`` are the indices of the elements still in work. It may
        jump, and its slope may be wrong or NaN: that costs steps, and nothing else.
    target, start, lower, upper : ndarray of shape (n,)
        Finite targets and first guesses; brackets that hold the solution, possibly infinite.

    Notes
    -----
    The bracket ends at two neighbouring numbers, or earlier where a score equals its target to rounding. A Newton step
    that leaves the bracket, or shrinks less than twofold (in a flat stretch between the modes of a mixture, at a jump,
    or many orders of magnitude away), gives way to halving: by turns the width of the bracket and the count of
    floating-point numbers in it, which takes 64 steps at most from one end of these to the other.
    """
    low = np.nextafter(np.clip(lower, -_LARGEST, _LARGEST), -_LARGEST)  # the score is below the target here
    high = np.clip(upper, -_LARGEST, _LARGEST)  # and reaches it here
    u = np.clip(start, low, high)
    work = np.arange(len(u))
    step = np.full(len(u), np.inf)
    count = 0
    while len(work):
        here = u[work]
        z, slope = score(here, work)
        excess = z - target[work]
        has_reached = excess >= 0
        low[work] = np.where(has_reached, low[work], here)
        high[work] = np.where(has_reached, here, high[work])
        below, above = low[work], high[work]
        is_equal = np.abs(excess) <= _ROUNDING * np.maximum(np.abs(target[work]), 1.0)
        is_closed = np.nextafter(below, np.inf) >= above
        newton, length = _newton_step(here, excess, slope)
        use_newton = (newton > below) & (newton < above) & (length < step[work] / 2) & (count < _NEWTON_STEPS)
        halved = _halfway_in_count(below, above) if count % 2 else _halfway(below, above)
        proposal = np.where(use_newton, newton, halved)
        step[work] = np.where(use_newton, length, np.inf)
        u[work] = np.where(is_equal, here, np.where(is_closed, above, proposal))
        work = work[~(is_equal | is_closed)]
        count += 1
    return u


def _newton_step(here: FloatArray, excess: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where Newton's step leads and its length: at least two numbers on, to close the bracket."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        length = np.maximum(np.abs(excess / slope), 2 * np.spacing(np.abs(here)))
        return here - np.sign(excess) * length, length


def _halfway(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.clip(low / 2 + high / 2, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))


def _halfway_in_count(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the number with as many floating-point numbers between it and either end."""
    first, last = _place(low), _place(high)
    return _number(first // 2 + last // 2 + (first & last & 1))


def _place(number: FloatArray) -> NDArray[np.int64]:
    """Return the place of a number in the order of all floating-point numbers, counted from zero."""
    bits = number.view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.iinfo(np.int64).max))


def _number(place: NDArray[np.int64]) -> FloatArray:
    magnitude = np.abs(place).view(np.float64)
    return np.where(place >= 0, magnitude, -magnitude)
