"""faiss's inverted file: approximate, for very many calibration points in high dimension."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidParameterError
from nearcal._optional import import_extra
from nearcal._saved import count, number, require, savable, saved_array, saved_numbers, saved_value
from nearcal.space.search import MOST_PAIRS, Metric, Neighbors, equal_rows

_PROBE_QUERIES = 64
_WANTED_RECALL = 0.95
_BYTES = 2**24  # of coordinates gathered at a time to measure distances
# In units of the median distance from the centre, float32 squares without overflow up to here,
_FARTHEST_POINT = 2.0**40
# and a query that is so many times farther than all points has no nearer neighbours than one drawn in to there:
# being drawn in moves the order of distances by 2**-13 of the points' extent, as much as rounding does there.
_FARTHEST_QUERY = 2.0**12


@savable
class FaissIndex:
    """An inverted file over float32 points, with distances measured again in float64.

    Each query looks into the ``nprobe`` nearest of ``nlist`` cells. ``nprobe`` is doubled until, on a few calibration
    points, the share of the true k nearest that is found reaches 0.95; that share is ``recall``. It is an average,
    not a guarantee, and unlike the exact searches the set found may differ in its last members with the number of rows
    asked for at once, since faiss then computes distances in another order.

    Points are seen from their median, in units of about their median distance from it: coordinates of any size suit
    float32. What float32 cannot tell apart shows in the recall, which is measured in float64.
    """

    metric: Metric = "euclidean"

    def __init__(self, points: FloatArray, k: int) -> None:
        faiss = _import_faiss()
        self.points, self.shape = points, points.shape
        self.center = np.median(points, axis=0)  # an outlier would draw the mean away from all others
        self._take_measure()
        cells = self._round(points, self.reach)
        self.nlist = max(1, int(np.sqrt(len(points))))
        quantizer = faiss.IndexFlatL2(points.shape[1])
        self._index = faiss.IndexIVFFlat(quantizer, points.shape[1], self.nlist)
        self._index.cp.seed = 0
        self._index.cp.min_points_per_centroid = 1  # few points are no reason to print warnings
        self._index.train(cells)
        self._index.add(cells)
        self.nprobe, self.recall = self._choose_nprobe(k)

    def _take_measure(self) -> None:
        """Find the unit, a power of two, and how far points reach in it; both follow from points and center."""
        extents = np.abs(self.points - self.center).max(axis=1)
        unit = np.median(extents) or extents.max()
        self.exponent = -int(np.frexp(unit)[1])
        self.reach = min(float(np.ldexp(extents.max(), self.exponent)), _FARTHEST_POINT)

    def order(self, points: FloatArray) -> None:
        """Return None: this search gains nothing from an order of its queries."""

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return k near points of each query; ``eps`` is ignored, the recall stands in its place."""
        indices = self._search(points, k, self.nprobe)
        distances = self._measure(points, indices)
        indptr = equal_rows(len(points), k)
        return Neighbors(indptr, indices.ravel().astype(np.int32), distances.ravel(), distances.max(axis=1))

    def within(self, points: FloatArray, radius: float, most: int = MOST_PAIRS) -> Neighbors:
        """Refuse: an approximate ball would be thin where it matters. The recalibrator never asks."""
        raise InvalidParameterError("an inverted file finds the k nearest only; build another index for a radius")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the inverted file as bytes."""
        return {**vars(self), "_index": _import_faiss().serialize_index(self._index)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Bring back the inverted file from bytes."""
        self.__dict__.update(state)
        self._index = _import_faiss().deserialize_index(state["_index"])

    def _to_saved(self) -> dict[str, Any]:
        """Take the inverted file apart: faiss's own format is for files one trusts."""
        faiss = _import_faiss()
        lists, cells = self._index.invlists, np.empty(len(self.points), np.int32)
        for cell in range(self.nlist):
            cells[faiss.rev_swig_ptr(lists.get_ids(cell), lists.list_size(cell))] = cell
        return {
            "points": self.points,
            "center": self.center,
            "centroids": self._index.quantizer.reconstruct_n(0, self.nlist),
            "cells": cells,
            "nprobe": self.nprobe,
            "recall": self.recall,
        }

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        faiss = _import_faiss()
        index = cls.__new__(cls)
        index.points = saved_array(saved, "points", np.float64, (None, None))
        n, d = index.shape = index.points.shape
        index.center = saved_array(saved, "center", np.float64, (d,))
        # from far away, all points would look the same to float32
        is_among = (index.points.min(axis=0) <= index.center) & (index.center <= index.points.max(axis=0))
        require(is_among.all(), f"center must lie among the points, got {index.center}")
        centroids = saved_array(saved, "centroids", np.float32, (None, d))
        index.nlist = len(centroids)
        index.nprobe = count(most=index.nlist)("nprobe", saved_value(saved, "nprobe"))
        index.recall = number(0.0)("recall", saved_value(saved, "recall"))
        cells = saved_numbers(saved, "cells", n, index.nlist).astype(np.int64)
        quantizer = faiss.IndexFlatL2(d)
        quantizer.add(centroids)
        index._index = faiss.IndexIVFFlat(quantizer, d, index.nlist)
        index._take_measure()
        rounded = index._round(index.points, index.reach)  # by name: swig_ptr keeps no array alive
        # the public add would look for each point's cell again
        index._index.add_core(n, faiss.swig_ptr(rounded), None, faiss.swig_ptr(cells))
        return index

    def _round(self, points: FloatArray, farthest: float) -> NDArray[np.float32]:
        """Return points as faiss sees them; those beyond ``farthest`` are drawn in to there."""
        moved = np.ldexp(points - self.center, self.exponent)
        extents = np.abs(moved).max(axis=1, keepdims=True)
        drawn = np.divide(farthest, extents, out=np.ones_like(extents), where=extents > farthest)
        return np.ascontiguousarray(moved * drawn, dtype=np.float32)

    def _search(self, points: FloatArray, k: int, nprobe: int) -> IntArray:
        """Search with one thread: the recalibrator has its own. Rows that come back short look into more cells."""
        faiss = _import_faiss()
        queries = self._round(points, _FARTHEST_QUERY * self.reach)
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            found: IntArray = np.asarray(self._search_cells(queries, k, nprobe))
            short = np.flatnonzero((found < 0).any(axis=1))
            while len(short) and nprobe < self.nlist:
                nprobe = min(2 * nprobe, self.nlist)
                found[short] = self._search_cells(queries[short], k, nprobe)
                short = short[(found[short] < 0).any(axis=1)]
        finally:
            faiss.omp_set_num_threads(threads)
        for row in short:  # cells from a file may lie where float32 overflows, out of reach
            found[row] = np.argsort(self._squares(points[row]), kind="stable")[:k]
        return found

    def _search_cells(self, queries: NDArray[np.float32], k: int, nprobe: int) -> IntArray:
        parameters = _import_faiss().SearchParametersIVF(nprobe=nprobe)
        return self._index.search(queries, k, params=parameters)[1]

    def _squares(self, query: FloatArray, rows: "IntArray | slice" = slice(None)) -> FloatArray:
        """Return squared distances in float64 from a query to some points, or all."""
        return cdist(query[np.newaxis], self.points[rows], "sqeuclidean")[0]

    def _measure(self, points: FloatArray, indices: IntArray) -> FloatArray:
        """Return the distances to the points found, in float64, a few rows at a time."""
        distances = np.empty(indices.shape)
        rows = max(1, _BYTES // (8 * indices.shape[1] * points.shape[1]))
        for start in range(0, len(points), rows):
            part = slice(start, start + rows)
            gaps = self.points[indices[part]] - points[part, np.newaxis]
            distances[part] = np.sqrt(np.einsum("rkd,rkd->rk", gaps, gaps))
        return distances

    def _choose_nprobe(self, k: int) -> tuple[int, float]:
        queries = self.points[:: max(1, len(self.points) // _PROBE_QUERIES)]
        kth = [np.partition(self._squares(query), k - 1)[k - 1] for query in queries]
        nprobe = min(self.nlist, max(1, k * self.nlist // len(self.points)))
        while True:
            found = self._search(queries, k, nprobe)
            # one as near as the true k-th is as good as that
            near = [self._squares(q, rows) <= most for q, rows, most in zip(queries, found, kth, strict=True)]
            recall = float(np.mean(near))
            if recall >= _WANTED_RECALL or nprobe >= self.nlist:
                return nprobe, recall
            nprobe = min(2 * nprobe, self.nlist)


def _import_faiss() -> ModuleType:
    return import_extra("faiss", "faiss", 'search="faiss"')
