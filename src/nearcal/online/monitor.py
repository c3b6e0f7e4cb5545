"""A monitor of calibration: a sequential test on scores, valid at any time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, as_float_array, as_response, check_count
from nearcal._errors import InvalidInputError
from nearcal._saved import array, check_fields, count, instance, number, optional, require, savable, saved_value, text
from nearcal.diagnostics import pit
from nearcal.distributions import Distribution, require_distribution
from nearcal.online.bets import BETS, LOG_STAKES, grow, log_ratios, log_shares, log_total
from nearcal.recalibration.reliability import check_false_alarm

_MOST = 2**53
_CHUNK = 4096  # scores whose ratios are computed together


@savable(index=count(0, _MOST), since=count(0, _MOST), diagnosis=text, log_evidence=number())
@dataclass(frozen=True)
class Alarm:
    """Calibration has been lost.

    Attributes
    ----------
    index : int
        The observation at which it was noticed, counted from 0.
    since : int
        The observation from which on the diagnosis is likeliest: an estimate.
    diagnosis : str
        What is wrong, in plain words.
    log_evidence : float
        The logarithm of the evidence at that time: calibrated predictions come to as much with probability at most
        exp(-log_evidence).
    """

    index: int
    since: int
    diagnosis: str
    log_evidence: float

    def __str__(self) -> str:
        return f"calibration lost: {self.diagnosis}, since about {self.since}, noticed at {self.index}"


@savable
class CalibrationMonitor:
    """Tell when predictions have lost their calibration, with a stated probability of ever being wrong about it.

    The scores z = Φ⁻¹(F(y)) of calibrated predictions are standard Normal, each given those before. The monitor bets
    against that: on scores that are shifted, stretched, shrunk or heavy-tailed, from any time on. While calibration
    holds its wealth, the evidence, is a martingale that starts at 1, and by Ville's inequality reaches
    1 / ``false_alarm`` with probability at most ``false_alarm``, however long it runs and whenever it is looked at.

    Parameters
    ----------
    false_alarm : float
        The probability of ever giving an alarm while predictions are calibrated.
    seed : int
        Seed of the randomisation of scores at atoms; see :func:`nearcal.diagnostics.pit`.

    Notes
    -----
    The promise is about predictions that are right given everything before them. Scores that depend on each other, as
    of forecasts several steps ahead or of a forecaster that leaves something of the past unused, are not, and the
    monitor may find out: then tell it every h-th only, or take the alarm for what it says. Small errors are let pass:
    the mildest bets are a shift of 1/4 and spreads of 5/4 and 4/5, so that evidence adds up only beyond a shift of 1/8
    of a standard deviation, or a spread off by more than a tenth; a recalibrator fitted to n points is itself off by
    about 1 / √n. After an alarm, and what was done about it, :meth:`reset` begins anew, with a new promise.

    References
    ----------
    J. Ville, *Étude critique de la notion de collectif*, 1939. A. Ramdas, P. Grünwald, V. Vovk and G. Shafer,
    *Game-Theoretic Statistics and Safe Anytime-Valid Inference*, Statistical Science 38 (2023), arXiv:2210.01948.
    J. Shin, A. Ramdas and A. Rinaldo, *E-detectors: a nonparametric framework for sequential change detection*,
    New England Journal of Statistics in Data Science 2 (2024), arXiv:2203.03532.

    Examples
    --------
    From observation 500 on, responses are half a standard deviation higher than predicted:

    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=1000)
    >>> y[500:] += 0.5
    >>> monitor = nc.CalibrationMonitor(false_alarm=0.01)
    >>> monitor.observe(nc.Normal(np.zeros(500), 1.0), y[:500]) is None
    True
    >>> alarm = monitor.observe(nc.Normal(np.zeros(500), 1.0), y[500:])
    >>> alarm.diagnosis
    'predictions are too low'
    >>> alarm.index < 700
    True
    """

    def __init__(self, false_alarm: float = 0.01, *, seed: int = 0) -> None:
        check_false_alarm(false_alarm)
        self.false_alarm = float(false_alarm)
        self.seed = check_count(seed, "seed", 0)
        self.reset()

    def __repr__(self) -> str:
        return f"CalibrationMonitor(false_alarm={self.false_alarm:g}: {self.n_observed} observed, {self.alarm})"

    def reset(self) -> Self:
        """Begin anew, after an alarm and what was done about it; counts begin at 0."""
        self.n_observed = 0
        self.alarm: Alarm | None = None
        self._log_most = 0.0  # of the evidence so far
        self._log_wealth: FloatArray = np.full(len(BETS), -np.inf)
        # for each bet the start that makes it likeliest, and the likelihood ratio since then: Page's CUSUM
        self._log_since: FloatArray = np.zeros(len(BETS))
        self._start = np.zeros(len(BETS), dtype=np.int64)
        return self

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence against calibration now, or at the alarm: a bettor's wealth, 0 at the start."""
        if self.alarm is not None:
            return self.alarm.log_evidence
        return float(log_total(self._log_wealth, self.n_observed))

    @property
    def p_value(self) -> float:
        """One over the largest evidence so far: at most a with probability at most a, whenever it is looked at."""
        return float(np.exp(-self._log_most))

    def observe(self, dist: Distribution, y: Any) -> Alarm | None:
        """Tell what was predicted and what happened, in order of time; return the alarm, or None.

        Parameters
        ----------
        dist : Distribution
            Predictive distributions of n rows.
        y : array_like of shape (n,) or (n, 1)
            The responses.

        Returns
        -------
        Alarm or None
            The first alarm of all, also if it was given earlier; observations after it are counted, no more.
        """
        return self.observe_scores(self._scores(require_distribution(dist, "dist"), y))

    def observe_scores(self, z: Any) -> Alarm | None:
        """Tell normal scores of responses, a number or (n,), as of ``dist.z(y)``; return the alarm, or None."""
        scores = np.atleast_1d(as_float_array(z, "z"))
        if scores.ndim != 1 or np.isnan(scores).any():
            bad = f"{int(np.isnan(scores).sum())} NaN" if scores.ndim == 1 else f"shape {scores.shape}"
            raise InvalidInputError(f"z must be a number or normal scores of shape (n,) without NaN, got {bad}")
        for start in range(0, len(scores), _CHUNK):
            if self.alarm is None:
                self._take(scores[start : start + _CHUNK])
            else:
                self.n_observed += len(scores[start : start + _CHUNK])
        return self.alarm

    def _take(self, z: FloatArray) -> None:
        """Bet on scores one by one: the same bits, however they are handed over."""
        limit = -np.log(self.false_alarm)
        for log_ratio, log_share in zip(log_ratios(z), log_shares(self.n_observed + 1, len(z)), strict=True):
            if self.alarm is None:
                self._start[self._log_since <= 0] = self.n_observed
                self._log_since = np.maximum(self._log_since, 0.0) + log_ratio
                self._log_wealth = grow(self._log_wealth, log_share, log_ratio)
            self.n_observed += 1
            if self.alarm is None:
                self._log_most = max(self._log_most, self.log_evidence)
                if self._log_most >= limit:
                    self.alarm = self._give_alarm()

    def _give_alarm(self) -> Alarm:
        winner = int(np.argmax(self._log_wealth + LOG_STAKES))
        index = self.n_observed - 1
        return Alarm(index, int(self._start[winner]), BETS[winner].diagnosis, self.log_evidence)

    def _scores(self, dist: Distribution, y: Any) -> FloatArray:
        response = as_response(y, len(dist), "y")
        if dist.is_continuous:
            return dist.z(response)
        # the draw of an observation is that of its number: the same, however rows are handed over
        draws = np.random.Generator(np.random.PCG64(self.seed).advance(self.n_observed))
        return ndtri(pit(dist, response, draws))

    # ---- files ------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        arrays = {"log_wealth": self._log_wealth, "log_since": self._log_since, "start": self._start}
        plain = {name: getattr(self, name) for name in ("false_alarm", "seed", "n_observed", "alarm")}
        return {**plain, "log_most": self._log_most, **arrays}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        n_observed = count(0, _MOST)("n_observed", saved_value(saved, "n_observed"))
        held = check_fields(
            saved,
            {
                "false_alarm": number(0.0),
                "seed": count(0, _MOST),
                "n_observed": count(0, _MOST),
                "alarm": optional(instance(Alarm)),
                "log_most": number(0.0),
                "log_wealth": array(np.float64, (len(BETS),), finite=n_observed > 0),
                "log_since": array(np.float64, (len(BETS),)),
                "start": array(np.int64, (len(BETS),)),
            },
        )
        require(((held["start"] >= 0) & (held["start"] <= n_observed)).all(), "start must lie between 0 and n_observed")
        monitor = cls(held["false_alarm"], seed=held["seed"])
        monitor.n_observed, monitor.alarm, monitor._log_most = n_observed, held["alarm"], held["log_most"]
        if n_observed:
            monitor._log_wealth, monitor._log_since = held["log_wealth"].copy(), held["log_since"].copy()
            monitor._start = held["start"].copy()
        return monitor
