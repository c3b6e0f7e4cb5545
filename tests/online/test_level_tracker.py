"""The level, followed online: its promise for any sequence, and what it would be without pooling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcal.online.level_tracker import LevelTracker

COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99)
B = 4.0


def follow(tracker, choose, steps, delay=0):
    """Predict and tell, each response ``delay`` others later; ``choose`` sees the offsets predicted at."""
    waiting = []
    for t in range(steps):
        offsets = tracker.offsets
        waiting.append((choose(t, offsets), offsets))
        if len(waiting) > delay:
            score, predicted = waiting.pop(0)
            tracker.tell((score <= predicted)[np.newaxis])
    return tracker


def bound(tracker, delay=0):
    starts = np.abs(tracker.starts).max()
    levels = len(tracker.levels)
    return (2 * max(B, starts) / tracker.step + (delay + 1) * (levels + 1) / 2) / tracker.n_told


def between(place):
    """Fall between two neighbours, which drives them towards each other."""
    return lambda t, offsets: np.clip((offsets[place] + offsets[place + 1]) / 2, -B, B)


def widest_gap(t, offsets):
    gaps = np.diff(np.clip(offsets, -B, B))
    place = int(np.argmax(gaps))
    return np.clip(offsets[place] + gaps[place] / 2, -B, B)


ADVERSARIES = {
    "always high": lambda t, offsets: B,
    "always low": lambda t, offsets: -B,
    "in turn": lambda t, offsets: B if t % 2 else -B,
    "in long turns": lambda t, offsets: B if (t // 200) % 2 else -B,
    "just above the median": lambda t, offsets: np.clip(np.nextafter(offsets[len(offsets) // 2], np.inf), -B, B),
    "between the lowest": between(0),
    "between others": between(4),
    "the widest gap": widest_gap,
    "one value": lambda t, offsets: 0.3,
}


@pytest.mark.parametrize("delay", [0, 1, 30])
@pytest.mark.parametrize("step", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_the_share_keeps_its_bound_whoever_chooses(name, step, delay):
    tracker = follow(LevelTracker(COVERAGES, step), ADVERSARIES[name], 1500, delay)
    share = tracker.at_or_below / tracker.n_told
    assert (np.abs(share - tracker.levels) <= bound(tracker, delay)).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-B, B), min_size=1, max_size=300), st.floats(1e-3, 3.0), st.integers(0, 20))
def test_the_share_keeps_its_bound_for_any_sequence(scores, step, delay):
    scores = [0.0] * delay + scores  # so that one is told at least
    tracker = follow(LevelTracker((0.3, 0.9), step), lambda t, offsets: scores[t], len(scores), delay)
    share = tracker.at_or_below / tracker.n_told
    assert (np.abs(share - tracker.levels) <= bound(tracker, delay) + 1e-12).all()
    assert (np.diff(tracker.offsets) >= 0).all()


def test_the_share_is_where_the_offset_says():
    tracker = follow(LevelTracker(COVERAGES, 0.07), ADVERSARIES["in long turns"], 777)
    said = tracker.levels - (tracker.hidden - tracker.starts) / (tracker.step * tracker.n_told)
    np.testing.assert_allclose(tracker.at_or_below / tracker.n_told, said, atol=1e-12)


def test_sorting_would_break_the_promise():
    """Two that have changed places are driven apart for ever: why offsets are pooled."""
    levels, step, hidden, below = np.array([0.4, 0.6]), 0.5, np.array([0.2, -0.2]), np.zeros(2)
    for _ in range(2000):
        used = np.sort(hidden)
        score = np.clip(used.mean(), -B, B)
        is_below = score <= used
        below += is_below
        hidden = hidden + step * (levels - is_below)
    assert np.abs(below / 2000 - levels).max() > 0.3


def test_it_finds_the_quantiles_of_what_it_is_told():
    rng = np.random.default_rng(1)
    scores = 0.5 + 1.7 * rng.normal(size=40_000)
    tracker = follow(LevelTracker(COVERAGES, 0.02), lambda t, offsets: scores[t], len(scores))
    # a tracker of step s varies about the quantile q with variance s p (1 - p) / 2 f(q), f the density: here 5 standard
    # deviations of the worst level, at p = 0.005 with f = 0.0145 / 1.7, are 5 sqrt(0.02 * 0.005 / 0.017) = 0.38
    np.testing.assert_allclose(tracker.offsets, 0.5 + 1.7 * tracker.starts, atol=0.4)


def test_the_order_of_responses_told_makes_no_difference():
    rng = np.random.default_rng(2)
    told = np.sort(rng.random((50, 11)) < 0.5, axis=1)
    together, one_by_one = LevelTracker(COVERAGES, 0.1), LevelTracker(COVERAGES, 0.1)
    together.tell(told)
    for row in rng.permutation(50):
        one_by_one.tell(told[row : row + 1])
    np.testing.assert_array_equal(together.offsets, one_by_one.offsets)


def test_nothing_told_changes_nothing():
    tracker = LevelTracker(0.9, 0.1)
    np.testing.assert_allclose(tracker.levels, [0.05, 0.5, 0.95], rtol=1e-14)
    z = np.array([[-3.0, -1.0, 0.0, 2.0]])
    np.testing.assert_allclose(tracker.map().before(z), z, atol=1e-14)
