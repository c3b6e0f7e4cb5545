"""Choosing on made-up scores: the best, or the simplest that is not clearly worse."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.tuning.choice import Comparison, choose, standing, widest

LOCAL = [nc.Candidate("local", space, "none", None, k, "uniform") for k in (100, 10) for space in ("a", "b")]
CANDIDATES = [nc.Candidate("none"), nc.Candidate("global"), *LOCAL]
ROWS = np.full(6, 50)  # that each was scored on


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ([9, 9, 9, 9, 0, 9], ("local", 10, "a")),  # alone
        ([9, 9, 0.9, 0.8, 0, 9], ("local", 10, "a")),  # among local ones the best
        ([9, 1.0, 0.1, 0.1, 0, 9], ("global", None, None)),
        ([0.9, 0.1, 0.1, 0.1, 0, 9], ("none", None, None)),
        ([1.1, 1.1, 1.1, 1.1, 0, 1.1], ("local", 10, "a")),
        ([np.inf, 9, 9, 9, 0, 0], ("local", 10, "a")),
    ],
)
def test_one_standard_error_towards_the_simpler(difference, expected):
    difference = np.array(difference, dtype=float)
    error = np.where(np.isfinite(difference), 1.0, np.nan) * (difference > 0)
    comparison = Comparison(5 + difference, np.ones(6), difference, error, ROWS)
    chosen = CANDIDATES[choose(CANDIDATES, comparison, "one-standard-error")[0]]
    assert (chosen.kind, chosen.k, chosen.space) == expected
    assert CANDIDATES[choose(CANDIDATES, comparison, "best")[0]] == LOCAL[2]


@pytest.mark.parametrize(
    ("difference", "kept"),
    [
        ([9, 9, 9, 9, 0, 9], [2, 3, 4, 5]),  # nobody is near the best, of k = 10: all ask as many
        ([9, 9, 9, 0.9, 0, 9], [2, 3]),  # one of k = 100 is
        ([9, 9, 9, 1.1, 0, 9], [2, 3, 4, 5]),
        ([9, 9, 0, 9, 0.1, 0.1], [2, 3]),  # the best asks most
        ([0, 9, 2, 2, 2, 2], [2, 3, 4, 5]),  # no local one is near
        ([9, 9, np.inf, 9, 0, 9], [2, 3, 4, 5]),
    ],
)
def test_in_time_wide_neighborhoods_are_taken_unless_narrow_ones_are_clearly_better(difference, kept):
    difference = np.array(difference, dtype=float)
    comparison = Comparison(5 + difference, np.ones(6), difference, (difference > 0).astype(float), ROWS)
    assert widest(CANDIDATES, comparison) == [0, 1, *kept]


def test_in_time_who_left_early_speaks_for_wide_neighborhoods_by_its_own_rows():
    difference, rows = np.array([9, 9, 9, 0.5, 0, 9]), np.array([50, 50, 50, 20, 50, 50])
    assert widest(CANDIDATES, Comparison(5 + difference, np.ones(6), difference, np.ones(6), rows)) == [0, 1, 2, 3]


def test_differences_are_paired():
    rng = np.random.default_rng(0)
    shared = 100 * rng.normal(size=50)
    scores = np.stack([shared + 1 + rng.normal(size=50), shared])
    comparison = Comparison.of(scores)
    assert comparison.best == 1
    assert comparison.std_error[0] > 10
    assert comparison.difference_std_error[0] == pytest.approx(np.std(scores[0] - shared, ddof=1) / np.sqrt(50))
    assert comparison.difference_std_error[1] == 0


def test_who_left_early_is_compared_at_its_own_rows_and_never_chosen():
    rng = np.random.default_rng(1)
    best = rng.normal(5.0, 1.0, size=50)
    left = best + rng.normal(-0.5, 0.1, size=50)  # better at its rows than the best of those that stayed
    left[20:] = np.nan
    comparison = Comparison.of(np.stack([best + 2.0, best + 1.0, left, best, best + 0.5, best + 0.5]))
    np.testing.assert_array_equal(comparison.rows, [50, 50, 20, 50, 50, 50])
    gap = (left - best)[:20]
    assert comparison.difference[2] == pytest.approx(gap.mean())
    assert comparison.difference_std_error[2] == pytest.approx(gap.std(ddof=1) / np.sqrt(20))
    assert comparison.mean[2] == pytest.approx(best.mean() + gap.mean())
    assert comparison.best == 3
    for rule in ("best", "one-standard-error", "two-standard-errors"):
        assert choose(CANDIDATES, comparison, rule)[0] == 3


def test_a_model_that_is_not_calibrated_is_not_left_alone():
    difference = np.array([2e-3, 1e-3, 0, 0, 0, 0])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.zeros(6), ROWS)
    assert choose(CANDIDATES, comparison, "one-standard-error", is_calibrated=True)[0] == 0
    assert choose(CANDIDATES, comparison, "one-standard-error", is_calibrated=False)[0] == 1


def test_what_is_negligibly_better_is_not_worth_it():
    difference = np.array([9, 0.009, 9, 9, 0, 9])  # of 5
    comparison = Comparison(5 + difference, np.ones(6), difference, np.full(6, 1e-6), ROWS)
    assert choose(CANDIDATES, comparison, "one-standard-error")[0] == 1


def test_global_recalibration_that_is_worse_than_none_is_no_choice():
    difference = np.array([1e-3, 2e-3, 0, 0, 0, 0])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.zeros(6), ROWS)
    assert choose(CANDIDATES, comparison, "two-standard-errors", is_calibrated=False)[0] == 2


def test_two_errors_are_twice_one():
    difference = np.array([9, 1.5, 9, 9, 0, 9])
    comparison = Comparison(5 + difference, np.ones(6), difference, np.ones(6), ROWS)
    assert choose(CANDIDATES, comparison, "one-standard-error") == (4, 1)
    assert choose(CANDIDATES, comparison, "two-standard-errors") == (1, 2)


def test_scores_that_differ_by_rounding_rank_as_equals():
    assert standing(1.0 + 1e-11) == standing(1.0) < standing(1.0 + 1e-8)
    mean = np.array([2.0, 1.0 + 1e-12, 1.0])
    assert Comparison(mean, np.ones(3), mean - 1, np.ones(3), ROWS[:3]).best == 1  # the first of equals


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**600, 2.0**1022])
def test_scores_of_any_size_are_compared(unit):
    scores = np.array([[1.0, 2.0, 0.5], [0.5, 1.0, 1.0], [1.5, 0.25, 1.0]])
    expected, found = Comparison.of(scores), Comparison.of(unit * scores)
    for name in ("mean", "std_error", "difference", "difference_std_error"):
        np.testing.assert_array_equal(getattr(found, name), unit * getattr(expected, name))
    assert found.best == expected.best


def test_infinite_scores_have_no_error():
    comparison = Comparison.of(np.array([[1.0, 2.0], [np.inf, 2.0]]))
    assert comparison.best == 0
    assert comparison.mean[1] == np.inf
    assert np.isnan(comparison.std_error).tolist() == [False, True]
