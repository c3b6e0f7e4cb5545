"""Shards answer as one index: the same neighbours, ties and duplicates included, however points are shared out."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.space import Found, RowSample, Shard, ShardsInFolder, build_index, build_shards, draw_rows, has_equals
from nearcal.space.shards import ShardsHere


def make_points(rng, n=2000, d=3):
    """Return points on a coarse grid, half of them twice: ties everywhere, and duplicates in different shards."""
    points = np.round(rng.normal(size=(n, d)), 1)
    points[n // 2 :] = points[: n // 2]
    return points


def share_out(points, z, which):
    return ShardsHere(
        [Shard.of(points[which == s], z[which == s], np.flatnonzero(which == s)) for s in np.unique(which)]
    )


def lists(near):
    """Return the neighbours of each query by their numbers, with their distances."""
    found = []
    for start, stop in zip(near.indptr, near.indptr[1:], strict=False):
        order = np.argsort(near.indices[start:stop])
        found.append((near.indices[start:stop][order].tolist(), near.distances[start:stop][order].tolist()))
    return found


@pytest.mark.parametrize("shards", [1, 4, 40])
@pytest.mark.parametrize("by", ["chance", "place"])
def test_neighbours_are_those_of_one_index(shards, by):
    rng = np.random.default_rng(shards)
    points = make_points(rng)
    z, queries = rng.normal(size=len(points)), np.round(rng.normal(size=(60, 3)), 1)
    places = np.argsort(np.argsort(points[:, 0], kind="stable")) * shards // len(points)
    index = share_out(points, z, rng.integers(0, shards, len(points)) if by == "chance" else places)
    one = build_index(points, "euclidean", "boxes", 20)
    for k in (1, 20, 500):
        assert lists(index.nearest(queries, k, 0.0)) == lists(one.nearest(queries, k, 0.0))
    for most in (10**9, 2000, 1):
        assert lists(index.within(queries, 0.5, most)) == lists(one.within(queries, 0.5, most))


@pytest.mark.parametrize("rows_per_shard", [200, 10**6])
def test_a_folder_of_shards(tmp_path, rows_per_shard):
    """Many equal points fill more than a bucket; batches are cut anywhere."""
    rng = np.random.default_rng(1)
    points = make_points(rng, 5000)
    points[:1500] = 0.0
    z = rng.normal(size=5000)
    batches = [(points[a:b], z[a:b]) for a, b in ((0, 1), (1, 777), (777, 4000), (4000, 5000))]
    index = build_shards(tmp_path / "shards", batches, 5000, points[::7].copy(), rows_per_shard)
    queries = np.concatenate([points[::50], rng.normal(size=(20, 3)) * 5])
    one = build_index(points, "euclidean", "boxes", 30)
    assert lists(index.nearest(queries, 30, 0.0)) == lists(one.nearest(queries, 30, 0.0))
    assert lists(index.within(queries, 0.3)) == lists(one.within(queries, 0.3))
    found = index.found_nearest(queries, 30)
    assert np.array_equal(found.z, z[found.rows])
    assert np.array_equal(found.points, points[found.rows])
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]  # nothing is left behind


def test_a_folder_is_complete_or_absent(tmp_path):
    def broken():
        yield np.zeros((5, 2)), np.zeros(5)
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        build_shards(tmp_path / "shards", broken(), 10, np.zeros((3, 2)))
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("do not delete")
    with pytest.raises(nc.ArtefactError, match="folder must be new, or hold shards"):
        build_shards(tmp_path / "notes", [], 1, np.zeros((1, 2)))


@pytest.mark.parametrize("name", ["leaves", "ids", "cut_dim", "shards.json"])
def test_damage_is_noticed(tmp_path, name):
    points = make_points(np.random.default_rng(1), 500)
    index = build_shards(tmp_path / "shards", [(points, points[:, 0].copy())], 500, points)
    path = tmp_path / "shards" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises((nc.ArtefactError, ValueError)):
        ShardsInFolder(tmp_path / "shards", index.digest)
    if name == "cut_dim":  # compiled code finds columns by it
        path.write_bytes(b"\xff\xff\xff\x7f" + whole[4:])
        with pytest.raises(nc.ArtefactError, match="names columns that there are not"):
            ShardsInFolder(tmp_path / "shards")


def test_found_points_are_joined_by_their_numbers():
    some = Found(np.array([1, 5], np.int32), np.ones((2, 2)), np.array([0.1, 0.5]))
    other = Found(np.array([3, 5], np.int32), np.ones((2, 2)), np.array([0.3, 0.5]))
    joined = Found.joined([some, other], 2)
    assert joined.rows.tolist() == [1, 3, 5]
    assert joined.z.tolist() == [0.1, 0.3, 0.5]


def test_a_sample_does_not_depend_on_parts():
    rng = np.random.default_rng(1)
    space, z = rng.normal(size=(1000, 2)), rng.normal(size=1000)
    whole = RowSample.of(space, z, 0, 50, 3)
    assert np.array_equal(np.sort(whole.rows), draw_rows(1000, 50, 3))
    assert np.array_equal(whole.space, space[whole.rows])
    sample = None
    for start in range(0, 1000, 130):
        sample = RowSample.of(space[start : start + 130], z[start : start + 130], start, 50, 3, sample)
    assert np.array_equal(sample.rows, whole.rows)
    late = RowSample.of(space[400:], z[400:], 400, 50, 3).joined(RowSample.of(space[:400], z[:400], 0, 50, 3), 50)
    assert np.array_equal(late.rows, whole.rows)
    # the share of rows below 500: 25 ± 3.5 by chance
    assert abs((whole.rows < 500).sum() - 25) < 12
    assert set(draw_rows(1000, 50, 4)) != set(whole.rows)


def test_equal_numbers_are_found_through_files(tmp_path, monkeypatch):
    monkeypatch.setattr("nearcal.space.row_sample._IN_MEMORY", 100)
    x = np.random.default_rng(1).normal(size=1000)
    for number, (batches, expected) in enumerate(
        [([x[:500], x[500:]], False), ([x[:500], x[500:], x[3:4]], True), ([np.array([0.0]), np.array([-0.0])], True)]
    ):
        (tmp_path / str(number)).mkdir()
        assert has_equals(batches, 1000, tmp_path / str(number)) == expected
