"""Online recalibration against refits and against itself told otherwise: late, in another order, after a file."""

import copy

import numpy as np
import pytest

import nearcal as nc

WORKERS = nc.Workers(threads=1)


def stream(n=260, seed=1):
    """Predictions whose errors depend on where they are, and drift."""
    rng = np.random.default_rng(seed)
    space = rng.normal(size=(n, 2))
    mean, scale = space[:, 0], np.exp(0.3 * space[:, 1])
    y = rng.normal(mean + 0.5 * space[:, 1] + np.linspace(0, 1, n), 1.5 * scale)
    return nc.Normal(mean, scale), y, space


def local(n=120, **options):
    dist, y, space = stream()
    options = {"k": 40, "quantile_rule": "predictive", "workers": WORKERS, **options}
    return nc.LocalRecalibrator(**options).fit(dist[:n], y[:n], space[:n])


def run(online, rows, *, batch=1):
    """Predict and observe at once; return the intervals predicted."""
    dist, y, space = stream()
    ends = []
    for start in range(rows.start, rows.stop, batch):
        part = slice(start, min(start + batch, rows.stop))
        out = online.predict(dist[part], space[part])
        ends.append(np.column_stack(out.interval(0.9)))
        online.observe(out.tickets, y[part])
    return np.concatenate(ends)


# ---- what is predicted ----------------------------------------------------------------------------------------------


