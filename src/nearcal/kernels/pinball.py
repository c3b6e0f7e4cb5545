"""Scores of averages of tables of quantiles, without a table of the average."""

from nearcal.kernels.compile import kernel, reduction


@kernel
def write_average_crps(total, table, count, y, levels, shares, crps):
    """Write the sum of weighed pinball losses of each row of (total + table) / count."""
    for row in range(len(y)):
        crps[row] = _loss(total[row], table[row], count, y[row], levels, shares)


@reduction
def _loss(total, own, count, y, levels, shares):
    loss = 0.0
    for q in range(len(levels)):
        above = y - (total[q] + own[q]) / count
        loss += shares[q] * (levels[q] - (1.0 if above < 0.0 else 0.0)) * above
    return loss
