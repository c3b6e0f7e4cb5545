"""Inversion against scipy's root finder, closed forms, and functions that no Newton step understands."""

import numpy as np
import pytest

from nearcal.distributions._inversion import invert_increasing

ENDS = np.array([-np.inf]), np.array([np.inf])


def solve(function, target, start=0.0, lower=-np.inf, upper=np.inf):
    asked = []

    def score(u, which):
        asked.append(len(which))
        with np.errstate(all="ignore"):
            return function(u)

    found = invert_increasing(score, *(np.array([value]) for value in (target, start, lower, upper)))
    return found[0], len(asked)


@pytest.mark.parametrize("root", [0.0, 5e-324, 1e-300, -1e-65, 1.0, -3.7, 1e65, 1.7e308])
def test_a_jump_is_found_to_the_last_bit_anywhere_among_floating_point_numbers(root):
    found, steps = solve(lambda u: (np.where(u >= root, 1.0, -1.0), np.zeros_like(u)), 0.0, start=0.3)
    assert found == root
    assert steps <= 60 + 128 + 2


def test_a_wrong_slope_costs_steps_only():
    for slope in (np.nan, np.inf, 1e300, 1e-300, -1.0):
        found, _ = solve(lambda u, slope=slope: (np.cbrt(u), np.full_like(u, slope)), 2.0, start=-1e200)
        assert found == pytest.approx(8.0, rel=3e-15)


def test_a_true_slope_saves_them():
    found, steps = solve(lambda u: (u + np.tanh(u), 1 + 1 / np.cosh(u) ** 2), 1.5, lower=-10.0, upper=10.0)
    assert found + np.tanh(found) == pytest.approx(1.5, rel=1e-15)
    assert steps < 12


def test_a_spike_too_narrow_for_a_number_does_not_end_the_search():
    """At 1 the slope is that of a step of 1e-10, far from enough: the solution is at 1.5."""
    found, _ = solve(lambda u: (u + np.where(u >= 1, 1e-10, 0.0), np.where(u == 1, 1e19, 1.0)), 1.5 + 1e-10, start=1.0)
    assert found == pytest.approx(1.5, rel=1e-15)
