"""Normal scores: a probability p kept as z = Φ⁻¹(p), so that both tails keep full precision.

A PIT value of 1 - 1e-17 rounds to 1.0 and its quantile is infinite; as a normal score it is z = 8.5, an ordinary
number. The way in is a pair (log p, log(1 - p)), of which the smaller probability is always accurate.
"""

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from nearcal._arrays import FloatArray

#: A cumulated weight this close to a level has reached it: sums of weights round.
LEVEL_TOLERANCE = 1e-12

_LOG_HALF = -np.log(2.0)
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_FAR = 60.0  # scores beyond which scipy's ndtri_exp stops some thousand roundings short


def z_from_log_tails(logcdf: FloatArray, logsf: FloatArray) -> FloatArray:
    """Return the normal score of log-probabilities, inverting whichever tail is the lighter."""
    lower = logcdf < _LOG_HALF
    z = quantile_of_log(np.where(lower, logcdf, logsf))
    return np.where(lower, z, 0.0 - z)  # 0 - z: no negative zero at the median


def quantile_of_log(log_p: FloatArray) -> FloatArray:
    """Return Φ⁻¹(p), given log p of a probability up to ½."""
    z = ndtri_exp(log_p)
    far = (z < -_FAR) & np.isfinite(z)
    if far.any():  # one step of Newton's: φ(z) / Φ(z) is -z there, to one part in z²
        z[far] -= (log_p[far] - log_ndtr(z[far])) / z[far]
    return z


def log_tails_from_z(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (log Φ(z), log Φ(-z))."""
    return log_ndtr(z), log_ndtr(-z)


def log_normal_density(z: FloatArray) -> FloatArray:
    """Return log φ(z), minus infinity where it overflows."""
    with np.errstate(over="ignore"):
        return -0.5 * z * z - _LOG_SQRT_2PI
