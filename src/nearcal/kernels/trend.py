"""A smooth function of position: Gaussian bumps around centres, added up."""

import numpy as np

from nearcal.kernels.compile import kernel


@kernel
def add_bumps(points, centers, heights, values):
    """Write Σ_l c_l exp(-|x - u_l|² / 2) of every point x, in units of the width of a bump."""
    for i in range(len(points)):
        total = 0.0
        for j in range(len(centers)):
            square = 0.0
            for a in range(points.shape[1]):
                square += (points[i, a] - centers[j, a]) ** 2
            total += heights[j] * np.exp(-0.5 * square)
        values[i] = total
