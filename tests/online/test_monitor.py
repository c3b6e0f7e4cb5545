"""The monitor: a martingale while calibration holds, an alarm with a diagnosis once it is lost."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import nearcal as nc
from nearcal.online import bets

N = len(bets.BETS)


def naive_evidence(z):
    """Return the evidence after each score as it is defined: a sum over bets and over the times at which they begin."""
    t = len(z)
    times = np.arange(1, t + 1)
    shares = 1 / np.log2(times + 1) - 1 / np.log2(times + 2)
    diagnoses = [bet.diagnosis for bet in bets.BETS]
    total = np.zeros(t)
    for bet in bets.BETS:
        density = bet.share * stats.norm.pdf(z, bet.mean, bet.std) + (1 - bet.share) * stats.norm.pdf(z)
        ratio = density / stats.norm.pdf(z)
        stake = 1 / len(set(diagnoses)) / diagnoses.count(bet.diagnosis)
        for end in range(t):
            total[end] += stake * sum(shares[j] * np.prod(ratio[j : end + 1]) for j in range(end + 1))
    return total + 1 / np.log2(times + 2)


def test_the_evidence_is_that_of_its_definition():
    z = np.random.default_rng(1).normal(0.3, 1.2, size=40)
    monitor, found = nc.CalibrationMonitor(1e-9), []
    for one in z:
        monitor.observe_scores(one)
        found.append(monitor.log_evidence)
    np.testing.assert_allclose(np.exp(found), naive_evidence(z), rtol=1e-10)
    np.testing.assert_allclose(monitor.p_value, min(1, 1 / np.max(np.exp(found))), rtol=1e-10)


@pytest.mark.parametrize("bet", bets.BETS, ids=str)
def test_no_bet_makes_money_on_average(bet):
    mean = quad(lambda z: np.exp(bet.log_ratio(np.array(z))) * stats.norm.pdf(z), -37, 37, limit=500, epsabs=1e-10)[0]
    np.testing.assert_allclose(mean, 1, atol=1e-7)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.12, 1.0), (-0.12, 1.0), (0.0, 1.1), (0.0, 0.9)])
def test_no_bet_wins_in_the_long_run_against_small_errors(mean, std):
    for bet in bets.BETS:
        growth = quad(lambda z: bet.log_ratio(np.array(z)) * stats.norm.pdf(z, mean, std), -12, 12, limit=200)[0]  # noqa: B023
        assert growth < 0


def test_shares_of_times_and_stakes_add_up():
    np.testing.assert_allclose(np.exp(bets.LOG_STAKES).sum(), 1)
    n = 1000
    np.testing.assert_allclose(np.exp(bets.log_shares(1, n)).sum() + 1 / np.log2(n + 2), 1, rtol=1e-12)
    np.testing.assert_array_equal(bets.log_shares(11, 5), bets.log_shares(1, 15)[10:])
    assert bets.log_total(np.full(N, -np.inf), 0) == 0


def evidence_of_streams(z):
    """Return the logarithms of the evidence after each score of many streams, (streams, T)."""
    wealth, totals = np.full((len(z), N), -np.inf), np.empty(z.shape)
    for t, share in enumerate(bets.log_shares(1, z.shape[1])):
        wealth = bets.grow(wealth, share, bets.log_ratios(z[:, t]))
        totals[:, t] = bets.log_total(wealth, t + 1)
    return totals


def test_evidence_is_a_martingale_while_calibration_holds():
    evidence = np.exp(evidence_of_streams(np.random.default_rng(2).normal(size=(20_000, 30))))
    for t in (0, 9, 29):
        error = evidence[:, t].std() / np.sqrt(len(evidence))  # a heavy right tail: the mean is rather below 1
        assert abs(evidence[:, t].mean() - 1) < max(5 * error, 0.02)


def test_false_alarms_are_as_rare_as_promised():
    highest = evidence_of_streams(np.random.default_rng(3).normal(size=(2000, 400))).max(axis=1)
    for rate in (0.3, 0.05, 0.01):
        # at most the rate, up to three standard errors of 2,000 streams
        assert (highest >= -np.log(rate)).mean() <= rate + 3 * np.sqrt(rate / 2000)


@pytest.mark.parametrize(
    ("change", "diagnosis"),
    [
        (lambda z: z + 0.5, "predictions are too low"),
        (lambda z: z - 0.5, "predictions are too high"),
        (lambda z: 1.6 * z, "predictions are too narrow"),
        (lambda z: 0.6 * z, "predictions are too wide"),
        (lambda z: np.where(np.arange(len(z)) % 15 == 7, 5.0 * np.sign(z), z), "tails are too light: some responses"),
    ],
)
def test_what_is_wrong_is_told_and_since_when(change, diagnosis):
    z = np.random.default_rng(4).normal(size=1000)
    z[400:] = change(z[400:])
    alarm = nc.CalibrationMonitor(0.01).observe_scores(z)
    assert alarm.diagnosis.startswith(diagnosis)
    assert 400 <= alarm.index < 650
    assert abs(alarm.since - 400) < 60
    assert alarm.log_evidence >= np.log(100)
    assert str(alarm) == f"calibration lost: {alarm.diagnosis}, since about {alarm.since}, noticed at {alarm.index}"


def test_it_is_all_one_how_observations_are_handed_over():
    rng = np.random.default_rng(5)
    y, loc = rng.normal(0.1, 1.1, size=300), rng.normal(size=300)
    dist = nc.Normal(loc, 1.0)
    whole, parts, scores = (nc.CalibrationMonitor(1e-6) for _ in range(3))
    whole.observe(dist, loc + y)
    for start in range(0, 300, 7):
        parts.observe(dist[start : start + 7], loc[start : start + 7] + y[start : start + 7])
    scores.observe_scores(dist.z(loc + y))
    assert whole.log_evidence == parts.log_evidence == scores.log_evidence
    assert whole.n_observed == parts.n_observed == 300


def test_atoms_are_randomised_by_number_of_observation():
    rng = np.random.default_rng(6)
    draws, y = rng.normal(size=(500, 20)), rng.normal(size=500)
    ensemble = nc.Samples(draws, tails="empirical")
    whole, parts, other = nc.CalibrationMonitor(1e-6), nc.CalibrationMonitor(1e-6), nc.CalibrationMonitor(1e-6, seed=1)
    whole.observe(ensemble, y)
    for start in range(0, 500, 33):
        parts.observe(ensemble[start : start + 33], y[start : start + 33])
    other.observe(ensemble, y)
    assert whole.log_evidence == parts.log_evidence != other.log_evidence
    assert whole.alarm is None  # an ensemble of the right distribution is calibrated


def test_far_and_impossible_responses_are_evidence_not_trouble():
    for z in (1e9, np.inf, -np.inf, -50.0):
        monitor = nc.CalibrationMonitor(0.01)
        alarm = monitor.observe_scores(z)
        assert alarm.index == alarm.since == 0
        assert np.isfinite(monitor.log_evidence)
    assert nc.CalibrationMonitor().observe(nc.Gamma(2.0, 1.0), [-3.0]).diagnosis != ""


def test_an_alarm_stays_until_it_is_reset():
    monitor = nc.CalibrationMonitor(0.05)
    alarm = monitor.observe_scores(np.full(50, 3.0))
    p_value = monitor.p_value
    assert monitor.observe_scores(np.zeros(5000)) is alarm
    assert (monitor.n_observed, monitor.p_value) == (5050, p_value)
    assert monitor.reset().alarm is None
    assert (monitor.n_observed, monitor.p_value, monitor.log_evidence) == (0, 1.0, 0.0)


def test_it_goes_on_from_a_file_to_the_last_bit(tmp_path):
    z = np.random.default_rng(7).normal(0.1, 1, size=900)
    whole, broken = nc.CalibrationMonitor(0.01, seed=3), nc.CalibrationMonitor(0.01, seed=3)
    whole.observe_scores(z)
    for start in (0, 1, 350, 600):
        broken.observe_scores(z[start : {0: 1, 1: 350, 350: 600, 600: 900}[start]])
        nc.save(broken, tmp_path / "it")
        broken = nc.load(tmp_path / "it")
    assert repr(broken) == repr(whole)
    assert (broken.alarm, broken.log_evidence, broken.p_value) == (whole.alarm, whole.log_evidence, whole.p_value)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, np.nan, "a", None])
def test_bad_rates(rate):
    with pytest.raises(nc.InvalidParameterError, match="false_alarm must be"):
        nc.CalibrationMonitor(rate)


def test_bad_observations_change_nothing():
    monitor = nc.CalibrationMonitor()
    monitor.observe_scores([0.1, -0.4])
    before = monitor.log_evidence
    for bad in ([0.0, np.nan], [[0.0]], "a", None):
        with pytest.raises(nc.InvalidInputError, match=r"^z must"):
            monitor.observe_scores(bad)
    with pytest.raises(nc.InvalidInputError, match="y must have shape"):
        monitor.observe(nc.Normal([0.0, 1.0], 1.0), [1.0])
    with pytest.raises(nc.InvalidInputError, match="dist must be"):
        monitor.observe(3, [1.0])
    assert (monitor.n_observed, monitor.log_evidence) == (2, before)
