"""Tails of the standard Gamma distribution far beyond the underflow of double precision, element by element."""

import math

import numpy as np

from nearcal.kernels.compile import inner, making_kernel

_MOST_TERMS = 100_000
_MOST_STEPS = 100
_SMALLEST = -700.0  # of log x: below, x changes no digit of 1
_SETTLED = 1e-15  # a relative step this small changes nothing any more


@inner
def _lower_series(a, x):
    """Sum P(a, x) = xᵃ e⁻ˣ / Γ(a+1) · Σ xⁿ / ((a+1)…(a+n)) (DLMF 8.11.4) without its first factor; x is far below a."""
    term = 1.0
    total = 1.0
    for step in range(1, _MOST_TERMS):
        term *= x / (a + step)
        total += term
        if term <= 1e-17 * total:
            break
    return total


@inner
def _upper_fraction(a, x):
    """Evaluate the continued fraction of Q(a, x) Γ(a) / (xᵃ e⁻ˣ) (DLMF 8.9.2) by Lentz's method; x is far above a."""
    b = x + 1 - a
    c = np.inf
    d = 1 / b
    fraction = d
    for step in range(1, _MOST_TERMS):
        numerator = step * (a - step)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        ratio = c * d
        fraction *= ratio
        if abs(ratio - 1) < _SETTLED:
            break
    return fraction


@making_kernel
def log_lower(a, x):
    """Return log P(a, x), the log-cdf, of arrays of shape (n,)."""
    result = np.empty(len(x))
    for i in range(len(x)):
        series = _lower_series(a[i], x[i])
        result[i] = a[i] * math.log(x[i]) - x[i] - math.lgamma(a[i] + 1) + math.log(series)
    return result


@making_kernel
def log_upper(a, x):
    """Return log Q(a, x), the log-survival function, of arrays of shape (n,)."""
    result = np.empty(len(x))
    for i in range(len(x)):
        fraction = _upper_fraction(a[i], x[i])
        result[i] = a[i] * math.log(x[i]) - x[i] - math.lgamma(a[i]) + math.log(fraction)
    return result


@making_kernel
def lower_quantiles(a, log_p):
    """Solve log P(a, x) = log_p for log x.

    Newton steps in log x from P ~ xᵃ / Γ(a+1), which is exact as x -> 0 and too small an x otherwise: log P is concave
    in log x, so the steps only go up.
    """
    result = np.empty(len(a))
    for i in range(len(a)):
        log_gamma = math.lgamma(a[i] + 1)
        u = (log_p[i] + log_gamma) / a[i]
        for _ in range(_MOST_STEPS if u > _SMALLEST else 0):
            x = math.exp(u)
            series = _lower_series(a[i], x)
            log_value = a[i] * u - x - log_gamma + math.log(series)
            step = (log_p[i] - log_value) * series / a[i]  # P over its derivative
            u += step
            if abs(step) <= _SETTLED * max(abs(u), 1.0):
                break
        result[i] = u
    return result


@making_kernel
def upper_quantiles(a, log_q, start):
    """Solve log Q(a, x) = log_q for x by Newton steps; log Q is nearly linear in x here, and convex or concave."""
    result = np.empty(len(a))
    for i in range(len(a)):
        x = start[i]
        log_gamma = math.lgamma(a[i])
        for _ in range(_MOST_STEPS):
            fraction = _upper_fraction(a[i], x)
            log_value = a[i] * math.log(x) - x - log_gamma + math.log(fraction)
            step = (log_value - log_q[i]) * x * fraction  # Q over its derivative
            x += step
            if abs(step) <= _SETTLED * x:
                break
        result[i] = x
    return result
