"""Algorithm 1 of the paper in plain numpy, as a person would write it down.

This is what local recalibration is. The engine (search structures, compiled kernels, chunks and threads) computes the
same, and is tested against this.
"""

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution


def recalibrate_row(
    dist_cal: Distribution,
    y_cal: FloatArray,
    space_cal: FloatArray,
    dist_new: Distribution,
    space_new: FloatArray,
    k: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted sample of the recalibrated distribution of one new row: values (k,) and weights (k,).

    Parameters
    ----------
    dist_cal, dist_new : Distribution
        Predictive distributions F_i of the n calibration points, and F of the new row.
    y_cal : ndarray of shape (n,)
        What was observed.
    space_cal, space_new : ndarray of shape (n, d) and (d,)
        Where the points and the row are: inputs, or activations of a layer.
    k : int
        Number of nearest calibration points.
    """
    # Step 1. Where each observation fell in its predictive distribution: z_i = Φ⁻¹(F_i(y_i))
    z = dist_cal.z(y_cal)

    # Step 2. The k nearest calibration points, the first of those at equal distance
    distance = np.sqrt(((space_cal - space_new) ** 2).sum(axis=1))
    nearest = np.lexsort((np.arange(len(distance)), distance))[:k]

    # Step 3. Weights that fall with distance: Epanechnikov, 1 - (d / u)², u the distance to the k-th
    weights = epanechnikov(distance[nearest])

    # Step 4. The new predictive distribution, read at the neighbours' scores: F⁻¹(Φ(z_i))
    values = dist_new.from_z(z[nearest][np.newaxis])[0]
    return values, weights


def epanechnikov(distance: FloatArray) -> FloatArray:
    """Return weights of sum 1; equal ones where all neighbours are as far as the farthest."""
    radius = distance.max()
    weights = 1 - (distance / radius) ** 2 if radius > 0 else np.ones(len(distance))
    return weights / weights.sum() if weights.sum() > 0 else np.full(len(distance), 1 / len(distance))


def summarise(values: FloatArray, weights: FloatArray, p: FloatArray) -> tuple[float, float, FloatArray]:
    """Return mean, variance and quantiles of a weighted sample: the least values whose cumulated weight reaches p."""
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2)
    counts = weights > 0
    order = np.argsort(values[counts])
    below = np.cumsum(weights[counts][order])
    place = np.minimum(np.searchsorted(below, p - 1e-12), len(below) - 1)
    return mean, variance, values[counts][order][place]
