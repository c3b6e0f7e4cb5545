"""Leave-one-out scores of neighbourhoods of many weights, from one search at the largest."""

from typing import Any

import numpy as np

from nearcal._sample_weights import ENOUGH
from nearcal.kernels.compile import kernel
from nearcal.kernels.leave_one_out import weighted_crps
from nearcal.kernels.weights import add_up, smooth_all


def weighted_prefix_crps(
    indptr: Any, distances: Any, shares: Any, order: Any, values: Any, y: Any, sizes: Any, kinds: Any, crps: Any
) -> None:
    """Write the CRPS at y of the nearest neighbours of each weight: crps[row, size, kind of smoothing].

    Neighbours are in CSR form by increasing distance, with the shares that they count. ``order`` holds their places
    within a row in the order of their values, which are the first entries of a row of ``values`` and increase.
    """
    room = np.empty((4, values.shape[1]))
    write_weighted_prefix_crps(indptr, distances, shares, order, values, y, sizes, kinds, room, crps)


@kernel
def write_weighted_prefix_crps(indptr, distances, shares, order, values, y, sizes, kinds, room, crps):
    """Write the scores of :func:`weighted_prefix_crps`, with scratch for one row."""
    own, cut, weights, sample = room[0], room[1], room[2], room[3]
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            crps[row] = np.nan
            continue
        near = distances[start:stop]
        for size in range(len(sizes)):
            reached = 0.0
            count = 0
            while count < stop - start and reached < ENOUGH * sizes[size]:
                cut[count] = min(shares[start + count], sizes[size] - reached)
                reached += shares[start + count]
                count += 1
            for kind in range(len(kinds)):
                smooth_all(kinds[kind], near[:count], near[count - 1], own[:count])
                for i in range(count):
                    own[i] *= cut[i]
                total = add_up(own[:count])
                if not total > 0.0:  # every neighbour at the edge: nothing but their weights tells them apart
                    for i in range(count):
                        own[i] = cut[i]
                    total = add_up(own[:count])
                kept = 0
                for i in range(stop - start):
                    place = order[start + i]
                    if place < count:
                        weights[kept], sample[kept] = own[place], values[row, i]
                        kept += 1
                crps[row, size, kind] = weighted_crps(sample[:kept], weights[:kept], total, y[row])
