"""Thresholds that hold in every one of several groups that overlap: Gibbs, Cherian and Candès, exactly.

With membership vectors φ_i of n points and φ of the new one, let the new point's score be S, and g_S the quantile
regression at level p of all n + 1 scores on memberships. Since the new point is one of n + 1 exchangeable ones, the
set {S : S <= φ · g_S} holds its score with probability at least p in every group. It ends where the new point's dual
variable η reaches p, its largest value; there η no longer depends on S, and what remains is the dual of a quantile
regression of n points,

    maximise Σ η_i S_i   subject to   Σ η_i φ_i = -p φ,   p - 1 <= η_i <= p,

whose multipliers β of the constraints give the end, φ · β. Rows of the same combination of groups share φ: each
combination is solved once a level. Between levels that make a basis optimal β jumps; the lower one is taken.

The set is deterministic, and so holds more than p: up to d/(n + 1) more, summed over all points, with d the rank of
the memberships; exactly p it could be only by throwing a die for every new row.

I. Gibbs, J. J. Cherian and E. J. Candès, *Conformal Prediction With Conditional Guarantees*, 2023, arXiv:2305.12616.
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray
from nearcal._cached import cached_property
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.order_statistics import IDENTITY, OrderStatistics, steadied

STEP = 1e-8  # by which a level is lowered, to stand on the lower side of a jump: above the tolerance of the solver
TOLERANCE = 1e-10
_LEVELS = 9  # at which the distribution inside the bounds is known


class ConditionalQuantiles(OrderStatistics):
    """Bounds of the scores of rows in one combination of groups.

    Parameters
    ----------
    scores : ndarray of shape (n,)
    members : ndarray of shape (n, g)
        Which point is in which group, 0 or 1.
    combination : ndarray of shape (g,)
        The groups of the rows asked about.
    """

    def __init__(self, scores: FloatArray, members: FloatArray, combination: FloatArray) -> None:
        super().__init__(np.sort(scores))
        self._given, self._members, self._combination = scores, members, combination
        self._known: dict[float, float] = {}

    def quantile_bounds(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores (lower, upper), each on its side of the quantile with probability p in every group."""
        levels = np.asarray(p, dtype=np.float64)
        lower = [-self._threshold(1 - level, -1.0) for level in levels.reshape(-1)]
        upper = [self._threshold(level, 1.0) for level in levels.reshape(-1)]
        return np.reshape(lower, levels.shape), np.reshape(upper, levels.shape)

    def central(self, coverage: Any) -> tuple[FloatArray, FloatArray]:
        """Return scores (lower, upper) between which Z lies with probability c at least in every group."""
        return self.quantile_bounds(0.5 - coverage / 2)[0], self.quantile_bounds(0.5 + coverage / 2)[1]

    def cdf_bounds(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the outermost of the levels 1/(n + 1), …, n/(n + 1) whose bounds lie on this side of z."""
        levels = np.arange(1, len(self) + 1) / (len(self) + 1)
        lower, upper = (np.maximum.accumulate(end) for end in self.quantile_bounds(levels))
        edges = np.concatenate([[0.0], levels, [1.0]])
        return edges[np.searchsorted(upper, z, side="left")], edges[np.searchsorted(lower, z, side="right") + 1]

    def _threshold(self, level: float, sign: float) -> float:
        """Return the end of the set of scores, times ``sign``, that is not exceeded with probability ``level``."""
        if level <= 0:
            return -np.inf
        key = sign * level
        if key not in self._known:
            self._known[key] = solve(sign * self._given, self._members, self._combination, level)
        return self._known[key]

    @cached_property
    def law(self) -> Curve:
        """One distribution between the bounds, known at the levels 0.1, …, 0.9."""
        levels = np.arange(1, _LEVELS + 1) / (_LEVELS + 1)
        lower, upper = self.quantile_bounds(levels)
        knots = np.where(levels < 0.5, lower, upper)
        is_known = np.isfinite(knots)
        if is_known.sum() < 2 or np.ptp(knots[is_known]) == 0:
            return IDENTITY
        return Curve.shared(ndtri(levels[is_known]), np.maximum.accumulate(knots[is_known]))

    @property
    def thin_law(self) -> Curve:
        """The same, steadied: it is known at few levels."""
        if self.law is IDENTITY:
            return self.law
        after, before = self.law.line.scores[0], self.law.line.values[0]
        return Curve.shared(after, steadied(after, before, len(self)))

    @property
    def has_atoms(self) -> bool:
        """True, to be safe: the bounds of neighbouring levels may meet, and to know it would take all of them."""
        return True


def solve(scores: FloatArray, members: FloatArray, combination: FloatArray, level: float) -> float:
    """Return the greatest score of a new point in some groups that conforms at a level; infinite if all do."""
    from scipy.optimize import linprog  # not at import: it takes as long as all of nearcal

    level = level - STEP
    answer = linprog(
        -scores,
        A_eq=members.T,
        b_eq=-level * combination,
        bounds=(level - 1, level),
        method="highs",
        options={"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE},
    )
    if answer.status != 0:  # no η of so few points balances that of the new one; or no answer, and so no number
        return np.inf
    return float(-answer.eqlin.marginals @ combination)
