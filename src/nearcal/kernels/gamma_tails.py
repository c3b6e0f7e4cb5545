"""Tails of the standard Gamma distribution far beyond the underflow of double precision, element by element."""

import math

import numpy as np

from nearcal.kernels.compile import inner, kernel

_MOST_TERMS = 100_000
_MOST_STEPS = 100
_SETTLED = 1e-15  # a relative step this small changes nothing any more


@inner
def _log_lower(a, x):
    """Sum P(a, x) = xᵃ e⁻ˣ / Γ(a+1) · Σ xⁿ / ((a+1)…(a+n)) (DLMF 8.11.4); x is far below a here."""
    term = 1.0
    total = 1.0
    for step in range(1, _MOST_TERMS):
        term *= x / (a + step)
        total += term
        if term <= 1e-17 * total:
            break
    return a * math.log(x) - x - math.lgamma(a + 1) + math.log(total)


@inner
def _log_upper(a, x):
    """Evaluate the continued fraction of Q(a, x) (DLMF 8.9.2) by Lentz's method; x is far above a here."""
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
        if abs(ratio - 1) < 1e-16:
            break
    return a * math.log(x) - x - math.lgamma(a) + math.log(fraction)


@kernel
def log_lower(a, x):
    """Return log P(a, x), the log-cdf, of arrays of shape (n,)."""
    result = np.empty(len(x))
    for i in range(len(x)):
        result[i] = _log_lower(a[i], x[i])
    return result


@kernel
def log_upper(a, x):
    """Return log Q(a, x), the log-survival function, of arrays of shape (n,)."""
    result = np.empty(len(x))
    for i in range(len(x)):
        result[i] = _log_upper(a[i], x[i])
    return result


@kernel
def lower_quantiles(a, log_p):
    """Solve log P(a, x) = log_p for x; x below 1e-304 becomes 0.

    Newton steps in log x from P ~ xᵃ / Γ(a+1), which is exact as x -> 0 and too small an x otherwise: log P is concave
    in log x, so the steps only go up.
    """
    result = np.empty(len(a))
    for i in range(len(a)):
        u = (log_p[i] + math.lgamma(a[i] + 1)) / a[i]
        for _ in range(_MOST_STEPS if u > -700 else 0):
            log_value = _log_lower(a[i], math.exp(u))
            step = (log_p[i] - log_value) * math.exp(log_value + math.lgamma(a[i]) + math.exp(u) - a[i] * u)
            u += step
            if abs(step) <= _SETTLED * max(abs(u), 1.0):
                break
        result[i] = math.exp(u) if u > -700 else 0.0
    return result


@kernel
def upper_quantiles(a, log_q, start):
    """Solve log Q(a, x) = log_q for x by Newton steps; log Q is nearly linear in x here, and convex or concave."""
    result = np.empty(len(a))
    for i in range(len(a)):
        x = start[i]
        for _ in range(_MOST_STEPS):
            log_value = _log_upper(a[i], x)
            step = (log_value - log_q[i]) * math.exp(log_value + math.lgamma(a[i]) + x - (a[i] - 1) * math.log(x))
            x += step
            if abs(step) <= _SETTLED * x:
                break
        result[i] = x
    return result
