"""Memory of prediction against the paper's n(2k + h + d), with neighbourhoods held for all rows and in chunks."""

from typing import Any

import numpy as np

from nearcal.distributions import Normal
from nearcal.recalibration import LocalRecalibrator
from nearcal.studies.simulation._costs import watch
from nearcal.studies.simulation._data import INPUTS, simulate
from nearcal.studies.simulation._methods import Row

_BYTES = 8  # of a number


def measure_memory(n: int, rows: tuple[int, ...], k: tuple[int, ...]) -> list[Row]:
    """Return the megabytes that predicting new rows takes, recalibrated in the input space.

    ``formula`` are the paper's numbers in megabytes, h = 20 columns of the space and d = 1 output; ``held`` is what the
    weighted samples of all rows take while they are made, ``chunked`` what means and intervals of the same rows take.
    """
    split = simulate(n, 0)
    calibration = split.calibration
    found: list[Row] = []
    for neighbors in k:
        dist = Normal(np.zeros(len(calibration.y)), float(calibration.y.std()))
        recalibrator = LocalRecalibrator(neighbors, threads=1).fit(dist, calibration.y, calibration.x)
        for m in rows:
            new = Normal(np.zeros(m), float(calibration.y.std()))
            at = np.resize(split.test.x, (m, INPUTS))
            with watch() as chunked:
                recalibrator.recalibrate(new, at).summary()
            held = _hold_all(recalibrator, new, at)
            formula = _BYTES * m * (2 * neighbors + INPUTS + 1) / 1e6
            found.append({"rows": m, "k": neighbors, "formula": formula, "held": held, "chunked": chunked.extra})
    return found


def _hold_all(recalibrator: LocalRecalibrator, new: Normal, at: Any) -> float:
    with watch() as cost:
        recalibrator.recalibrate(new, at).weighted_sample(slice(None))
    return cost.extra
