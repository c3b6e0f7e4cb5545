"""A calibration set whose spread and level depend on position, and students that learn it quickly."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

import nearcal as nc
from nearcal.compiled import compiling, lessons

LEVELS = np.arange(1, 100) / 100


def calibration_set(n=400, d=2, seed=0):
    rng = np.random.default_rng(seed)
    space = rng.uniform(1, 3, size=(n, d))
    return nc.Normal(np.zeros(n), 1.0), rng.normal(np.sin(2 * space[:, -1]), space[:, 0]), space


def fitted(n=400, d=2, **options):
    options = options if "radius" in options else {"k": 80, **options}
    return nc.LocalRecalibrator(**options).fit(*calibration_set(n, d))


@contextmanager
def quick_students(steps=60, bumps=60):
    """Let narrow students learn for a moment, from short lessons, with trends of few bumps."""
    with (
        patch.multiple(compiling, _FEWEST_STEPS=steps, _MOST_STEPS=steps, _HIDDEN=(64,)),
        patch.multiple(lessons, _BUMPS=bumps, _OWN_BUMPS=bumps, _FEWEST_ROWS=0),
    ):
        yield


def compile_quickly(recalibrator, steps=60, bumps=60, **options):
    """Compile with such students, whatever is lost."""
    with quick_students(steps, bumps):
        return nc.compile(recalibrator, **{"tolerance": 1e9, **options})


def far_and_near(m, d=2, seed=1):
    """Positions like those of the calibration set, and many far outside."""
    rng = np.random.default_rng(seed)
    near = rng.uniform(1, 3, size=(m, d))
    far = near + rng.normal(size=(m, d)) * 10.0 ** rng.uniform(1, 12, size=(m, 1))
    return np.where(rng.uniform(size=(m, 1)) < 0.2, near, far)
