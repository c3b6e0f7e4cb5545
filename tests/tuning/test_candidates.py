"""Candidates: the recalibrator each stands for, its words, and its row of a table."""

import numpy as np
import pytest

import nearcal as nc

PLAIN = nc.Candidate("local", "input", "standard", None, 50, "biweight")
FULL = nc.Candidate("local", "hidden", "whiten", 3, 20, "epanechnikov", linear=True, shrinkage=True)


@pytest.mark.parametrize("polish", [False, True])
def test_the_recalibrator_of_a_candidate_has_its_settings_and_no_others(polish):
    workers = nc.Workers(threads=1)
    polished = (nc.Polish(),) * polish
    chosen = nc.Polish() if polish else None
    plain = PLAIN.local_recalibrator("predictive", chosen, None, nc.Workers())
    by_hand = nc.LocalRecalibrator(
        50, smoothing="biweight", scaling="standard", quantile_rule="predictive", corrections=polished
    )
    assert plain.get_params() == by_hand.get_params()
    full = FULL.local_recalibrator("interpolated", chosen, nc.Fade(0.02), workers)
    by_hand = nc.LocalRecalibrator(
        20,
        scaling=nc.Scaling("whiten", 3),
        quantile_rule="interpolated",
        corrections=(nc.LocalLinear(), nc.Shrinkage(), *polished, nc.Fade(0.02)),
        workers=workers,
    )
    assert full.get_params() == by_hand.get_params()


def test_candidates_of_one_place_share_a_search():
    assert PLAIN.place == ("input", nc.Scaling("standard"))
    assert FULL.place == ("hidden", nc.Scaling("whiten", 3))


def test_words():
    assert str(nc.Candidate("none")) == "no recalibration"
    assert str(nc.Candidate("global")) == "global recalibration"
    assert str(PLAIN) == "space 'input', k=50, smoothing 'biweight', scaling 'standard'"
    assert str(FULL) == (
        "space 'hidden', k=20, smoothing 'epanechnikov', scaling 'whiten', 3 components, local-linear, shrinkage"
    )


def test_every_row_of_a_table_is_its_candidate():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    dist, y = nc.Normal(np.zeros(60), 1.0), rng.normal(2 * x[:, 0], 1.0)
    tuning = nc.tune(dist, y, {"a": x, "b": x[:, :1]}, k=(10, 20), components=(None, 2))
    candidates = [nc.Candidate.of_row(row) for row in tuning.table]
    assert len(set(candidates)) == len(tuning.table)
    assert candidates[int(np.flatnonzero(tuning.table["chosen"])[0])] == tuning.chosen
    wanted = {
        nc.Candidate("none"),
        nc.Candidate("global"),
        nc.Candidate("local", "a", "whiten", 2, 20, "biweight"),
        nc.Candidate("local", "b", "standard", None, 10, "epanechnikov"),
    }
    assert wanted <= set(candidates)
    assert any(candidate.linear and candidate.shrinkage for candidate in candidates)
