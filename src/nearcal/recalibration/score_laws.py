"""What the scores Z_j of some rows are distributed like, and what that makes of Y_j = F_j⁻¹(Φ(Z_j)).

There are two kinds: weighted scores as they are (:mod:`nearcal.recalibration.steps`), and a continuous curve
(:mod:`nearcal.recalibration.curve`). Each holds every statistic of a recalibrated prediction once, given the base
distributions of the rows.
"""

from typing import Literal, Protocol, get_args

from nearcal._arrays import FloatArray
from nearcal.distributions import Distribution

QuantileRule = Literal["step", "interpolated", "predictive", "conservative"]
QUANTILE_RULES: tuple[QuantileRule, ...] = get_args(QuantileRule)
CONTINUOUS_RULES = ("interpolated", "predictive")


class ScoreLaw(Protocol):
    """The distributions of the scores Z_j of a chunk of rows; y, z and p are (rows, q), base has the rows' F_j."""

    def log_tails(self, base: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P(Y <= y) and log P(Y > y)."""
        ...

    def finite_scores(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return Φ⁻¹(P(Y <= y)), finite for every y inside the support."""
        ...

    def quantiles(self, base: Distribution, p: FloatArray) -> FloatArray:
        """Return the quantiles of Y at levels p."""
        ...

    def values(self, base: Distribution, z: FloatArray) -> FloatArray:
        """Return the quantiles of Y at levels Φ(z)."""
        ...

    def log_density(self, base: Distribution, y: FloatArray) -> FloatArray:
        """Return the logarithm of d P(Y <= y) / dy."""
        ...

    def moments(self, base: Distribution) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of Y."""
        ...

    def tail_powers(self, base: Distribution) -> FloatArray:
        """Return the powers of both tails of Y, (rows, 2); see ``Distribution._tail_powers``."""
        ...
