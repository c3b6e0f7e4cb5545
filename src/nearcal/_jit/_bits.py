"""Which entries pass a test, as bits of a word: the comparison vectorises, and only the entries that pass are touched."""

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from nearcal._jit._compile import inner


@intrinsic
def lowest_bit(typingctx, word):
    """Position of the lowest set bit of a word that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return word(word), codegen


@inner
def mask_below(values, bound):
    """Bit i is set where values[i] <= bound, for at most 64 values; never for NaN."""
    mask = np.uint64(0)
    for i in range(len(values)):  # a length the compiler knows would be unrolled instead of vectorised
        mask |= np.uint64(1) << np.uint64(i) if values[i] <= bound else np.uint64(0)
    return mask


@inner
def mask_above(values, row, piece, bound):
    """Bit i is set where values[row, piece, i] >= bound, for at most 32 values in float32; never for NaN."""
    mask = np.uint32(0)
    for i in range(values.shape[2]):
        mask |= np.uint32(1) << np.uint32(i) if values[row, piece, i] >= bound else np.uint32(0)
    return mask
