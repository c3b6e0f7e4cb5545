"""All points within a radius, collected in buffers that grow with the result."""

import numpy as np

from nearcal.kernels.boxes import LEAF, list_leaves, measure_leaf
from nearcal.kernels.brute import mark_reached, measure_hits
from nearcal.kernels.compile import inner, making_kernel, once
from nearcal.kernels.filter import BLOCK, cut_score, list_hits, mark_block, shrink_queries
from nearcal.kernels.select import append_below
from nearcal.kernels.vector import ROWS


@once
def _grow(array):
    """Copy an array into twice the room."""
    larger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@inner
def _cap(radius):
    """Square that no point within the radius exceeds: a filter. The verdict is on sqrt, the distance reported."""
    return radius * radius * (1.0 + 2.0**-50) + 1e-300


@making_kernel
def within_boxes(tree, queries, radii, most, near):
    """Row pointers, indices and distances of the points within a radius of each of the first queries, one for each.

    These have at most ``most`` points together, or there is one of them.
    """
    dist2 = near.points
    indptr, count = np.zeros(len(queries) + 1, np.int64), np.int64(0)
    indices, distances = np.empty(4 * LEAF, np.int32), np.empty(4 * LEAF)
    for r in range(len(queries)):
        n_near = list_leaves(tree, queries, r, _cap(radii[r]), near)
        for i in range(n_near):
            leaf = near.leaves[i]
            measure_leaf(tree.leaves, leaf, queries, r, dist2)
            for p in range(LEAF):
                dist2[p] = np.sqrt(dist2[p])
            if count + LEAF > len(indices):
                indices, distances = _grow(indices), _grow(distances)
            count = append_below(dist2, radii[r], tree.ids, leaf * LEAF, distances, indices, count)
        if count > most and r > 0:
            count = indptr[r]
            indptr = indptr[: r + 1].copy()
            break
        indptr[r + 1] = count
    return indptr, indices[:count].copy(), distances[:count].copy()


@once
def _collect_pairs(blocks, queries, radius, most, batch):
    """Row, index and distance of every pair within the radius, block by block; of more than ``most``, where seen."""
    n_rows, zero = len(queries), np.int64(0)
    shrink_queries(blocks, queries, zero, n_rows, batch.rounded, batch.steps, batch.norms)
    for row in range(n_rows):
        batch.bounds[row] = _cap(radius)
        batch.cuts[row] = cut_score(batch.norms[row], _cap(radius), blocks.scale)
    mark_reached(blocks, queries, zero, n_rows, 0.0, batch)
    squares, ids = np.empty((1, BLOCK + 3)), np.empty((1, BLOCK), np.int32)
    rows, indices, distances, count = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32), np.empty(BLOCK), 0
    for b in range(len(batch.reached)):
        if count > most and n_rows > 1:
            break
        marked = -1
        for row in range(n_rows):
            if not batch.reached[b, row]:
                continue
            if row // ROWS != marked:
                marked = row // ROWS
                mark_block(blocks, b, batch, marked * ROWS)
            size = list_hits(b, batch, row)
            measure_hits(blocks, batch.hits, size, queries, row, squares, ids, zero, zero)
            if count + size >= len(rows):
                rows, indices, distances = _grow(rows), _grow(indices), _grow(distances)
            for i in range(size):
                rows[count], indices[count], distances[count] = row, ids[0, i], np.sqrt(squares[0, i])
                count += distances[count] <= radius
    return rows[:count], indices[:count], distances[:count]


@making_kernel
def within_blocks(blocks, queries, radius, most, batch):
    """Row pointers, indices and distances of the points within the radius of each query, for one batch of them.

    First whether these are at most ``most``: if they are more, and of several queries, not all are there.
    """
    rows, indices, distances = _collect_pairs(blocks, queries, radius, most, batch)
    indptr = np.zeros(len(queries) + 1, np.int64)
    for row in rows:
        indptr[row + 1] += 1
    for r in range(len(queries)):
        indptr[r + 1] += indptr[r]
    place = indptr.copy()
    sorted_indices, sorted_distances = np.empty_like(indices), np.empty_like(distances)
    for i in range(len(rows)):
        j = place[rows[i]]
        sorted_indices[j], sorted_distances[j] = indices[i], distances[i]
        place[rows[i]] += 1
    return len(rows) <= most, indptr, sorted_indices, sorted_distances
