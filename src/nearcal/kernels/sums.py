"""Sums that are the same, to the last bit, in whatever order their terms come.

Neighbours come in the order in which a search came upon them, which depends on how points lie in its structure; what is
made of them must not. Terms are turned into whole numbers of a unit, and these are added up: that never rounds, so that
their order cannot matter. The unit is as small as 63 bits allow, 2⁻⁶² n times the largest term for n terms, so that
the sum is as good as any of doubles. It takes no sort, and runs in vector lanes.
"""

import numpy as np

from nearcal.kernels.compile import inner, once
from nearcal.kernels.vector import bits, from_bits

_MAGNITUDE = np.int64(2**63 - 1)  # all bits of a double but that of its sign


@inner
def sum_in_any_order(terms, count, largest):
    """Return Σ terms, none of them beyond ``largest``, of which ``count`` at most are not zero."""
    if not largest < np.inf:
        return _add_up(terms)
    first, second = _inverse_unit(count, largest)
    total = np.int64(0)
    for i in range(len(terms)):
        total += np.int64(terms[i] * first * second)
    return float(total) / first / second


@inner
def sum_squares_in_any_order(values, largest):
    """Return Σ v² of values none of which is beyond ``largest``."""
    first, second = _inverse_unit(len(values), largest * largest)
    total = np.int64(0)
    for i in range(len(values)):
        total += np.int64(values[i] * values[i] * first * second)
    return float(total) / first / second


@once
def _inverse_unit(count, largest):
    """Return two factors of the inverse of the unit: that of the smallest doubles is beyond the largest of them."""
    exponent = 61 - _exponent(largest) - _exponent(float(count))
    return _power_of_two(exponent // 2), _power_of_two(exponent - exponent // 2)


@once
def _exponent(x):
    """Return e with x < 2ᵉ, the least there is but for the smallest doubles: read off the bits, a call costs more."""
    return (bits(x) >> 52) - 1022


@once
def _power_of_two(exponent):
    return from_bits((exponent + 1023) << 52)


@inner
def largest_magnitude(terms):
    """Return max |x|: bits without that of the sign, read as integers, are in the same order, and compared by lanes."""
    largest = np.int64(0)
    for i in range(len(terms)):
        largest = max(largest, bits(terms[i]) & _MAGNITUDE)
    return from_bits(largest)


@once
def _add_up(terms):
    """Return the sum of terms of which one is no finite number."""
    total = 0.0
    for i in range(len(terms)):
        total += terms[i]
    return total
