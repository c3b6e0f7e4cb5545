"""faiss's inverted file: its recall is what it says, and no coordinates stop it."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import nearcal as nc
from nearcal.space._faiss import FaissIndex

pytest.importorskip("faiss")


def test_faiss_reports_its_recall():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(20_000, 8)), rng.normal(size=(200, 8))
    y = rng.normal(size=20_000)
    approximate, exact = (
        nc.LocalRecalibrator(k=100, search=search).fit(nc.Normal(np.zeros(20_000), 1.0), y, x)
        for search in ("faiss", "brute")
    )
    assert 0.95 <= approximate.index_.recall <= 1
    outs = [rc.recalibrate(nc.Normal(np.zeros(200), 1.0), new) for rc in (approximate, exact)]
    found = [[set(row) for row in out.neighbors(slice(None)).indices] for out in outs]
    assert np.mean([len(a & b) / 100 for a, b in zip(*found, strict=True)]) > 0.9
    with pytest.raises(nc.InvalidParameterError, match="k nearest only"):
        nc.LocalRecalibrator(radius=1.0, search="faiss").fit(nc.Normal(np.zeros(20_000), 1.0), y, x)


def test_faiss_finds_k_where_the_nearest_cells_are_nearly_empty():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(2000, 2)), 100 + rng.normal(size=(3, 2))])
    rc = nc.LocalRecalibrator(k=50, search="faiss").fit(nc.Normal(np.zeros(2003), 1.0), rng.normal(size=2003), x)
    indices = rc.recalibrate(nc.Normal([0.0], 1.0), [[100.0, 100.0]]).neighbors(0).indices[0]
    assert len(set(indices)) == 50
    assert (indices >= 0).all()


# ---- extreme coordinates --------------------------------------------------------------------------------------------

SCALES = [5e-324, 1e-300, 1e-150, 1e-25, 1e19, 1e38, 1e149]


def true_recall(index, queries, k):
    """The share of what is found that is at most as far as the true k-th."""
    found = index.nearest(queries, k, 0.0).indices.reshape(len(queries), k)
    distances = cdist(queries, index.points)
    assert all(len(set(row)) == k for row in found.tolist())
    kth = np.sort(distances, axis=1)[:, k - 1 : k]
    return (np.take_along_axis(distances, found, axis=1) <= kth).mean()


def test_coordinates_that_once_aborted_the_process():
    """In a process of its own, since an abort cannot be caught and a loop that never ends has to be stopped."""
    code = f"""
import numpy as np
from nearcal.space._faiss import FaissIndex
rng = np.random.default_rng(0)
points = rng.normal(size=(2000, 4))
for scale in {SCALES}:
    index = FaissIndex(scale * points, 50)
    for far in (1.0, 1e20, 1e150):
        found = index.nearest(np.minimum(scale * far, 1e150) * rng.normal(size=(3, 4)), 50, 0.0)
        assert np.isfinite(found.distances).all() and (0 <= found.indices).all() and (found.indices < 2000).all()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize("scale", SCALES)
def test_recall_does_not_depend_on_the_unit(scale):
    rng = np.random.default_rng(1)
    points, queries = rng.normal(size=(5000, 6)), rng.normal(size=(50, 6))
    index = FaissIndex(points * scale, 50)
    assert index.recall >= 0.95
    assert true_recall(index, queries * scale, 50) >= 0.9


@pytest.mark.parametrize("outlier", [1e10, 1e30, 1e100])
def test_one_outlier_costs_the_others_nothing(outlier):
    rng = np.random.default_rng(2)
    points, queries = rng.normal(size=(5000, 6)), rng.normal(size=(50, 6))
    points[7] = outlier
    assert true_recall(FaissIndex(points, 50), queries, 50) >= 0.9


def test_far_queries_find_what_is_near_them():
    rng = np.random.default_rng(3)
    points, directions = rng.normal(size=(5000, 6)), rng.normal(size=(50, 6))
    index = FaissIndex(points, 50)
    for far in (10.0, 1e3, 1e6, 1e9):
        assert true_recall(index, far * directions, 50) >= 0.75  # float32 tells fewer apart the farther the query is


def test_recall_is_measured_in_double_precision():
    """Points that float32 cannot tell apart."""
    rng = np.random.default_rng(4)
    points = np.concatenate([rng.normal(size=(10, 3)), 3 + 1e-9 * rng.normal(size=(2000, 3))])
    points[:10] += 1e4  # the unit is that of most points; their own differences are far below it
    points[5:2005] += np.repeat(rng.normal(size=(20, 3)), 100, axis=0)
    index = FaissIndex(points, 20)
    probes = points[:: max(1, len(points) // 64)]
    assert index.recall == pytest.approx(true_recall(index, probes, 20), abs=1e-12)


def test_duplicates_count_as_found():
    points = np.repeat(np.random.default_rng(5).normal(size=(20, 3)), 100, axis=0)
    assert FaissIndex(points, 30).recall == 1.0


def test_all_points_in_one_place():
    index = FaissIndex(np.full((300, 2), 1e30), 10)
    assert index.recall == 1.0
    np.testing.assert_allclose(index.nearest(np.zeros((1, 2)), 10, 0.0).distances, np.hypot(1e30, 1e30), rtol=1e-15)


def test_rows_that_all_cells_together_leave_short_are_scanned():
    rng = np.random.default_rng(6)
    index = FaissIndex(rng.normal(size=(500, 3)), 10)
    index._search_cells = lambda queries, k, nprobe: np.full((len(queries), k), -1)
    assert true_recall(index, rng.normal(size=(5, 3)), 10) == 1.0
