"""Attack the code that computes its own addresses, with arrays that end, or begin, exactly at a page nobody may touch.

Run as a program, in a process of its own: a wrong bound kills it. ``python -m tests.fuzz.guarded SUBJECTS SEED FIRST
LAST`` does the cases FIRST to LAST - 1 of each subject; a fifth argument makes them wrong on purpose, at the end of
arrays that end at the guard (1) or begin at it (2). What is written beside an array, on the side without a guard, is
seen as well: a pattern stands there.
"""

import ctypes
import itertools
import mmap
import sys

import numba as nb
import numpy as np

from nearcal.kernels.filter import BLOCK
from nearcal.kernels.vector import ROWS, STRIP, bits, from_bits, lowest_bit, mark_strip, score_strip, sum_squares
from nearcal.space import _exact
from tests import reference

_PATTERN = 0xA5
_NO_ACCESS = 0  # PROT_NONE, which mmap does not name
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Pages:
    """Memory between two pages that may not be touched; ``at_end`` says which of the two arrays lie against."""

    def __init__(self, at_end):
        self.at_end = at_end
        self._mapped, self._slack = [], []

    def copy(self, array):
        """Copy an array to the edge of its own memory."""
        array = np.ascontiguousarray(array)
        if array.nbytes == 0:
            return array
        page = mmap.PAGESIZE
        room = -(-array.nbytes // page) * page
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = _LIBC.mmap(None, room + 2 * page, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
        assert start not in (None, ctypes.c_void_p(-1).value), "no memory"
        for guard in (start, start + page + room):
            assert _LIBC.mprotect(guard, page, _NO_ACCESS) == 0
        inside = np.frombuffer((ctypes.c_uint8 * room).from_address(start + page), np.uint8)
        inside[:] = _PATTERN
        edge = room - array.nbytes
        own, slack = (inside[edge:], inside[:edge]) if self.at_end else (inside[: array.nbytes], inside[array.nbytes :])
        copied = own.view(array.dtype).reshape(array.shape)
        copied[...] = array
        copied.flags.writeable = array.flags.writeable
        self._mapped.append((start, room + 2 * page))
        self._slack.append(slack)
        return copied

    def copy_all(self, arrays):
        """Copy the arrays of a named tuple, and of those in it."""
        return type(arrays)(*(self._copy_field(value) for value in arrays))

    def _copy_field(self, value):
        if isinstance(value, tuple):
            return self.copy_all(value)
        return self.copy(value) if isinstance(value, np.ndarray) else value

    def check(self):
        """Assert that nothing beside an array was written, and give the memory back."""
        for slack in self._slack:
            assert (slack == _PATTERN).all(), "written beside an array"
        for start, size in self._mapped:
            _LIBC.munmap(start, size)


# ---- one operation at a time ----------------------------------------------------------------------------------------


@nb.njit(cache=True)
def _call_sum_squares(rows, query, n_quads, out):
    at, stride = rows.ctypes.data, rows.strides[0]
    sum_squares(at, at + stride, at + 2 * stride, at + 3 * stride, query.ctypes.data, n_quads, out.ctypes.data)


@nb.njit(cache=True)
def _call_score_strip(strip, n_pairs, queries, steps, half_norms, query_steps, out):
    score_strip(
        strip.ctypes.data, n_pairs, queries.ctypes.data, queries.strides[0], steps.ctypes.data, half_norms.ctypes.data,
        query_steps.ctypes.data, out.ctypes.data, out.strides[0],
    )  # fmt: skip


@nb.njit(cache=True)
def _call_mark_strip(strip, n_pairs, queries, steps, half_norms, query_steps, cuts, out):
    mark_strip(
        strip.ctypes.data, n_pairs, queries.ctypes.data, queries.strides[0], steps.ctypes.data, half_norms.ctypes.data,
        query_steps.ctypes.data, cuts.ctypes.data, out.ctypes.data, out.strides[0],
    )  # fmt: skip


@nb.njit(cache=True)
def _call_lowest_bit(word):
    return lowest_bit(word)


@nb.njit(cache=True)
def _call_bits(x):
    return bits(x)


@nb.njit(cache=True)
def _call_from_bits(word):
    return from_bits(word)


def attack_sum_squares(rng, pages, wrong):
    d = 4 * int(rng.integers(1, 80))
    rows, query, out = (pages.copy(rng.normal(size=shape)) for shape in ((4, d), (d,), (4,)))
    _call_sum_squares(rows, query, d // 4 + wrong, out)
    expected = reference.squares(rows, query[np.newaxis])[0]
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def _strip(rng, pages):
    n_pairs = int(rng.integers(1, 60))
    strip = pages.copy(rng.integers(-500, 500, size=(n_pairs, STRIP, 2)).astype(np.int16))
    queries = pages.copy(rng.integers(-500, 500, size=(ROWS, 2 * n_pairs)).astype(np.int16))
    steps, half_norms, query_steps = (
        pages.copy(rng.uniform(0.1, 1, size=size).astype(np.float32)) for size in (STRIP, STRIP, ROWS)
    )
    points = strip.transpose(1, 0, 2).reshape(STRIP, -1).astype(np.int64)
    dots = queries.astype(np.int64) @ points.T
    scores = dots * query_steps[:, np.newaxis].astype(float) * steps + half_norms
    return (strip, n_pairs, queries, steps, half_norms, query_steps), scores


def attack_score_strip(rng, pages, wrong):
    (strip, n_pairs, *others), scores = _strip(rng, pages)
    out = pages.copy(np.zeros((ROWS, STRIP), np.float32))
    _call_score_strip(strip, n_pairs + wrong, *others, out)
    np.testing.assert_allclose(out, scores, rtol=1e-5, atol=1e-5)


def attack_mark_strip(rng, pages, wrong):
    (strip, n_pairs, *others), scores = _strip(rng, pages)
    order = np.sort(scores, axis=1)
    cuts = pages.copy((order[:, STRIP // 2 - 1 : STRIP // 2 + 1].mean(axis=1)).astype(np.float32))
    # wrong: the bits of the last row have no place
    out = pages.copy(np.zeros((ROWS - wrong, STRIP // 8), np.uint8))
    _call_mark_strip(strip, n_pairs, *others, cuts, out)
    marked = np.unpackbits(out, axis=1, bitorder="little").astype(bool)
    clear = np.abs(scores - cuts[:, np.newaxis]) > 1e-3 * (1 + np.abs(scores))
    expected = scores >= cuts[:, np.newaxis]
    for row in range(len(out)):
        np.testing.assert_array_equal(marked[row, clear[row]], expected[row, clear[row]])


def attack_lowest_bit(rng, pages, wrong):
    bit = int(rng.integers(64))
    word = np.uint64(1) << np.uint64(bit) | np.uint64(int(rng.integers(2**62)) << bit & (2**64 - 1))
    assert _call_lowest_bit(np.uint64(word)) == bit


def _any_word(rng):
    return np.int64(rng.integers(-(2**63), 2**63))


def attack_bits(rng, pages, wrong):
    word = _any_word(rng)
    assert _call_bits(word.view(np.float64)) == word


def attack_from_bits(rng, pages, wrong):
    word = _any_word(rng)
    assert np.float64(_call_from_bits(word)).view(np.int64) == word


# ---- the searches that use them -------------------------------------------------------------------------------------


def _guard(index, pages):
    """Let all that a search reads and writes lie at guarded pages."""
    index.blocks = pages.copy_all(index.blocks)
    if index.thinned is not None:
        _guard(index.thinned, pages)


def _guard_scratch(rng, pages, index, k):
    """The same for scratch, with as little room for candidates as k must do with: once full, it is used to the end."""
    make_batch, empty_nearest, freeze = _exact.make_batch, _exact._empty_nearest, _exact._freeze

    def guarded_batch(n_rows, room, blocks):
        if blocks is index.blocks:  # thinned points are asked for another number
            room = min(room, k + BLOCK + int(rng.integers(4)))
        batch = pages.copy_all(make_batch(n_rows, room, blocks))
        return batch._replace(reached_by_four=batch.reached.view(np.uint32))

    _exact.make_batch = guarded_batch
    _exact._empty_nearest = lambda *args: pages.copy_all(empty_nearest(*args))
    _exact._freeze = lambda array: freeze(pages.copy(array))


def _points(rng, many):
    n = int(rng.integers(2**18, 300_000)) if many else int(rng.choice([1, 3, 255, 256, 257, 700, 2100, 5000]))
    d = int(rng.integers(1, 6)) if many else int(rng.integers(1, 40))
    points = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-100, 100)
    if rng.random() < 0.3:
        points = points[rng.integers(max(n // 9, 1), size=n)]
    if rng.random() < 0.5:  # two clusters that the filter cannot see into: all of their points are candidates
        points += 1e5 * points.std() * rng.choice([-1.0, 1.0], size=(n, 1))
    queries = np.concatenate([points[rng.integers(n, size=5)], 3 * points.std() * rng.normal(size=(6, d))])
    return points, queries[: int(rng.integers(1, 12))]


def _search(rng, pages, many):
    points, queries = _points(rng, many)
    index = _exact.BlockedBrute(points)
    assert (index.thinned is not None) == many
    _guard(index, pages)
    k = min(len(points), int(rng.choice([1, 5, 100, 3000])))
    _guard_scratch(rng, pages, index, k)
    found = index.nearest(queries, k, 0.0)
    squares = reference.squares(points, queries)
    expected = np.sort(np.argsort(squares, axis=1, kind="stable")[:, :k], axis=1)
    np.testing.assert_array_equal(np.sort(found.indices.reshape(-1, k), axis=1), expected)
    radius = float(np.sqrt(np.sort(squares[0])[min(k, 500) - 1]))
    within = index.within(queries, radius)
    np.testing.assert_array_equal(np.diff(within.indptr), (np.sqrt(squares) <= radius).sum(axis=1))


def attack_search(rng, pages, wrong):
    _search(rng, pages, many=False)


def attack_thinned_search(rng, pages, wrong):
    _search(rng, pages, many=True)


ATTACKS = {
    "sum_squares": attack_sum_squares,
    "score_strip": attack_score_strip,
    "mark_strip": attack_mark_strip,
    "lowest_bit": attack_lowest_bit,
    "bits": attack_bits,
    "from_bits": attack_from_bits,
    "search": attack_search,
    "thinned_search": attack_thinned_search,
}


def main(subjects, seed, first, last, wrong=0):
    """Do the cases, announcing each before it is done."""
    for subject, number in itertools.product(subjects.split(","), range(first, last)):
        print(subject, number, flush=True)
        rng = np.random.default_rng([seed, list(ATTACKS).index(subject), number])
        pages = Pages(at_end=bool(rng.integers(2)) if not wrong else wrong == 1)
        unguarded = {name: getattr(_exact, name) for name in ("make_batch", "_empty_nearest", "_freeze")}
        ATTACKS[subject](rng, pages, bool(wrong))
        for name, function in unguarded.items():
            setattr(_exact, name, function)
        pages.check()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
