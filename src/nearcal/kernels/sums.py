"""Sums that are the same, to the last bit, in whatever order their terms come.

Neighbours come in the order in which a search came upon them, which depends on how points lie in its structure; what is
made of them must not. Terms are turned into whole numbers of a unit, and these are added up: that never rounds, so that
their order cannot matter. The unit is as small as 63 bits allow, 2⁻⁶² n times the largest term for n terms, so that
the sum is as good as any of doubles. It takes no sort, and runs in vector lanes.
"""

import math

import numpy as np

from nearcal.kernels.compile import inner

_MAGNITUDE = np.int64(2**63 - 1)  # all bits of a double but that of its sign


@inner
def sum_in_any_order(terms, count, largest):
    """Return Σ terms, none of them beyond ``largest``, of which ``count`` at most are not zero."""
    if not largest < np.inf:
        return _add_up(terms)
    # in two steps: the unit of the smallest doubles has an inverse beyond the largest
    exponent = 61 - math.frexp(largest)[1] - math.frexp(float(count))[1]
    first, second = math.ldexp(1.0, exponent // 2), math.ldexp(1.0, exponent - exponent // 2)
    total = np.int64(0)
    for i in range(len(terms)):
        total += np.int64(terms[i] * first * second)
    return float(total) / first / second


@inner
def largest_magnitude(terms):
    """Return max |x|: bits without that of the sign, read as integers, are in the same order, and compared by lanes."""
    bits = terms.view(np.int64)
    largest = np.int64(0)
    for i in range(len(bits)):
        largest = max(largest, bits[i] & _MAGNITUDE)
    return np.int64(largest).view(np.float64)


@inner
def _add_up(terms):
    """Return the sum of terms of which one is no finite number."""
    total = 0.0
    for i in range(len(terms)):
        total += terms[i]
    return total
