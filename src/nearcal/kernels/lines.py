"""Values of curves that are straight between knots, at many scores of every row."""

from nearcal.kernels.compile import kernel


@kernel
def read_lines(scores, knots, slope_below, slope_above, z, values):
    """Write the value at each score of each row; tables of one row serve them all.

    ``scores`` and ``knots`` increase along a row; beyond them lines have the slopes given, flat ones to infinity.
    Scores that increase as well are found where the one before was, or next to it.
    """
    last = knots.shape[1] - 1
    for row in range(len(values)):
        x, y, at_row = scores[row % len(scores)], knots[row % len(knots)], z[row % len(z)]
        below, above = slope_below[row % len(slope_below), 0], slope_above[row % len(slope_above), 0]
        right = 0
        for j in range(values.shape[1]):
            at = at_row[j]
            if not (0 < right <= last and x[right - 1] <= at < x[right]):
                right, stop = 0, last + 1
                while right < stop:
                    middle = (right + stop) // 2
                    if x[middle] > at:
                        stop = middle
                    else:
                        right = middle + 1
            if right == 0:
                values[row, j] = y[0] + ((at - x[0]) * below if below > 0.0 else 0.0)
            elif right > last:
                values[row, j] = y[last] + ((at - x[last]) * above if above > 0.0 else 0.0)
            else:
                share = (at - x[right - 1]) / (x[right] - x[right - 1])
                value = y[right - 1] + share * (y[right] - y[right - 1])
                values[row, j] = y[right] if value > y[right] else value  # where rounding has lifted it above
