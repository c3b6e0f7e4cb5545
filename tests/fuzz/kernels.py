"""Attacks on the compiled kernels, over random and extreme arrays, against their slow twins.

Where numbers are no numbers there is nothing to compare: then a kernel shall index with nothing that it has not
checked, which ``python -m tests.fuzz.kernels SEED CASES``, run with NUMBA_BOUNDSCHECK=1, sees.
"""

import itertools
import sys
import traceback
import zlib

import numpy as np

import nearcal as nc
from nearcal.kernels import (
    adjust,
    leave_one_out,
    lines,
    pinball,
    quantiles,
    rank_order,
    select,
    series,
    sorted_rows,
    summary,
    trees,
    trend,
    weighted_leave_one_out,
    weights,
)  # fmt: skip
from nearcal.recalibration import SMOOTHINGS
from nearcal.recalibration.neighborhoods import smoothing_code
from nearcal.space import IndexPlan, _exact, grow
from tests import reference

LEVELS = np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 0.9, 1 - 1e-16, 1.0])
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1e155, 1.0])


def _values(rng, n):
    """Return n numbers and whether they are moderate, so that twins can be compared."""
    values = rng.normal(size=n)
    match rng.integers(4):
        case 0:
            return np.round(values), True
        case 1:
            return values, True
        case 2:
            return values * 10.0 ** rng.uniform(-300, 300, n), False
    odd = rng.random(n) < rng.choice([0.05, 0.5, 1.0])
    return np.where(odd, rng.choice(ODD, n), values), False


def _neighborhoods(rng):
    """Return indptr, indices and weights, and the number of points."""
    n = int(rng.integers(1, 600))
    lengths = rng.integers(1, n + 1, size=int(rng.integers(1, 5)))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([rng.permutation(n)[:length] for length in lengths]).astype(np.int32)
    own = rng.uniform(size=len(indices)) * (rng.random(len(indices)) < rng.choice([0.2, 1.0]))
    for a, b in itertools.pairwise(indptr):
        own[a] += 1e-3
        own[a:b] /= own[a:b].sum()
    return n, indptr, indices, own


def _each(indptr):
    return enumerate(map(slice, indptr, indptr[1:]))


# ---- searches -------------------------------------------------------------------------------------------------------


def attack_searches(rng):
    n, d = int(rng.choice([1, 2, 63, 64, 65, 300, 2100])), int(rng.choice([1, 2, 5, 17]))
    points = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-140, 140, d if rng.random() < 0.3 else 1)
    if rng.random() < 0.4:
        points = np.round(3 * points / np.abs(points).max())
    queries = np.concatenate(
        [points[rng.integers(n, size=4)], points[rng.integers(n, size=4)] * rng.normal(size=(4, d))]
    )
    k, eps = min(n, int(rng.choice([1, 3, 70, 2100]))), float(rng.choice([0.0, 0.0, 2.0]))
    structures = [_exact.LeafBoxes, _exact.BlockedBrute] + [_exact.SortedLine] * (d == 1)
    squares = reference.squares(points, queries)
    expected = np.sort(np.argsort(squares, axis=1, kind="stable")[:, :k], axis=1)
    radius = float(np.sqrt(np.sort(squares[0])[k - 1]))
    for structure in structures:
        index = structure(points)
        if eps == 0:
            found = index.nearest(queries, k, eps).indices.reshape(-1, k)
            np.testing.assert_array_equal(np.sort(found, axis=1), expected)
        within = index.within(queries, radius, int(rng.choice([0, 100, 10**9])))
        counts = (np.sqrt(squares) <= radius).sum(axis=1)
        np.testing.assert_array_equal(np.diff(within.indptr), counts[: len(within.radius)])
        odd = queries.copy()
        odd[rng.integers(len(odd)), rng.integers(d)] = rng.choice(ODD[:3])
        found = index.nearest(odd, k, eps).indices
        assert ((found >= 0) & (found < n)).all()
        index.within(odd, radius)


