"""Polish: a correction for all rows, learnt from calibration points that are recalibrated by the others.

Neighbourhoods are wider than a point: the errors of the model drift inside them, and few neighbours tell little about
tails. So recalibrated distributions can be too wide or too narrow on average. How much shows where each calibration
point falls in the distribution that the others make for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray
from nearcal._saved import anything, instance, mapping_of, optional, savable
from nearcal.recalibration._left_out import LeftOut
from nearcal.recalibration._local_sample import LocalSample, QuantileRule
from nearcal.recalibration._score_map import ScoreMap

_KNOTS = 63


@savable(score_map=optional(instance(ScoreMap)), settings=mapping_of(anything))
@dataclass(frozen=True)
class Polish:
    """What was learnt, None if there was nothing to learn from, and the settings it was learnt for."""

    score_map: ScoreMap | None
    settings: dict[str, Any]


def learn_score_map(scores: FloatArray) -> ScoreMap | None:
    """Return the map from scores under the recalibrated distributions to what they turned out to be worth.

    The i-th of n scores is worth s, the score of probability i / (n + 1), equal scores that of their mean rank. But it
    moves by at most 1 + |s|: a point that a few close neighbours call impossible must not stretch the tails of all. Of
    many scores, some 63 evenly spaced ones count. Nothing is learnt from fewer than two different scores.
    """
    different, counts = np.unique(scores, return_counts=True)
    if len(different) < 2:
        return None
    worth = ndtri((np.cumsum(counts) - (counts - 1) / 2) / (len(scores) + 1))
    if len(worth) > _KNOTS:
        kept = np.unique(np.searchsorted(worth, np.linspace(worth[0], worth[-1], _KNOTS)))
        different, worth = different[kept], worth[kept]
    most = 1 + np.abs(worth)
    return ScoreMap(worth, np.clip(different, worth - most, worth + most))


def left_out_scores(left_out: LeftOut, rule: QuantileRule) -> FloatArray:
    """Return the scores of calibration points in the distributions that the others make for them."""
    z = left_out.calibration.z
    if len(z) < 2:
        return np.empty(0)
    # scores stand for responses: every row is the standard Normal
    scores = left_out.gather(
        None, lambda sample, rows: _middle_score(sample, z[rows][:, np.newaxis], rule)[:, 0], np.empty(len(z))
    )
    return scores[~np.isnan(scores)]


def _middle_score(sample: LocalSample, z: FloatArray, rule: QuantileRule) -> FloatArray:
    """Return the scores of z; in an atom, which equal scores make, that of the middle of its probability."""
    upper, lower = sample.bounded_z(z, rule), sample.bounded_z(np.nextafter(z, -np.inf), rule)
    is_atom = upper - lower > 1e-9
    below, above = ndtr(lower) / 2 + ndtr(upper) / 2, ndtr(-lower) / 2 + ndtr(-upper) / 2
    return np.where(is_atom, np.where(below < above, ndtri(below), -ndtri(above)), upper)
