"""What every row adds to two measures of coverage everywhere that need no regions: excess risk, and the worst slab."""

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal.diagnostics._conditional_coverage import search_slab
from nearcal.diagnostics._excess_risk import surprises
from nearcal.distributions import Seed
from nearcal.space import Scaling

_MASS, _DIRECTIONS, _SEARCH = 0.1, 200, 0.5


def risk_of_rows(covered: NDArray[np.bool_], points: FloatArray, coverage: float, rng: Seed) -> FloatArray:
    """Return the excess risk of the target coverage by row, in the L1 loss: the mean is the risk."""
    return surprises(covered, points, coverage, rng)


def rows_in_worst_slab(covered: NDArray[np.bool_], points: FloatArray, rng: Seed) -> NDArray[np.bool_]:
    """Tell which rows lie in the slab that covers least, of those that it was not searched in."""
    scaled = Scaling("standard").learn(points)(points)
    inside = np.zeros(len(covered), dtype=np.bool_)
    inside[search_slab(covered, scaled, _MASS, _DIRECTIONS, _SEARCH, rng)[0]] = True
    return inside
