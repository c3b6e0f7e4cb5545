"""Rows known by tables of quantiles, one table a model: their pools, their scores, and the weights that suit best."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError
from nearcal._sample_weights import effective_size
from nearcal.distributions import AVERAGED_SCORES as SCORES
from nearcal.distributions import average_rows
from nearcal.distributions.interpolation import Interpolated

Pool = Literal["quantiles", "mixture"]
POOLS: tuple[Pool, ...] = get_args(Pool)
LEVELS: FloatArray = ndtr(SCORES)

# ∫ over levels as a sum over scores: 2 φ(z) dz, so that pinball losses add up to a CRPS
_SHARES = 2 * np.exp(-(SCORES**2) / 2) / np.sqrt(2 * np.pi) * (SCORES[1] - SCORES[0])
_BELIEF = 20.0  # rows' worth of score by which weights are drawn to what each model's own score suggests
_POWER = 2  # of scores: errors that have nothing to do with each other are averaged best by their inverse squares
_LIGHTEST = 0.01  # of all weight: a model with less is left out


def pool_tables(pool: Pool, shares: FloatArray, tables: Sequence[FloatArray]) -> FloatArray:
    """Return the quantiles of a combination of rows that are known by theirs, (n, 41)."""
    if not all(np.isfinite(table).all() for table, share in zip(tables, shares, strict=True) if share > 0):
        raise InvalidInputError(
            "distributions to be combined must have finite quantiles between the levels 3e-5 and 1 - 3e-5, got some "
            "that are too large for a number; leave out rows whose responses lie impossibly far from their predictions"
        )
    weights = np.broadcast_to(shares, (len(tables[0]), len(shares)))
    if pool == "quantiles":
        return np.sort(average_rows(weights, tables), axis=1)
    used = [place for place, share in enumerate(shares) if share > 0]
    values = np.sort(np.hstack([tables[place] for place in used]), axis=1)
    below, above = np.zeros(values.shape), np.zeros(values.shape)
    for place in used:
        z = Interpolated(SCORES[np.newaxis], tables[place], normal_tails=False).z(values)
        z = np.clip(z, SCORES[0], SCORES[-1])  # beyond its outermost quantiles a table knows nothing
        below, above = below + shares[place] * ndtr(z), above + shares[place] * ndtr(-z)
    lighter = ndtri(np.clip(np.minimum(below, above), 0.0, 0.5))
    reached = np.sort(np.where(below < above, lighter, -lighter), axis=1)
    return Interpolated(reached, values, normal_tails=True).from_z(SCORES[np.newaxis])


def table_crps(table: FloatArray, y: FloatArray) -> FloatArray:
    """Return the CRPS of rows that are known by their quantiles at 41 levels: a sum of pinball losses, (n,)."""
    above = y[:, np.newaxis] - table
    return (_SHARES * np.maximum(LEVELS * above, (LEVELS - 1) * above)).sum(axis=1)


def average_crps(total: FloatArray, table: FloatArray, count: int, y: FloatArray) -> FloatArray:
    """Return the CRPS of rows known by (total + table) / count, to rounding: a sum over ``count`` tables, one added."""
    from nearcal.kernels import pinball

    crps = np.empty(len(y))
    pinball.write_average_crps(total, table, float(count), y, LEVELS, _SHARES, crps)
    return crps


def learn_weights(tables: Sequence[FloatArray], y: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the weights, of sum 1, with which the average of tables has the least mean CRPS, drawn to plain ones.

    Plain weights v_m are inverse to the squares of the mean scores of models, S_m, as if their errors had nothing to do
    with each other; of models that are alike they are equal. To the mean score over n points is added
    c S Σ_m (w_m - v_m)² / n, with S the score of the best model: as if some c points more had told that v suits.
    Points may count by weights of shape (n,); n is then their effective size.
    """
    from scipy.optimize import minimize  # which most who recalibrate have no use for

    known = ~np.isnan(np.sum([table[:, 0] for table in tables], axis=0))
    stack, y = np.stack([table[known] for table in tables]), y[known]
    share = np.ones(len(y)) if weights is None else weights[known]
    share = share / share.sum()
    scores = np.array([float(share @ table_crps(table, y)) for table in stack])
    unit = float(scores.min())
    if not 0 < unit < np.inf:
        return np.full(len(tables), 1 / len(tables))
    plain = (unit / scores) ** _POWER
    plain /= plain.sum()
    penalty = _BELIEF / effective_size(share)

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        table = np.einsum("m,mnk->nk", w, stack)
        slopes = _SHARES * np.where(y[:, np.newaxis] > table, -LEVELS, 1 - LEVELS)
        gradient = np.einsum("n,nk,mnk->m", share, slopes, stack) / unit + 2 * penalty * (w - plain)
        return float(share @ table_crps(table, y)) / unit + penalty * float(((w - plain) ** 2).sum()), gradient

    sums_to_one: Any = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    found = minimize(
        objective, plain, jac=True, method="SLSQP", bounds=[(0, 1)] * len(plain), constraints=sums_to_one,
        options={"maxiter": 200, "ftol": 1e-8},
    )  # fmt: skip
    w = found.x if objective(found.x)[0] < objective(plain)[0] else plain
    w = np.where(w < _LIGHTEST, 0.0, w)
    return w / w.sum()
