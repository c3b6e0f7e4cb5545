"""The finals: scores as if each row were refitted, and the choice on made-up scores."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.tuning.finals import Finals, decide

N = 40


def problem(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return nc.Normal(np.zeros(n), 1.5), rng.normal(np.sin(2 * x[:, 0]), 0.5), x


def interval_score(out, y):
    lower, upper = out.interval(0.95)
    return upper - lower + 40 * np.maximum(lower - y, 0) + 40 * np.maximum(y - upper, 0)


def test_scores_are_those_of_fits_without_each_row():
    dist, y, x = problem()
    table = nc.tune(
        dist, y, x, k=12, smoothing="biweight", scaling="none", linear=False, shrinkage=False, trend=False,
        polish=False, time=False,
    ).table  # fmt: skip
    found = next(row for row in table if row["kind"] == "local")
    scores = []
    for row in range(N):
        others = np.delete(np.arange(N), row)
        rc = nc.LocalRecalibrator(12, smoothing="biweight", quantile_rule="predictive")
        out = rc.fit(dist[others], y[others], x[others]).recalibrate(dist[[row]], x[[row]])
        scores.append([interval_score(out, y[row])[0], -out.logpdf(y[row])[0]])
    np.testing.assert_allclose([found["interval_score"], found["log_score"]], np.mean(scores, axis=0), rtol=1e-9)


def test_no_recalibration_has_the_scores_of_the_model():
    dist, y, x = problem()
    weights = np.random.default_rng(1).uniform(0.3, 2.0, size=N)
    for given in (None, weights):
        first = next(iter(nc.tune(dist, y, x, time=False, sample_weight=given).table))
        assert first["kind"] == "none"
        assert first["interval_score"] == pytest.approx(np.average(interval_score(dist, y), weights=given))
        assert first["log_score"] == pytest.approx(np.average(-dist.logpdf(y), weights=given))


def test_every_kind_of_the_evidence_has_them_and_steps_have_none():
    dist, y, x = problem(120)
    evidence = nc.tune(dist, y, x, time=False).evidence
    assert np.isfinite(evidence["interval_score"]).all()
    assert np.isfinite(evidence["log_score"]).all()
    by_steps = nc.tune(dist, y, x, time=False, quantile_rule="step")
    assert np.isnan(by_steps.table["interval_score"]).all()


def made_up(local, everyone=10.0, none=10.0, noise=0.0, n=100, wide=1.0):
    """Return finals of which each has a mean CRPS, with noise of a known standard error around the model's."""
    rows = np.tile([1.0, -1.0], n // 2) * np.sqrt((n - 1) / n)  # of variance 1 with n - 1
    crps = np.array([np.full(n, none), np.full(n, everyone), *(mean + noise * np.sqrt(n) * rows for mean in local)])
    interval = np.zeros_like(crps)
    interval[:2] = [[1.0], [wide]]  # local ones are better for sure: nothing of the tails is left to the model
    return Finals(list(range(len(crps))), np.arange(n), crps, interval, np.zeros_like(crps), None)


@pytest.mark.parametrize(
    ("local", "noise", "expected"),
    [
        ([9.0, 8.0], 0.0, ({3: 1.0}, None)),  # sure
        ([9.0, 8.0], 0.2, ({3: 1.0}, None)),  # 1.5 (0.2 / 2.03)² is not worth speaking of
        ([9.0, 8.0], 1.0, ({3: 1.0}, nc.Caution(0.36))),  # 1.5 (1 / 2.03)², rounded
        ([9.0, 8.0], 1.8, ({0: 1.0}, None)),  # 1.5 (1.8 / 2.03)² is more than all
        ([11.0, 12.0], 0.1, ({0: 1.0}, None)),  # worse
    ],
)
def test_what_is_not_sure_is_left_to_the_model(local, noise, expected):
    assert decide(made_up(local, noise=noise), 1.0, None) == expected


def test_global_recalibration_that_is_better_is_the_choice():
    assert decide(made_up([9.0], everyone=8.0, wide=0.0), 1.0, None) == ({1: 1.0}, None)
    assert decide(made_up([], everyone=8.0, wide=0.0), 1.0, None) == ({1: 1.0}, None)
    assert decide(made_up([], everyone=9.99), 1.0, None) == ({0: 1.0}, None)  # negligible


@pytest.mark.parametrize(
    ("noise", "most", "share"),
    [
        (0.2, 1.0, 0.0),  # 0.75 (0.2 / 2)² is not worth speaking of
        (1.0, 1.0, 0.19),  # 0.75 (1 / 2)²
        (1.0, 0.1, 0.1),  # PIT values are uneven: no more than so much
        (3.0, 0.4, 0.4),
    ],
)
def test_global_recalibration_leaves_to_the_model_what_is_not_sure(noise, most, share):
    finals = made_up([], everyone=8.0)
    finals.crps[1] += noise * np.sqrt(99) * np.tile([1.0, -1.0], 50)  # of standard error ``noise``
    expected = nc.Caution(share, 0.5)  # intervals are no better: half of the tails, at most, is left
    assert decide(finals, most, None) == ({1: 1.0}, expected)


def test_global_recalibration_in_doubt_is_none_unless_the_model_is_off():
    finals = made_up([], everyone=10.5)
    assert decide(finals, 1.0, None) == ({0: 1.0}, None)
    assert decide(finals, 0.3, None) == ({1: 1.0}, nc.Caution(0.3, 0.5))


@pytest.mark.parametrize(
    ("gain", "middle"),
    [
        (2.0, 0.0),  # sure
        (0.5, 0.0),  # 1.5 (0.1 / 0.5)² is not worth speaking of
        (0.2, 0.37),  # 1.5 (0.1 / 0.2)², less next to nothing that is left of all
        (-0.5, 0.5),  # worse
    ],
)
def test_where_intervals_alone_are_better_the_tails_alone_are_mended(gain, middle):
    finals = made_up([10.0 - gain], noise=0.1)
    finals.interval[0] = 100.0
    caution = decide(finals, 1.0, None).caution
    assert caution == (nc.Caution(0.0, 0.0, middle) if middle > 0 else None)


def test_few_rows_do_not_make_global_recalibration_look_better_than_it_is():
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(20):  # of models that are right
        y = rng.normal(size=40)
        table = nc.tune(nc.Normal(np.zeros(40), 1.0), y, y[:, np.newaxis], k=20, smoothing="biweight", time=False).table
        gains.append(table["interval_score"][0] - table["interval_score"][1])
    assert np.mean(gains) < 0


def test_tails_count():
    finals = made_up([9.0, 9.1])
    finals.interval[2] = 10.0  # 0.03 × 10 is more than the difference in CRPS
    assert decide(finals, 1.0, None).place == 3


def test_rows_of_one_unit_make_less_sure():
    sure, unsure = (decide(made_up([8.0], noise=0.5), 1.0, units).caution for units in (None, UNITS))
    assert 0 < sure.share < unsure.share


UNITS = np.arange(100) % 2 + 2 * (np.arange(100) // 10)  # all of one sign in each


def test_an_infinite_score_of_the_model_leaves_nothing_to_it():
    finals = made_up([9.0])
    finals.crps[0, 0] = np.inf
    assert decide(finals, 1.0, None) == ({2: 1.0}, None)


def test_the_share_becomes_a_caution_and_is_told():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(200, 3))
    y = 0.5 * x[:, 1] + rng.normal(size=200)
    tuning = nc.tune(nc.Normal(np.zeros(200), 1.0), y, x, time=False)
    (caution,) = (one for one in tuning.recalibrator.corrections if isinstance(one, nc.Caution))
    assert 0.05 <= caution.share < 1
    assert f"left to the model: {caution.share:.0%} of every prediction" in tuning.reason


@pytest.mark.parametrize(
    ("gain", "tails"),
    [
        (5.0, 0.0),  # sure
        (0.3, 0.0),  # 1.5 (0.1 / 0.3)² is not worth speaking of
        (0.22, 0.31),  # 1.5 (0.1 / 0.22)², rounded
        (0.1, 0.5),  # more than half
        (-1.0, 0.5),  # worse
    ],
)
def test_of_the_tails_as_much_is_left_as_the_gain_of_interval_scores_is_in_doubt(gain, tails):
    finals = made_up([9.0])
    finals.interval[1:] = [[60.0], [50.0]]
    finals.interval[0] = 50 + gain + np.tile([1.0, -1.0], 50) * np.sqrt(99 / 100)  # of standard error 0.1
    expected = None if tails == 0 else nc.Caution(0.0, tails)
    assert decide(finals, 1.0, None).caution == expected
