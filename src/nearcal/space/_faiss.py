"""faiss's inverted file: approximate, for very many calibration points in high dimension."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal._errors import InvalidParameterError
from nearcal._optional import import_extra
from nearcal._saved import count, number, savable, saved_array, saved_numbers, saved_value
from nearcal.space.search import Metric, Neighbors, equal_rows

_PROBE_QUERIES = 64
_WANTED_RECALL = 0.95
_BYTES = 2**24  # of coordinates gathered at a time to measure distances


@savable
class FaissIndex:
    """An inverted file over float32 points, with distances measured again in float64.

    Each query looks into the ``nprobe`` nearest of ``nlist`` cells. ``nprobe`` is doubled until, on a few calibration
    points, the share of the true k nearest that is found reaches 0.95; that share is ``recall``. It is an average,
    not a guarantee, and unlike the exact searches the set found may differ in its last members with the number of rows
    asked for at once, since faiss then computes distances in another order.
    """

    metric: Metric = "euclidean"

    def __init__(self, points: FloatArray, k: int) -> None:
        faiss = _import_faiss()
        self.points, self.shape = points, points.shape
        self.center = points.mean(axis=0)
        cells = self._round(points)
        self.nlist = max(1, int(np.sqrt(len(points))))
        quantizer = faiss.IndexFlatL2(points.shape[1])
        self._index = faiss.IndexIVFFlat(quantizer, points.shape[1], self.nlist)
        self._index.cp.seed = 0
        self._index.cp.min_points_per_centroid = 1  # few points are no reason to print warnings
        self._index.train(cells)
        self._index.add(cells)
        self.nprobe, self.recall = self._choose_nprobe(cells, k)

    def order(self, points: FloatArray) -> None:
        """Return None: this search gains nothing from an order of its queries."""

    def nearest(self, points: FloatArray, k: int, eps: float) -> Neighbors:
        """Return k near points of each query; ``eps`` is ignored, the recall stands in its place."""
        indices = self._search(self._round(points), k, self.nprobe)
        distances = self._measure(points, indices)
        indptr = equal_rows(len(points), k)
        return Neighbors(indptr, indices.ravel().astype(np.int32), distances.ravel(), distances.max(axis=1))

    def within(self, points: FloatArray, radius: float) -> Neighbors:
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
        centroids = saved_array(saved, "centroids", np.float32, (None, d))
        index.nlist = len(centroids)
        index.nprobe = count(most=index.nlist)("nprobe", saved_value(saved, "nprobe"))
        index.recall = number(0.0)("recall", saved_value(saved, "recall"))
        cells = saved_numbers(saved, "cells", n, index.nlist).astype(np.int64)
        quantizer = faiss.IndexFlatL2(d)
        quantizer.add(centroids)
        index._index = faiss.IndexIVFFlat(quantizer, d, index.nlist)
        rounded = index._round(index.points)  # by name: swig_ptr keeps no array alive
        # the public add would look for each point's cell again
        index._index.add_core(n, faiss.swig_ptr(rounded), None, faiss.swig_ptr(cells))
        return index

    def _round(self, points: FloatArray) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
        return np.ascontiguousarray(points - self.center, dtype=np.float32)

    def _search(self, queries: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", k: int, nprobe: int) -> IntArray:
        """Search with one thread: the recalibrator has its own. Rows that come back short look into more cells."""
        faiss = _import_faiss()
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            found: IntArray = np.asarray(self._search_cells(queries, k, nprobe))
            short = np.flatnonzero((found < 0).any(axis=1))
            while len(short):
                nprobe = min(2 * nprobe, self.nlist)
                found[short] = self._search_cells(queries[short], k, nprobe)
                short = short[(found[short] < 0).any(axis=1)]
        finally:
            faiss.omp_set_num_threads(threads)
        return found

    def _search_cells(
        self, queries: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", k: int, nprobe: int
    ) -> IntArray:
        parameters = _import_faiss().SearchParametersIVF(nprobe=nprobe)
        return self._index.search(queries, k, params=parameters)[1]

    def _measure(self, points: FloatArray, indices: IntArray) -> FloatArray:
        """Return the distances to the points found, in float64, a few rows at a time."""
        distances = np.empty(indices.shape)
        rows = max(1, _BYTES // (8 * indices.shape[1] * points.shape[1]))
        for start in range(0, len(points), rows):
            part = slice(start, start + rows)
            gaps = self.points[indices[part]] - points[part, np.newaxis]
            distances[part] = np.sqrt(np.einsum("rkd,rkd->rk", gaps, gaps))
        return distances

    def _choose_nprobe(self, cells: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", k: int) -> tuple[int, float]:
        queries = cells[:: max(1, len(cells) // _PROBE_QUERIES)]
        exact = [set(row) for row in self._search(queries, k, self.nlist)]
        nprobe = min(self.nlist, max(1, k * self.nlist // len(cells)))
        while True:
            found = self._search(queries, k, nprobe)
            recall = float(np.mean([len(true & set(row)) / k for true, row in zip(exact, found, strict=True)]))
            if recall >= _WANTED_RECALL or nprobe >= self.nlist:
                return nprobe, recall
            nprobe = min(2 * nprobe, self.nlist)


def _import_faiss() -> ModuleType:
    return import_extra("faiss", "faiss", 'search="faiss"')
