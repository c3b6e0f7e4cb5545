"""Streams of extreme predictions and responses, told late, in any order, or never: right numbers, or an error."""

import numpy as np
import pytest

import nearcal as nc
from nearcal.recalibration import CONTINUOUS_RULES
from tests.fuzz.test_recalibrators import FAMILIES, check, make_problem

pytestmark = pytest.mark.filterwarnings("ignore::nearcal.TiesWarning")

RECALIBRATORS = {
    "none": lambda rng, n: None,
    "local": lambda rng, n: nc.LocalRecalibrator(k=max(n // 3, 1), quantile_rule=str(rng.choice(CONTINUOUS_RULES))),
    "radius": lambda rng, n: nc.LocalRecalibrator(radius=nc.Radius(1.0, 3, "base"), quantile_rule="predictive"),
    "corrected": lambda rng, n: nc.LocalRecalibrator(
        k=n, quantile_rule="predictive", corrections=(nc.LocalLinear(), nc.Shrinkage(), nc.Polish())
    ),
    "global": lambda rng, n: nc.GlobalRecalibrator(quantile_rule="interpolated"),
    "isotonic": lambda rng, n: nc.IsotonicRecalibrator(),
    "conformal": lambda rng, n: nc.ConformalRecalibrator(),
    "scaled": lambda rng, n: nc.VarianceScaling(),
}


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_streams(fuzz, name):
    def attack(rng):
        families = [family for family in FAMILIES if family != "scipy"]  # whose quantiles end early
        dist, y, space, new, places = make_problem(rng, str(rng.choice(families)))
        try:
            recalibrator = RECALIBRATORS[name](rng, len(y))
            if recalibrator is not None:
                recalibrator.fit(dist, y, space)
            online = nc.OnlineRecalibrator(recalibrator, step=10.0 ** rng.uniform(-3, 1), most_waiting=20)
        except nc.NearcalError:
            return
        for _ in range(4):
            follow(online, rng, new, places)

    fuzz.run(f"online, {name}", attack, cases=2)


def follow(online, rng, new, places):
    """Predict, and tell some of what waits: each response joins the level, or is refused and nothing changes."""
    try:
        check(online.predict(new, places), rng)
    except nc.NearcalError:
        return
    for ticket in rng.permutation(online.waiting)[: rng.integers(8)].tolist():
        before = online.n_told, len(online.waiting)
        y = float(rng.choice([rng.normal(), 1e300, -1e300, 0.0, 1e-300, np.inf, np.nan, new.median()[0]]))
        try:
            online.observe(ticket, y)
            expected = before[0] + 1, before[1] - 1
        except nc.NearcalError:
            expected = before
        assert (online.n_told, len(online.waiting)) == expected
    offsets = online.levels()["offset"]
    assert (np.diff(offsets) >= 0).all(), "offsets must increase"
    assert np.isfinite(offsets).all(), "an offset is not finite"


def test_monitor(fuzz):
    def attack(rng):
        monitor = nc.CalibrationMonitor(10.0 ** -rng.uniform(0.1, 300))
        for _ in range(5):
            z = rng.normal(size=rng.integers(1, 50)) * 10.0 ** rng.uniform(-3, 3)
            z[rng.random(len(z)) < 0.02] = rng.choice([np.inf, -np.inf, 1e300, -40.0, 0.0])
            alarm = monitor.observe_scores(z)
            assert np.isfinite(monitor.log_evidence)
            assert 0 <= monitor.p_value <= 1
            assert (alarm is None) == (monitor.p_value > monitor.false_alarm) or alarm.index < monitor.n_observed

    fuzz.run("monitor", attack, cases=20)