def test_before_anything_is_told_predictions_are_those_of_the_recalibrator():
    dist, y, space = stream()
    rc = local()
    out, plain = (
        nc.OnlineRecalibrator(rc).predict(dist[120:140], space[120:140]),
        rc.recalibrate(dist[120:140], space[120:140]),
    )
    p = np.array([0.001, 0.05, 0.3, 0.5, 0.77, 0.95, 0.9999])
    np.testing.assert_allclose(out.ppf(p), plain.ppf(p), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(out.logpdf(y[120:140]), plain.logpdf(y[120:140]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out.std(), plain.std(), rtol=5e-3)
    bare = nc.OnlineRecalibrator().predict(dist[:5])
    np.testing.assert_allclose(bare.ppf(p), dist[:5].ppf(p), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(bare.effective_size, 0)
    assert bare.n_cal is None


def test_what_is_known_of_neighbourhoods_is_told_of_those_within():
    dist, _, space = stream()
    rc = local()
    out, plain = (
        nc.OnlineRecalibrator(rc).predict(dist[120:140], space[120:140]),
        rc.recalibrate(dist[120:140], space[120:140]),
    )
    np.testing.assert_array_equal(out.effective_size, plain.effective_size)
    np.testing.assert_array_equal(out.radius, plain.radius)
    np.testing.assert_array_equal(out.reliability()["p_value"], plain.reliability()["p_value"])
    for name in ("neighbors", "weighted_sample"):
        for one, other in zip(getattr(out, name)(slice(3)), getattr(plain, name)(slice(3)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert out.n_cal == 120
    summary = out.summary(0.9)
    np.testing.assert_array_equal(summary.effective_size, plain.effective_size)
    np.testing.assert_array_equal(summary.lower, out.interval(0.9)[0])


def test_a_row_and_its_ticket_stay_together():
    dist, _, space = stream()
    online = nc.OnlineRecalibrator(local())
    run(online, range(120, 150))
    out = online.predict(dist[150:160], space[150:160])
    np.testing.assert_array_equal(out.tickets, np.arange(30, 40))
    some = out[[7, 2]]
    np.testing.assert_array_equal(some.tickets, [37, 32])
    np.testing.assert_array_equal(some.ppf(0.3), out.ppf(0.3)[[7, 2]])
    np.testing.assert_array_equal(out[4].std(), out.std()[4:5])


def test_a_correction_of_the_level_is_read_at_its_knots():
    """The quantiles that responses are compared with are those that a user sees, to the last bit."""
    dist, _, space = stream()
    online = nc.OnlineRecalibrator(local(corrections=(nc.LocalLinear(), nc.Polish())), step=0.3)
    run(online, range(120, 180))
    out = online.predict(dist[180:190], space[180:190])
    table = online.levels()
    kept = np.array([online._room.find(ticket)[ticket].quantiles for ticket in out.tickets.tolist()])
    np.testing.assert_array_equal(kept, out.ppf(table["level"]))
    lower, upper = out.interval(0.9)
    np.testing.assert_array_equal(lower, kept[:, np.argmin(np.abs(table["level"] - 0.05))])
    np.testing.assert_array_equal(upper, kept[:, np.argmin(np.abs(table["level"] - 0.95))])


def test_pooled_levels_are_an_atom_and_every_statistic_still_answers():
    online = nc.OnlineRecalibrator(step=0.5)
    for y in (-0.9, -1.1, 0.9, 1.0):  # between two levels, which change places
        online.observe(online.predict(nc.Normal(0.0, 1.0)).tickets, y)
    out = online.predict(nc.Normal([0.0, 5.0], [1.0, 2.0]))
    assert not out.is_continuous
    levels = online.levels()
    assert (np.diff(levels["offset"]) >= 0).all()
    assert (np.diff(levels["offset"]) == 0).any()
    p = np.linspace(0.01, 0.99, 50)
    assert (np.diff(out.ppf(p), axis=1) >= 0).all()
    assert (out.cdf(out.ppf(p)) >= p - 1e-9).all()
    draws = out.sample(200_000, rng=1)
    # standard errors: of the mean std / sqrt(200,000), of the standard deviation about as much; 6 of them
    np.testing.assert_allclose(out.mean(), draws.mean(axis=1), atol=0.03)
    np.testing.assert_allclose(out.std(), draws.std(axis=1), rtol=0.03)


def test_a_median_that_overflows_has_no_spread_to_tell():
    online = nc.OnlineRecalibrator(nc.IsotonicRecalibrator().fit(nc.LogNormal(np.zeros(3), 1.0), [0.5, 1.0, 2.0]))
    online.observe(online.predict(nc.LogNormal([0.0, 0.0, 0.0], 1.0)).tickets, [1e300, 1e290, 1e280])
    out = online.predict(nc.LogNormal([0.0, 600.0], 1.0))
    assert np.isinf(out.std()).all()
    assert not np.isfinite(out.mean()).any()


# ---- what is learnt -------------------------------------------------------------------------------------------------


def test_the_calibration_set_is_that_of_a_refit_on_the_window():
    dist, y, space = stream()
    rc = local(corrections=())
    online = nc.OnlineRecalibrator(rc, window=100)
    run(online, range(120, 260))
    assert rc.n_cal_ == 120  # the one given stays as it is
    assert online.recalibrator.n_cal_ == 100
    fresh = nc.LocalRecalibrator(k=40, quantile_rule="predictive").fit(dist[160:], y[160:], space[160:])
    np.testing.assert_array_equal(
        online.recalibrator.recalibrate(dist[:9], space[:9]).ppf(0.2), fresh.recalibrate(dist[:9], space[:9]).ppf(0.2)
    )


@pytest.mark.parametrize(
    "recalibrator",
    [
        nc.GlobalRecalibrator(quantile_rule="interpolated"),
        nc.IsotonicRecalibrator(),
        nc.VarianceScaling(),
        nc.ConformalRecalibrator(),
        nc.IdentityRecalibrator(),
        nc.KNNRegressor(k=30, quantile_rule="predictive"),
        nc.QuantileNetRecalibrator(epochs=2, rng=1),
    ],
    ids=lambda rc: type(rc).__name__,
)
def test_any_recalibrator_will_do(recalibrator):
    dist, y, space = stream()
    rc = recalibrator.fit(dist[:120], y[:120], space[:120])
    online = nc.OnlineRecalibrator(rc, step=0.1)
    ends = run(online, range(120, 260))
    assert np.isfinite(ends).all()
    learns = not isinstance(rc, nc.QuantileNetRecalibrator)
    assert online.recalibrator.n_cal_ == (260 if learns else 120)
    share = online.levels()["share"]
    # the bound with scores of at most 5 of the recalibrated predictions, which holds here, seed and all
    assert (np.abs(share - online.levels()["level"]) <= (2 * 5 / 0.1 + 12 / 2) / 140).all()


def test_coverage_is_kept_whatever_drifts():
    """Spread and mean jump; nothing is refitted, and the level makes up for it within the promise."""
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(size=800), rng.normal(2, 4, size=800), rng.normal(-1, 0.3, size=800)])
    online, step = nc.OnlineRecalibrator(step=0.2), 0.2
    is_in = []
    for response in y:
        out = online.predict(nc.Normal(0.0, 1.0))
        lower, upper = out.interval(0.9)
        is_in.append(lower[0] < response <= upper[0])
        online.observe(out.tickets, response)
    b = np.abs(y).max()  # scores of a standard Normal base are the responses
    assert abs(np.mean(is_in) - 0.9) <= 2 * (2 * b / step + 6) / len(y)
    assert abs(np.mean(is_in) - 0.9) < 0.01  # what it comes to here


def test_bases_of_several_kinds_are_learnt_from_one_by_one():
    rc = nc.VarianceScaling().fit(nc.Normal(np.zeros(30), 1.0), np.random.default_rng(8).normal(size=30))
    mixed, alike = nc.OnlineRecalibrator(rc), nc.OnlineRecalibrator(rc)
    tickets = [int(mixed.predict(base).tickets[0]) for base in (nc.Normal(0.0, 2.0), nc.Laplace(1.0, 1.0))]
    mixed.observe(tickets, [1.0, 3.0])
    z = np.append(nc.Normal(0.0, 2.0).z(1.0), nc.Laplace(1.0, 1.0).z(3.0))
    alike.observe(alike.predict(nc.Normal(np.zeros(2), 1.0)).tickets, z)
    np.testing.assert_allclose(mixed.recalibrator.factor_, alike.recalibrator.factor_, rtol=1e-12)
    assert mixed.recalibrator.n_cal_ == 32


# ---- late, out of order, never --------------------------------------------------------------------------------------


def test_responses_told_late_and_in_another_order_give_the_same_level():
    dist, y, space = stream()
    batch, disordered = (nc.OnlineRecalibrator(local(), step=0.1) for _ in range(2))
    first, second = batch.predict(dist[120:140], space[120:140]), disordered.predict(dist[120:140], space[120:140])
    batch.observe(first.tickets, y[120:140])
    for row in np.random.default_rng(4).permutation(20):
        disordered.observe(second.tickets[row], y[120 + row])
    np.testing.assert_array_equal(batch.levels()["offset"], disordered.levels()["offset"])
    assert disordered.recalibrator.n_cal_ == batch.recalibrator.n_cal_ == 140
    later = (online.predict(dist[150:160], space[150:160]).ppf(0.9) for online in (batch, disordered))
    np.testing.assert_allclose(*later, rtol=1e-12)  # the order of calibration points decides the rounding of sums


def test_a_prediction_is_judged_by_what_was_predicted_however_late():
    online = nc.OnlineRecalibrator(step=1.0)
    early = online.predict(nc.Normal(0.0, 1.0))
    for _ in range(20):
        online.observe(online.predict(nc.Normal(0.0, 1.0)).tickets, 9.0)
    before = online.levels()
    assert before["offset"][-1] > 5
    online.observe(early.tickets, 4.0)  # above all quantiles that were predicted for it, below the highest of now
    np.testing.assert_allclose(21 * online.levels()["share"], 20 * before["share"], atol=1e-9)


def test_those_never_told_are_dropped_when_too_many_wait():
    online = nc.OnlineRecalibrator(most_waiting=3)
    first = online.predict(nc.Normal([0.0, 1.0], 1.0))
    second = online.predict(nc.Normal([2.0, 3.0], 1.0))
    np.testing.assert_array_equal(online.waiting, [1, 2, 3])
    assert online.n_dropped == 1
    with pytest.raises(nc.InvalidInputError, match=r"got 0: it was observed or discarded before, or dropped with 1"):
        online.observe(first.tickets, [0.0, 1.0])
    np.testing.assert_array_equal(online.waiting, [1, 2, 3])
    assert online.n_told == 0  # all or nothing
    online.discard(second.tickets).observe(1, 0.4)
    assert len(online.waiting) == 0
    assert online.n_told == 1


# ---- mistakes -------------------------------------------------------------------------------------------------------


def waiting_for_three():
    online = nc.OnlineRecalibrator(local())
    dist, _, space = stream()
    online.predict(dist[120:123], space[120:123])
    return online


@pytest.mark.parametrize(
    ("tickets", "y", "match"),
    [
        ([0, 0], [1.0, 1.0], "tickets must differ from each other, got 0 twice"),
        ([0, 3], [1.0, 1.0], r"got 3: no prediction had it \(there were 3 so far, 0 to 2\)"),
        ([-1], [1.0], "got -1: no prediction had it"),
        ([0.0], [1.0], "tickets must be a whole number or a sequence of them"),
        ([[0]], [1.0], r"shape \(1, 1\)"),
        ([], [], "tickets must be a whole number"),
        ([True], [1.0], "dtype bool"),
        ("0", [1.0], "tickets must be a whole number"),
        ([0, 1], [1.0], r"y must have shape \(2,\)"),
        ([0], [np.nan], "y must be finite"),
        ([0, 1], [1.0, np.inf], "y must be finite"),
        (0, None, "y must be an array of real numbers, got None"),
        (0, "a", "y must hold real numbers"),
    ],
)
def test_bad_responses_are_refused_and_nothing_is_lost(tickets, y, match):
    online = waiting_for_three()
    with pytest.raises(nc.InvalidInputError, match=match):
        online.observe(tickets, y)
    assert (online.n_told, len(online.waiting), online.recalibrator.n_cal_) == (0, 3, 120)
    online.observe([2, 0, 1], [1.0, 1.0, 1.0])
    assert (online.n_told, len(online.waiting), online.recalibrator.n_cal_) == (3, 0, 123)


def test_twice_is_an_error():
    online = waiting_for_three().observe(1, 0.5)
    with pytest.raises(nc.InvalidInputError, match=r"got 1: it was observed or discarded before; each is told once"):
        online.observe(1, 0.5)
    with pytest.raises(nc.InvalidInputError, match="got 1: it was observed or discarded before"):
        online.discard([0, 1])
    np.testing.assert_array_equal(online.waiting, [0, 2])


def test_an_impossible_response_is_refused_and_can_be_discarded():
    rng = np.random.default_rng(5)
    rc = nc.VarianceScaling().fit(nc.Gamma(np.full(50, 2.0), 1.0), rng.gamma(2.0, 1.0, size=50))
    online = nc.OnlineRecalibrator(rc)
    out = online.predict(nc.Gamma([2.0, 2.0], 1.0))
    with pytest.raises(nc.InvalidInputError, match=r"y must lie inside the support of dist_new, got -1.0 for ticket 1"):
        online.observe(out.tickets, [1.0, -1.0])
    assert online.n_told == 0
    online.discard(1).observe(0, 1.0)
    assert online.n_told == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"recalibrator": 3}, "recalibrator must be a fitted recalibrator or None, got int"),
        ({"recalibrator": nc.GlobalRecalibrator()}, "is not fitted"),
        ({"step": 0.0}, "step must be a finite number > 0"),
        ({"step": np.nan}, "step must be a finite number > 0"),
        ({"coverages": 0.9}, "coverages must be a sequence"),
        ({"coverages": ()}, "coverages must be a sequence"),
        ({"coverages": (0.9, 1.0)}, "coverage must lie strictly between 0 and 1"),
        ({"window": 5}, "window must be None for a recalibrator that cannot be updated, got window=5 and none"),
        ({"most_waiting": 0}, "most_waiting must be a whole number >= 1"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises((nc.InvalidParameterError, nc.NotFittedError), match=match):
        nc.OnlineRecalibrator(**options)


def test_options_that_do_not_go_together():
    with pytest.raises(nc.InvalidParameterError, match="recalibrator must have a continuous quantile_rule"):
        nc.OnlineRecalibrator(local(quantile_rule="step"))
    with pytest.raises(
        nc.InvalidParameterError, match="window must be at least the number of neighbours, k=40, got 39"
    ):
        nc.OnlineRecalibrator(local(), window=39)
    dist, y, space = stream()
    net = nc.QuantileNetRecalibrator(epochs=2, rng=1).fit(dist, y, space)
    with pytest.raises(nc.InvalidParameterError, match="window=50 and a QuantileNetRecalibrator"):
        nc.OnlineRecalibrator(net, window=50)
    online = nc.OnlineRecalibrator(local(), most_waiting=2)
    with pytest.raises(nc.InvalidInputError, match="dist_new must have at most most_waiting = 2 rows at a time, got 3"):
        online.predict(dist[:3], space[:3])
    with pytest.raises(nc.InvalidInputError, match="space_new"):
        online.predict(dist[:1])
    assert len(online.waiting) == 0


# ---- files ----------------------------------------------------------------------------------------------------------

BASES = {
    "Normal": nc.Normal([0.0, 1.0], [1.0, 2.0]),
    "Gamma": nc.Gamma([2.0, 3.0], 1.0),
    "StudentT": nc.StudentT([4.0, 5.0], 1.0, 1.0),
    "LogNormal": nc.LogNormal([0.0, 1.0], 0.5),
    "Laplace": nc.Laplace([0.0, 1.0], 2.0),
    "Samples": nc.Samples(np.random.default_rng(6).normal(size=(2, 9))),
    "Quantiles": nc.Quantiles([0.1, 0.5, 0.9], [[1.0, 2.0, 4.0], [0.0, 1.0, 3.0]]),
    "Mixture": nc.Mixture(
        [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]], [nc.Normal([0.0, 1.0], s) for s in (1.0, 2.0, 3.0)]
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_a_file_in_the_middle_goes_on_to_the_last_bit(name, tmp_path):
    base = BASES[name]
    online = nc.OnlineRecalibrator(nc.GlobalRecalibrator(quantile_rule="predictive").fit(base, [1.0, 2.0]), step=0.1)
    waiting = online.predict(base)
    online.observe(online.predict(base).tickets, [1.5, 0.7])
    nc.save(online, tmp_path / "it.nearcal")
    loaded = nc.load(tmp_path / "it.nearcal")
    nc.save(loaded, tmp_path / "again.nearcal")
    assert (tmp_path / "again.nearcal").read_bytes() == (tmp_path / "it.nearcal").read_bytes()
    for one in (online, loaded):
        one.observe(waiting.tickets[::-1], [0.3, 2.2])
    p = np.linspace(0.01, 0.99, 21)
    np.testing.assert_array_equal(online.predict(base).ppf(p), loaded.predict(base).ppf(p))
    np.testing.assert_array_equal(online.recalibrator.law_.line.values, loaded.recalibrator.law_.line.values)


def test_a_stream_with_a_file_in_the_middle_is_the_same_stream(tmp_path):
    whole, broken = (nc.OnlineRecalibrator(local(scaling="standard"), window=110) for _ in range(2))
    expected = run(whole, range(120, 200))
    first = run(broken, range(120, 150))
    nc.save(broken, tmp_path / "it")
    second = run(nc.load(tmp_path / "it"), range(150, 180))
    nc.save(broken, tmp_path / "it")
    np.testing.assert_array_equal(np.concatenate([first, second]), expected[:60])
    np.testing.assert_array_equal(run(copy.deepcopy(broken), range(150, 200)), expected[30:])


def test_what_cannot_be_saved_says_so(tmp_path):
    weighted = nc.Samples([[1.0, 2.0, 3.0]], [0.2, 0.3, 0.5])
    online = nc.OnlineRecalibrator()
    online.predict(weighted)
    with pytest.raises(nc.InvalidInputError, match="got weighted draws under ticket 0; observe or discard it first"):
        nc.save(online, tmp_path / "it")
    online.discard(0).predict(nc.OnlineRecalibrator().predict(nc.Normal(0.0, 1.0)))
    with pytest.raises(nc.InvalidInputError, match="got a OnlinePrediction under ticket 1"):
        nc.save(online, tmp_path / "it")
    nc.save(online.observe(1, 0.2), tmp_path / "it")
    assert nc.load(tmp_path / "it").n_told == 1
