"""Sums that are the same, to the last bit, in whatever order their terms come.

Neighbours come in the order in which a search came upon them, which depends on how points lie in its structure; what is
made of them must not. Terms are rounded, before they are added up, to multiples of a unit so coarse that no sum of so
many of them rounds again, and so is what that leaves of them (Demmel and Nguyen, *Fast Reproducible Floating-Point
Summation*, 2013). The result is nearer to the true sum than that of adding up one by one, and takes no sort.
"""

import math

import numpy as np

from nearcal.kernels.compile import inner, reduction

_LARGEST = 1e300
_MAGNITUDE = np.int64(2**63 - 1)  # all bits of a double but that of its sign


@inner
def sum_in_any_order(terms, count, rounded):
    """Return Σ terms, of which ``count`` at most are not zero; ``rounded`` is room for two of each."""
    largest = _largest_magnitude(terms)
    if not largest * count < _LARGEST:  # infinite, or nearly
        return add_up(terms)
    # x + 1.5 · 2ᵉ has the last bit 2^(e - 52), and n terms up to 2ᵉ / 2n add up to less than 2⁵³ of these
    bits = math.frexp(float(count))[1] + 1
    exponent = math.frexp(largest)[1] + bits
    coarse, fine = math.ldexp(1.5, exponent), math.ldexp(1.5, exponent - 53 + bits)
    for i in range(len(terms)):
        high = (terms[i] + coarse) - coarse
        rounded[0, i] = high
        rounded[1, i] = ((terms[i] - high) + fine) - fine
    return add_up(rounded[0, : len(terms)]) + add_up(rounded[1, : len(terms)])


@inner
def _largest_magnitude(terms):
    """Return max |x|: bits without that of the sign, read as integers, are in the same order, and compared by lanes."""
    bits = terms.view(np.int64)
    largest = np.int64(0)
    for i in range(len(bits)):
        largest = max(largest, bits[i] & _MAGNITUDE)
    return np.int64(largest).view(np.float64)


@reduction
def add_up(values):
    """Return the sum of terms in their order, by lanes."""
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total
