"""A function of position: bumps around centres, added up."""

import numpy as np

from nearcal.kernels.compile import kernel


@kernel
def add_bumps(points, centers, heights, is_round, values):
    """Write Σ_l c_l b(x - u_l) of every point x, in units of the width of a bump.

    A round bump is b(v) = exp(-|v|² / 2), a pointed one exp(-Σ_a |v_a|).
    """
    for i in range(len(points)):
        total = 0.0
        for j in range(len(centers)):
            distance = 0.0
            if is_round:
                for a in range(points.shape[1]):
                    distance += (points[i, a] - centers[j, a]) ** 2
                distance *= 0.5
            else:
                for a in range(points.shape[1]):
                    distance += abs(points[i, a] - centers[j, a])
            total += heights[j] * np.exp(-distance)
        values[i] = total
