"""Vector operations that LLVM does not find by itself, written in its own portable vector code.

Addresses are integers, strides are in bytes. On x86 the products of a strip become vpmaddwd, two multiply-adds of
16-bit integers in each 32-bit lane: with AVX2 half as fast again as the best float32 matrix product.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

STRIP = 16  # points treated together
ROWS = 4  # and queries

_I8, _I32, _I64, _FLOAT, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
_HALVES, _INTS, _WIDE = (ir.VectorType(t, n) for t, n in ((ir.IntType(16), 16), (_I32, 8), (_I32, 16)))
_FLOATS, _DOUBLES = ir.VectorType(_FLOAT, 8), ir.VectorType(_DOUBLE, 4)


def _at(builder, address, offset, kind):
    """Pointer to ``kind`` at address + offset."""
    offset = offset if isinstance(offset, ir.Value) else ir.Constant(_I64, offset)
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _splat(builder, scalar, vector):
    """Vector with the same scalar in every lane."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return _shuffle(builder, first, first, [0] * vector.count)


def _multiply_pairs(builder, a, b):
    """Add products of neighbours: a[0] b[0] + a[1] b[1], a[2] b[2] + a[3] b[3], ..."""
    products = builder.mul(builder.sext(a, _WIDE), builder.sext(b, _WIDE))
    even, odd = (_shuffle(builder, products, products, list(range(i, 16, 2))) for i in (0, 1))
    return builder.add(even, odd)


@intrinsic
def lowest_bit(typingctx, word):
    """Position of the lowest set bit of a word that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return word(word), codegen


@intrinsic
def bits(typingctx, x):
    """Return the bits of a double as an integer: ``view`` would compile the messages of its misuse along."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), codegen


@intrinsic
def from_bits(typingctx, word):
    """Return the double of such bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], _DOUBLE)

    return types.float64(types.int64), codegen


def _score_strip(builder, strip, n_pairs, queries, query_stride, steps, half_norms, query_steps):
    """Scores, by query and half strip, of a strip (n_pairs, STRIP, 2) of int16 points for ROWS int16 queries."""
    zero = ir.Constant(_INTS, None)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(2)] for _ in range(ROWS)]
    rows = [builder.mul(query_stride, ir.Constant(_I64, r)) for r in range(ROWS)]
    for row in sums:
        for pointer in row:
            builder.store(zero, pointer)
    with cgutils.for_range(builder, n_pairs) as loop:
        here = builder.add(strip, builder.mul(loop.index, ir.Constant(_I64, 4 * STRIP)))
        points = [builder.load(_at(builder, here, 32 * v, _HALVES), align=2) for v in range(2)]
        pair = builder.add(queries, builder.mul(loop.index, ir.Constant(_I64, 4)))
        for r in range(ROWS):
            query = _splat(builder, builder.load(_at(builder, pair, rows[r], _I32), align=2), _INTS)
            for v in range(2):
                products = _multiply_pairs(builder, points[v], builder.bitcast(query, _HALVES))
                builder.store(builder.add(builder.load(sums[r][v]), products), sums[r][v])
    scores = []
    for r in range(ROWS):
        step = _splat(builder, builder.load(_at(builder, query_steps, 4 * r, _FLOAT), align=4), _FLOATS)
        for v in range(2):
            dots = builder.fmul(builder.sitofp(builder.load(sums[r][v]), _FLOATS), step)
            dots = builder.fmul(dots, builder.load(_at(builder, steps, 32 * v, _FLOATS), align=4))
            scores.append(builder.fadd(dots, builder.load(_at(builder, half_norms, 32 * v, _FLOATS), align=4)))
    return scores


@intrinsic
def score_strip(typingctx, strip, n_pairs, queries, query_stride, steps, half_norms, query_steps, out, out_stride):
    """Scores of a strip: float32 (ROWS, STRIP)."""

    def codegen(context, builder, signature, args):
        *inputs, out, out_stride = args
        for i, scores in enumerate(_score_strip(builder, *inputs)):
            row = builder.add(out, builder.mul(out_stride, ir.Constant(_I64, i // 2)))
            builder.store(scores, _at(builder, row, 32 * (i % 2), _FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), codegen


@intrinsic
def mark_strip(typingctx, strip, n_pairs, queries, query_stride, steps, half_norms, query_steps, cuts, out, out_stride):
    """Whether scores of a strip reach the cuts (ROWS,): bits (ROWS, STRIP)."""

    def codegen(context, builder, signature, args):
        *inputs, cuts, out, out_stride = args
        for i, scores in enumerate(_score_strip(builder, *inputs)):
            cut = _splat(builder, builder.load(_at(builder, cuts, 4 * (i // 2), _FLOAT), align=4), _FLOATS)
            bits = builder.bitcast(builder.fcmp_ordered(">=", scores, cut), _I8)
            row = builder.add(out, builder.mul(out_stride, ir.Constant(_I64, i // 2)))
            builder.store(bits, _at(builder, row, i % 2, _I8))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), codegen


@intrinsic
def sum_squares(typingctx, a, b, c, e, query, n_quads, out):
    """Sum squared differences of four float64 rows and a query over 4 * n_quads columns, one column after another.

    Four rows fill a vector: their columns are transposed in registers, and each sum keeps the order of the columns.
    """

    def codegen(context, builder, signature, args):
        *rows, query, n_quads, out = args
        total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, None))
        builder.store(ir.Constant(_DOUBLES, None), total)
        with cgutils.for_range(builder, n_quads) as loop:
            offset = builder.mul(loop.index, ir.Constant(_I64, 32))
            w, x, y, z = (builder.load(_at(builder, row, offset, _DOUBLES), align=8) for row in rows)
            low, high = (
                [_shuffle(builder, w, x, [i, i + 4, i + 2, i + 6]), _shuffle(builder, y, z, [i, i + 4, i + 2, i + 6])]
                for i in (0, 1)
            )
            columns = [
                _shuffle(builder, *pair, lanes) for lanes in ([0, 1, 4, 5], [2, 3, 6, 7]) for pair in (low, high)
            ]
            here = builder.add(query, offset)
            for j in range(4):
                scalar = builder.load(_at(builder, here, 8 * j, _DOUBLE), align=8)
                diff = builder.fsub(columns[j], _splat(builder, scalar, _DOUBLES))
                builder.store(builder.fadd(builder.load(total), builder.fmul(diff, diff)), total)
        builder.store(builder.load(total), _at(builder, out, 0, _DOUBLES), align=8)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), codegen