def attack_growing(rng):
    """The nearest of two structures, some points of which are forgotten, as those of one."""
    n, d = int(rng.choice([20, 65, 300, 1100])), int(rng.choice([1, 2, 5, 17]))
    points = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-140, 140)
    if rng.random() < 0.5:
        points = np.round(3 * points / np.abs(points).max())
    first, kept = (
        int(rng.integers(n - n // 8, n + 1)),
        np.sort(rng.permutation(n)[: int(rng.integers(n - n // 4, n + 1))]),
    )
    plan = IndexPlan("euclidean", str(rng.choice(["boxes", "brute"])), 3, 0.0)
    index = grow(plan.build(points[:first]), lambda: points[:first], plan)
    index = index.extended(points[first:]).restricted(kept) if first < n else index.restricted(kept)
    queries = np.concatenate([points[rng.integers(n, size=4)], points[:4] * rng.normal(size=(4, d))])
    squares = reference.squares(points[kept], queries)
    for k in {1, int(rng.integers(1, len(kept) + 1)), len(kept)}:
        expected = np.sort(np.argsort(squares, axis=1, kind="stable")[:, :k], axis=1)
        np.testing.assert_array_equal(np.sort(index.nearest(queries, k, 0.0).indices.reshape(-1, k)), expected)
        odd = queries.copy()
        odd[rng.integers(len(odd)), rng.integers(d)] = rng.choice(ODD)
        found = index.nearest(odd, k, 0.0).indices
        assert ((found >= 0) & (found < len(kept))).all()


# ---- neighbourhoods -------------------------------------------------------------------------------------------------


def attack_weighted_quantiles(rng):
    n, indptr, indices, own = _neighborhoods(rng)
    scores, moderate = _values(rng, n)
    which = np.append(np.arange(len(indptr) - 1), -1)
    levels = np.tile(LEVELS, (len(which), 1))
    found = quantiles.weighted_quantiles(indptr, indices, own, scores, which, levels)
    if moderate:
        for row, part in _each(indptr):
            expected = [reference.weighted_quantile(scores[indices[part]], own[part], p) for p in LEVELS]
            np.testing.assert_array_equal(found[row], expected)
    odd = _values(rng, len(own))[0]
    quantiles.weighted_quantiles(
        indptr, indices, odd, scores, which, _values(rng, levels.size)[0].reshape(levels.shape)
    )


def attack_summaries(rng):
    n, indptr, indices, own = _neighborhoods(rng)
    scores, moderate = _values(rng, n)
    mean, variance = summary.weighted_moments(indptr, indices, own, scores)
    which, threshold = np.arange(len(indptr) - 1), float(scores[0])
    below, above = summary.weight_below(indptr, indices, own, scores, which, np.full((len(which), 1), threshold))
    lengths = np.diff(indptr)
    table = np.zeros((len(lengths), lengths.max()))
    inside = np.arange(lengths.max()) < lengths[:, np.newaxis]
    table_weights = table.copy()
    table[inside], table_weights[inside] = scores[indices], own
    row_mean, row_variance = summary.row_moments(table, table_weights)
    if moderate:
        for row, part in _each(indptr):
            s, w = scores[indices[part]], own[part]
            for found in ((mean[row], variance[row]), (row_mean[row], row_variance[row])):
                np.testing.assert_allclose(found, reference.weighted_moments(s, w), rtol=1e-9, atol=1e-12)
            expected = reference.weight_below(s, w, threshold)
            np.testing.assert_allclose((below[row, 0], above[row, 0]), expected, rtol=1e-9, atol=1e-14)


def attack_weigh(rng):
    _, indptr, indices, _ = _neighborhoods(rng)
    distances, moderate = _values(rng, len(indices))
    smoothing = str(rng.choice(SMOOTHINGS))
    distances = np.abs(distances)
    radius = np.array([distances[part].max() for _, part in _each(indptr)])
    own = weights.weigh(indptr, distances, radius, smoothing_code(smoothing))[0]
    if moderate:
        for row, part in _each(indptr):
            expected = reference.kernel_weights(distances[part], radius[row], smoothing)
            np.testing.assert_allclose(own[part], expected, rtol=1e-9, atol=1e-14)


def attack_weigh_points(rng):
    _, indptr, indices, shares = _neighborhoods(rng)
    distances, moderate = _values(rng, len(indices))
    smoothing, distances = str(rng.choice(SMOOTHINGS)), np.abs(distances)
    if rng.random() < 0.3:
        shares, moderate = np.abs(_values(rng, len(shares))[0]), False
    radius = np.array([distances[part].max() for _, part in _each(indptr)])
    own, _, beside = weights.weigh_points(indptr, distances, shares, radius, smoothing_code(smoothing))
    if moderate:
        for row, part in _each(indptr):
            expected = reference.point_weights(distances[part], shares[part], radius[row], smoothing)
            np.testing.assert_allclose(own[part], expected[0], rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(beside[row], expected[1], rtol=1e-9, atol=1e-14)


def attack_weighted_leave_one_out(rng):
    _, indptr, indices, shares = _neighborhoods(rng)
    rows, lengths = len(indptr) - 1, np.diff(indptr)
    distances, moderate = _values(rng, len(indices))
    distances, values = np.abs(distances), np.zeros((rows, lengths.max()))
    order = np.empty(len(indices), dtype=np.int64)
    for row, part in _each(indptr):
        distances[part] = np.sort(distances[part])
        values[row, : lengths[row]] = np.sort(rng.normal(size=lengths[row]))
        order[part] = rng.permutation(lengths[row])
    shares = lengths.mean() * shares + 1e-3 if moderate else np.abs(_values(rng, len(shares))[0])
    y, sizes = rng.normal(size=rows), np.array([np.inf, 10.0, rng.uniform(0.01, 3)])
    kinds = np.array([smoothing_code(smoothing) for smoothing in SMOOTHINGS])
    crps = np.empty((rows, len(sizes), len(kinds)))
    weighted_leave_one_out.weighted_prefix_crps(indptr, distances, shares, order, values, y, sizes, kinds, crps)
    if moderate:
        for row, part in _each(indptr):
            kept, near, cut = reference.nearest_of_weight(distances[part], shares[part], sizes[1])
            own = reference.point_weights(near, cut, near.max(), SMOOTHINGS[0])[0]
            sample = np.empty(lengths[row])
            sample[order[part]] = values[row, : lengths[row]]
            expected = reference.sample_crps(sample[kept], own, y[row])
            np.testing.assert_allclose(crps[row, 1, 0], expected, rtol=1e-8, atol=1e-10)


def attack_adjust_linear(rng):
    n, indptr, indices, own = _neighborhoods(rng)
    d, groups = int(rng.integers(1, 10)), len(indptr) - 1
    scores, moderate = _values(rng, n)
    points, fine = _values(rng, n * d)
    points, queries = points.reshape(n, d), rng.normal(size=(groups, d))
    points.flags.writeable = False
    least = 5 * (d + 1)
    found = adjust.adjust_linear(
        indptr, indices, own, points, queries, np.arange(groups), scores[indices], least, 1e-3,
        adjust.make_workroom(indptr, d),
    )  # fmt: skip
    for row, part in _each(indptr):
        expected, counts = scores[indices[part]], own[part] > 0
        # fewer points than slopes leave the twin's pseudo-inverse without digits
        if moderate and fine and counts.sum() > 2 * least:
            expected = reference.local_linear(points[indices[part]], queries[row], own[part], expected, 1e-3)
            np.testing.assert_allclose(found[part][counts], expected[counts], rtol=1e-7, atol=1e-7)


# ---- leave one out --------------------------------------------------------------------------------------------------


def attack_leave_one_out(rng):
    n = int(rng.integers(2, 90))
    k, points = int(rng.integers(1, n)), np.round(rng.normal(size=(n, 2)), int(rng.integers(3)))
    found, distances = np.empty((n, k + 1), np.int32), np.empty((n, k + 1))
    for row in range(n):
        found[row], distances[row] = reference.nearest(points, points[row], k + 1)
    if rng.random() < 0.3:
        distances = np.abs(_values(rng, distances.size)[0]).reshape(distances.shape)
    kept, kept_distances = np.empty((n, k), np.int32), np.empty((n, k))
    leave_one_out.drop_own(found, distances, np.arange(n), kept, kept_distances)
    if np.isfinite(distances).all():
        for row in range(n):
            np.testing.assert_array_equal(kept[row], reference.without_own(found[row], distances[row], row)[0])
    ranks = rng.permutation(n).astype(np.int32)
    places = rank_order.places_by_rank(np.arange(n + 1) * k, kept.ravel(), ranks)
    ordered, ordered_distances = kept.ravel()[places].reshape(n, k), kept_distances.ravel()[places].reshape(n, k)
    np.testing.assert_array_equal(ordered, np.take_along_axis(kept, np.argsort(ranks[kept], axis=1), axis=1))
    values, moderate = _values(rng, n)
    values, y = np.sort(values)[ranks], rng.normal(size=n)
    sizes = np.array(sorted({k, int(rng.integers(1, k + 1))}, reverse=True))
    kinds = np.array([smoothing_code(smoothing) for smoothing in SMOOTHINGS])
    crps = np.empty((n, len(sizes), len(kinds)))
    scratch = select.make_scratch(k)
    leave_one_out.prefix_crps(ordered, ordered_distances, values[ordered], y, sizes, kinds, scratch, crps)
    if moderate and np.isfinite(distances).all():
        for row, kind in itertools.product(range(n), range(len(kinds))):
            own = reference.kernel_weights(ordered_distances[row], ordered_distances[row].max(), SMOOTHINGS[kind])
            expected = reference.sample_crps(values[ordered[row]], own, y[row])
            np.testing.assert_allclose(crps[row, 0, kind], expected, rtol=1e-8, atol=1e-10)


def attack_sample_crps(rng):
    rows, width = int(rng.integers(1, 9)), int(rng.integers(1, 400))
    values, moderate = _values(rng, rows * width)
    values, weights = values.reshape(rows, width), rng.dirichlet(np.ones(width), rows)
    y, crps = rng.normal(size=rows), np.empty(rows)
    leave_one_out.sample_crps(values, weights, y, crps)
    if moderate:
        expected = [reference.sample_crps(*row) for row in zip(values, weights, y, strict=True)]
        np.testing.assert_allclose(crps, expected, rtol=1e-8, atol=1e-10)


def attack_tree_relevance(rng):
    n, d, least = int(rng.integers(4, 90)), int(rng.integers(1, 6)), int(rng.integers(1, 6))
    columns, moderate = _values(rng, n * d)
    columns, rows = columns.reshape(d, n), rng.permutation(n)
    targets = np.round(8 * rng.normal(size=(n, 2)))
    draws = (
        rng.choice([0.0, 0.5, np.nextafter(1, 0)], size=(20, 3, 2)) if rng.random() < 0.3 else rng.random((20, 3, 2))
    )
    half, found = n // 2, np.zeros(d)
    trees.tree_relevance(columns, targets, rows[:half].copy(), rows[half:].copy(), draws, least, found)
    if moderate:
        expected = reference.tree_relevance(columns, targets, rows[:half], rows[half:], draws, least)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


# ---- functions ------------------------------------------------------------------------------------------------------


def attack_sorted_rows(rng):
    rows, width, q = (int(size) for size in rng.integers(1, [5, 60, 9]))
    table, values = (np.nan_to_num(_values(rng, rows * size)[0], nan=0.0) for size in (width, q))
    table = np.sort(table.reshape(rows, width))
    values = np.where(rng.random((rows, q)) < 0.3, rng.choice(table, size=q, axis=1), values.reshape(rows, q))
    counts = sorted_rows.count_not_above(table, values)
    for row in range(rows):
        np.testing.assert_array_equal(counts[row], np.searchsorted(table[row], values[row], side="right"))
    own = np.where(rng.random((rows, width)) < 0.3, 0.0, rng.random((rows, width)))
    own[:, int(rng.integers(width))] += 0.1
    own /= own.sum(axis=1, keepdims=True)
    size = rng.choice([np.nan, 1.0, 30.0], size=rows)
    below, above, place = np.empty(own.shape), np.empty(own.shape), np.empty(own.shape, np.int64)
    squares = sorted_rows.middle_shares(own, size, below, above, place)
    for row in range(rows):
        expected = reference.middle_shares(own[row], size[row])
        np.testing.assert_allclose((below[row], above[row]), expected[:2], rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(place[row], expected[2])
    np.testing.assert_allclose(squares, (own**2).sum(axis=1), rtol=1e-12)


def attack_average_crps(rng):
    rows, width, count = (int(size) for size in rng.integers(1, [9, 60, 20]))
    total, table, y = (_values(rng, size) for size in (rows * width, rows * width, rows))
    levels, shares, found = np.sort(rng.random(width)), rng.random(width), np.empty(rows)
    tables = total[0].reshape(rows, width), table[0].reshape(rows, width)
    pinball.write_average_crps(*tables, float(count), y[0], levels, shares, found)
    if total[1] and table[1] and y[1]:
        above = y[0][:, np.newaxis] - (tables[0] + tables[1]) / count
        expected = shares * np.maximum(levels * above, (levels - 1) * above)
        np.testing.assert_allclose(found, expected.sum(axis=1), rtol=1e-10, atol=1e-10)


def attack_read_lines(rng):
    rows, width, q = (int(size) for size in rng.integers(1, [5, 60, 90]))
    scores, knots, z = (_values(rng, rows * size) for size in (width, width, q))
    own = 1 if rng.random() < 0.5 else rows
    tables = [np.sort(numbers.reshape(rows, width), axis=1) for numbers, _ in (scores, knots)]
    tables = [tables[0][:own], tables[1], np.ones((rows, 1)), np.zeros((rows, 1)), z[0].reshape(rows, q)]
    for table in tables:
        table.flags.writeable = False  # as kernels are given them
    found = np.empty((rows, q))
    lines.read_lines(*tables, found)
    if scores[1] and knots[1] and z[1]:
        np.testing.assert_allclose(found, reference.lines(*tables), rtol=1e-12, atol=1e-12)


def attack_add_bumps(rng):
    rows, centers, columns = (int(size) for size in rng.integers(1, [9, 40, 6]))
    points, moderate = _values(rng, rows * columns)
    around, heights, found = rng.normal(size=(centers, columns)), rng.normal(size=centers), np.empty(rows)
    shape = rng.choice(["gaussian", "laplace"])
    trend.add_bumps(points.reshape(rows, columns), around, heights, bool(shape == "gaussian"), found)
    if moderate:
        expected = reference.bumps(points.reshape(rows, columns), around, heights, shape)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def attack_evaluate_series(rng):
    rows, panels, terms, width = (int(size) for size in rng.integers(1, [5, 4, 20, 40]))
    coefficients, moderate = _values(rng, rows * panels * terms)
    coefficients = coefficients.reshape(rows, panels, terms)
    panel, x = rng.integers(0, panels, size=(rows, width)), rng.uniform(-1, 1, size=(rows, width))
    values = np.empty((rows, width))
    series.evaluate_series(coefficients, panel, x, values)
    if moderate:
        expected = reference.chebyshev_series(coefficients, panel, x)
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)


def attack_gamma_tails(rng):
    """Scores so far out that probabilities underflow come back; tests/kernels holds the tails against mpmath."""
    dist = nc.Gamma(10.0 ** rng.uniform(0.5, 4, size=6), 1.0)
    z = np.where(rng.random(6) < 0.5, rng.uniform(36.5, 300, 6), rng.uniform(-60, -36.5, 6))
    y = dist.from_z(z)
    inside = y > 1e-290
    np.testing.assert_allclose(dist.z(y)[inside], z[inside], rtol=1e-9)


# every kernel that Python calls, by module and name, under the attack that reaches it
ATTACKS = {
    attack_searches: [
        "boxes.query_boxes", "brute.query_blocks", "filter.round_off", "filter.shrink_rows", "line.fill_line",
        "line.query_line", "line.reach_line", "radius.within_blocks", "radius.within_boxes", "tree._cut",
        "tree.write_leaves",
    ],
    attack_growing: ["growing.merge_nearest"],
    attack_weighted_quantiles: ["quantiles.write_quantiles"],
    attack_summaries: ["summary.write_row_moments", "summary.write_weight_below", "summary.write_weighted_moments"],
    attack_weigh: ["weights.write_weights"],
    attack_weigh_points: ["weights.write_weights_of_points"],
    attack_weighted_leave_one_out: ["weighted_leave_one_out.write_weighted_prefix_crps"],
    attack_adjust_linear: ["adjust.adjust_all"],
    attack_leave_one_out: ["leave_one_out.drop_own", "leave_one_out.write_prefix_crps", "rank_order.write_places"],
    attack_sorted_rows: ["sorted_rows.write_counts", "sorted_rows.write_middle_shares"],
    attack_average_crps: ["pinball.write_average_crps"],
    attack_read_lines: ["lines.read_lines"],
    attack_sample_crps: ["leave_one_out.write_sample_crps"],
    attack_tree_relevance: ["trees.add_relevance"],
    attack_add_bumps: ["trend.add_bumps"],
    attack_evaluate_series: ["series.write_series"],
    attack_gamma_tails: [
        "gamma_tails.log_lower", "gamma_tails.log_upper", "gamma_tails.lower_quantiles", "gamma_tails.upper_quantiles",
    ],
}  # fmt: skip


def main(seed, cases):
    """Do the cases of every attack, and print what fails."""
    failed = 0
    for attack in ATTACKS:
        for number in range(cases):
            rng = np.random.default_rng([seed, zlib.crc32(attack.__name__.encode()), number])
            try:
                with np.errstate(all="ignore"):
                    attack(rng)
            except Exception:
                failed += 1
                print(f"{attack.__name__}, seed {seed}, case {number}\n{traceback.format_exc(limit=-3)}")
                break
    print(f"{len(ATTACKS) * cases} cases")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
