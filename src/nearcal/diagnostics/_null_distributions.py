"""Null distributions of uniformity statistics that scipy does not have: limits for large samples."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.special import ai_zeros, airye, ndtr

from nearcal._arrays import FloatArray

_PAIRS = 25  # of eigenvalues; enough for statistics above 0.05, below which the probability is 1 to ten digits
_NODES = 64
_AIRY_ZEROS = 60
_ROUNDING = 1e-12


def anderson_darling_sf(statistic: float) -> float:
    """Return P(A² > statistic) in the limit of large n, accurate far into the tail.

    The limit is Σ χ²_j / (j (j + 1)). Smirnov's formula for a weighted sum of χ² variables integrates
    exp(-u x / 2) / (u √|D(u)|) between the zeros j (j + 1) of D(u) = -cos(½ π √(1 + 4u)) / (π u), pair by pair.

    References
    ----------
    T. W. Anderson and D. A. Darling, *Asymptotic theory of certain goodness of fit criteria*, Ann. Math. Stat. 23
    (1952), doi:10.1214/aoms/1177729437. J. Durbin, *Distribution theory for tests based on the sample distribution
    function* (1973), section 4.4.
    """
    if statistic < 0.05:
        return 1.0
    j = np.arange(1.0, 2 * _PAIRS + 1)
    return _smirnov_sf(statistic, j * (j + 1), lambda u: np.cos(np.pi / 2 * np.sqrt(1 + 4 * u)) / (np.pi * u))


def cramer_von_mises_sf(statistic: float) -> float:
    """Return P(W² > statistic) in the limit of large n, accurate far into the tail.

    The limit is Σ χ²_j / (j π)², whose determinant is D(u) = sin(√u) / √u; see :func:`anderson_darling_sf`.
    """
    if statistic < 0.01:
        return 1.0
    j = np.arange(1.0, 2 * _PAIRS + 1)
    return _smirnov_sf(statistic, (j * np.pi) ** 2, lambda u: np.sin(np.sqrt(u)) / np.sqrt(u))


def _smirnov_sf(statistic: float, zeros: FloatArray, determinant: Callable[[FloatArray], FloatArray]) -> float:
    """Return the tail of Σ χ²_j / zeros_j by Smirnov's formula."""
    first, last, k = zeros[::2], zeros[1::2], np.arange(1, len(zeros) // 2 + 1)
    angle, weights = _right_angle_rule()
    # u = middle + half · sin(angle) takes the inverse square roots at both ends away
    half = ((last - first) / 2)[:, np.newaxis]
    u = ((first + last) / 2)[:, np.newaxis] + half * np.sin(angle)
    integrals = (np.exp(-u * statistic / 2) * half * np.cos(angle) / (u * np.sqrt(np.abs(determinant(u))))) @ weights
    return float(np.clip(np.sum(np.where(k % 2 == 1, integrals, -integrals)) / np.pi, 0.0, 1.0))


@cache
def _right_angle_rule() -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights on (-π/2, π/2)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes * np.pi / 2, weights * np.pi / 2


def frosini_sf(statistic: float) -> float:
    """Return P(B > statistic) in the limit of large n, where B is the integral of |Brownian bridge|.

    P(B <= b) = √π Σ δ^(-3/2) ψ(√2 b δ^(-3/2)), over the zeros -δ of Ai', with
    ψ(x) = 3^(2/3) x^(-1/3) exp(-2 / (27 x²)) Ai((3x)^(-4/3)).

    References
    ----------
    B. McK. Johnson and T. Killeen, *An explicit formula for the C.D.F. of the L1 norm of the Brownian bridge*,
    Ann. Probab. 11 (1983), doi:10.1214/aop/1176993528.
    """
    if statistic < 0.02:
        return 1.0
    power = _airy_powers()
    cdf = np.sqrt(np.pi) * np.sum(power * _psi(np.sqrt(2) * statistic * power))
    # the bridge's integral is Normal with variance 1/12, and |∫ bridge| <= ∫ |bridge|: a lower bound, of the right
    # order far out, where 1 - cdf is all rounding
    bound = 2 * ndtr(-np.sqrt(12) * statistic)
    return float(np.clip(1 - cdf, bound, 1.0) if 1 - cdf > _ROUNDING else bound)


@cache
def _airy_powers() -> FloatArray:
    return (-ai_zeros(_AIRY_ZEROS)[1]) ** -1.5


def _psi(x: FloatArray) -> FloatArray:
    argument = (3 * x) ** (-4 / 3)
    # airye is Ai times exp(⅔ argument^(3/2)), and ⅔ argument^(3/2) = 2 / (27 x²)
    return 3 ** (2 / 3) * x ** (-1 / 3) * np.exp(-4 / (27 * x * x)) * airye(argument)[0]
