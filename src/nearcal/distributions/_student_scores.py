"""Normal scores of Student t distributions of many degrees of freedom, where other formulas lose their digits.

With η² = log(1 + t²/ν), η of the sign of t, the score of t is √ν (η + δ₁(η)/ν + δ₂(η)/ν² + …), far into both tails: in
η the density is that of N(0, 1/ν) times η (1 - exp(-η²))^(-½) g(ν), log g(ν) = -1/(4 ν) + …, and the δ follow order by
order, as for Gamma distributions (``_gamma_scores``). Cut after δ₂, scores are off by less than ν⁻³, relatively.
"""

import numpy as np

from nearcal._arrays import FloatArray

MANY_DF = 1e5

_NEAR = 0.1  # of η: closer to 0 the closed forms of δ are differences of nearly equal numbers
_ROUNDS = 4  # each gains five digits


def score(df: FloatArray, log_square: FloatArray) -> FloatArray:
    """Return the normal score of t > 0 for many degrees of freedom, given log(1 + t²/ν)."""
    finite = np.isfinite(log_square)
    eta = np.sqrt(np.where(finite, log_square, 0.0))
    return np.where(finite, np.sqrt(df) * (eta + _shift(df, eta)), np.inf)


def log_square_of(df: FloatArray, z: FloatArray) -> FloatArray:
    """Return log(1 + t²/ν) of a score z > 0, the inverse of :func:`score`."""
    finite = np.isfinite(z)
    wanted = np.where(finite, z, 0.0) / np.sqrt(df)
    eta = wanted
    for _ in range(_ROUNDS):
        eta = wanted - _shift(df, eta)
    return np.where(finite, eta**2, np.inf)


def _shift(df: FloatArray, eta: FloatArray) -> FloatArray:
    """Return δ₁/ν + δ₂/ν²."""
    near = np.abs(eta) < _NEAR
    e = np.where(near, eta, 0.0)
    square = e * e
    first_near = e * (-1 / 4 + square * (1 / 48 - square**2 * (1 / 5760 - square**2 / 362880)))
    second_near = e * (1 / 32 + square * (1 / 192 - square * 11 / 7680))
    e = np.where(near, 1.0, eta)
    square = e * e
    first = 0.5 * np.log(-np.expm1(-square) / square) / e
    with np.errstate(over="ignore"):
        slope = 1 / np.expm1(square) - 1 / square - first / e
    second = (slope - first**2 / 2 + 1 / 4) / e
    return (np.where(near, first_near, first) + np.where(near, second_near, second) / df) / df
