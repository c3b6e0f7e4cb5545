"""Online recalibration: predict, be told what happened, learn from it, and keep the level."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, as_float_array, as_response, as_space, check_count, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import check_fields, count, having, instance, optional, require, savable
from nearcal._table import Table
from nearcal.distributions import Distribution, concatenate, require_distribution
from nearcal.online.level_tracker import LevelTracker
from nearcal.online.prediction import OnlinePrediction
from nearcal.online.waiting import Waiting, WaitingRoom
from nearcal.recalibration import CONTINUOUS_RULES, Recalibrated, Recalibrator
from nearcal.recalibration.scores_of_rows import OneLaw, Untouched

_FARTHEST = 1e100  # of scores, the same as in a fit
_HELD = {
    "recalibrator": optional(having("recalibrate", "n_cal_")),
    "window": optional(count()),
    "tracker": instance(LevelTracker),
    "room": instance(WaitingRoom),
}


@savable
class OnlineRecalibrator:
    """Recalibrate predictions in order of time, and keep their coverage in the long run whatever happens.

    A recalibrator says what the errors of the model looked like near each new row. Responses then become known, at
    once, late, out of order or never, each told under the ticket of its prediction. They join the calibration set, if
    the recalibrator can be updated; and they move the level: one increasing map of scores, common to all rows, which
    follows at each end of the intervals asked for how often responses fall beyond it.

    Parameters
    ----------
    recalibrator : recalibrator, optional
        Fitted, with a continuous quantile rule ("predictive" or "interpolated") if it has one; None leaves the
        predictions as they are, up to the level. A copy is kept: the one given stays as it is.
    coverages : sequence of float
        The coverages of central intervals that are kept, each in ``interval(coverage)`` of what is predicted. The ends
        of other intervals lie between, on straight lines on the scale of normal scores.
    step : float
        How fast the level follows, on the scale of normal scores: one response beyond an end of an interval of
        coverage 90% moves that end by 0.95 steps, and one within by 0.05 steps back.
    window : int, optional
        The number of calibration points kept: when more are there, the oldest are forgotten. None keeps all.
    most_waiting : int
        The number of predictions that are kept while their responses are not known. Beyond it the oldest are dropped,
        and can no longer be observed.

    Notes
    -----
    *What is promised.* Let T responses be told, with scores of at most b in absolute value under what the recalibrator
    predicted, and at most D of them told between any prediction and its own response. Then for each of the L levels p
    that are followed (both ends of the coverages, and the median), the share of responses at or below the predicted
    quantile differs from p by at most (2 b / step + (D + 1)(L + 1) / 2) / T. That holds for every sequence, drifting,
    dependent or chosen by an adversary; nothing is assumed, and nothing is promised for single rows, for groups of
    rows, or for a short stretch of time. A central interval misses its coverage by at most twice as much. The method is
    the multi-level quantile tracker of Ding, Gibbs and Tibshirani, on normal scores, and the proof stands in
    ``nearcal/online/level_tracker.py``. For several horizons take one object for each.

    References
    ----------
    T. Ding, I. Gibbs and R. J. Tibshirani, *Calibrated Multi-Level Quantile Forecasting*, arXiv:2512.23671.
    A. N. Angelopoulos, E. J. Candès and R. J. Tibshirani, *Conformal PID Control for Time Series Prediction*,
    NeurIPS 2023, arXiv:2307.16895. I. Gibbs and E. J. Candès, *Adaptive Conformal Inference Under Distribution Shift*,
    NeurIPS 2021, arXiv:2106.00170.

    Examples
    --------
    A model whose standard deviation is half of what it should be, and nobody to fit it again:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> online = nc.OnlineRecalibrator()
    >>> for _ in range(1000):
    ...     prediction = online.predict(nc.Normal(0.0, 1.0))
    ...     online = online.observe(prediction.tickets, rng.normal(0.0, 2.0, size=1))
    >>> online.predict(nc.Normal(0.0, 1.0)).std().round(1)
    array([2.])
    >>> shares = online.levels()["share"][[2, -3]]  # at the ends of 90%
    >>> np.abs(shares - [0.05, 0.95]).max() < 0.02
    np.True_
    """

    def __init__(
        self,
        recalibrator: Any = None,
        *,
        coverages: Any = (0.5, 0.8, 0.9, 0.95, 0.99),
        step: float = 0.1,
        window: int | None = None,
        most_waiting: int = 10_000,
    ) -> None:
        if recalibrator is not None:
            _check_recalibrator(recalibrator)
        check_number(step, "step", 0.0, strict=True)
        if np.ndim(coverages) != 1 or not np.size(coverages):
            raise InvalidParameterError(f"coverages must be a sequence of numbers such as (0.9,), got {coverages!r}")
        self.window = _check_window(window, recalibrator)
        self._tracker = LevelTracker(coverages, float(step))
        self._room = WaitingRoom(most_waiting)
        self._recalibrator = deepcopy(recalibrator)

    def __repr__(self) -> str:
        return (
            f"OnlineRecalibrator({self._recalibrator!r}, step={self._tracker.step:g}, window={self.window}: "
            f"{self.n_told} told, {len(self._room)} waiting)"
        )

    # ---- what is known ----------------------------------------------------------------------------------------------

    @property
    def recalibrator(self) -> Any:
        """The recalibrator as it stands now; None if there is none."""
        return self._recalibrator

    @property
    def n_told(self) -> int:
        """The number of responses told."""
        return self._tracker.n_told

    @property
    def n_dropped(self) -> int:
        """The number of predictions dropped because more than ``most_waiting`` waited."""
        return self._room.n_dropped

    @property
    def waiting(self) -> NDArray[np.int64]:
        """The tickets of predictions whose responses are not known, oldest first."""
        return self._room.tickets

    def levels(self) -> Table:
        """Return the levels that are followed: what was promised, what was kept, and how.

        Returns
        -------
        Table
            ``level``; ``share``, of the responses told those at or below the quantile of that level predicted for them
            (NaN before the first); ``offset``, the normal score under the recalibrator's prediction at which the
            quantile of that level is read now; before any response it is the score of the level itself.
        """
        tracker = self._tracker
        with np.errstate(invalid="ignore"):
            share = tracker.at_or_below / np.where(tracker.n_told, tracker.n_told, np.nan)
        return Table({"level": tracker.levels, "share": share, "offset": tracker.offsets})

    # ---- predict, observe -------------------------------------------------------------------------------------------

    def predict(self, dist_new: Distribution, space_new: Any = None) -> OnlinePrediction:
        """Return the recalibrated distributions of new rows, each with a ticket.

        Parameters
        ----------
        dist_new : Distribution
            Predictive distributions of the m new rows, at most ``most_waiting``.
        space_new : array_like of shape (m, d), optional
            Where they are, for a recalibrator that asks.

        Returns
        -------
        OnlinePrediction
            A :class:`Recalibrated` with ``tickets`` of shape (m,).
        """
        base = require_distribution(dist_new, "dist_new")
        self._room.require_room(len(base))
        space = None if space_new is None else as_space(space_new, "space_new", len(base))
        within = self._recalibrate(base, space)
        scores = OneLaw(self._tracker.map(), self.n_told)
        quantiles = within.from_z(self._tracker.offsets[np.newaxis])  # what the result's ppf returns at the levels
        return OnlinePrediction(within, scores, self._room.enter(base, space, quantiles))

    def observe(self, tickets: Any, y: Any) -> Self:
        """Tell what happened, and learn from it.

        Either all is taken or, with an error, nothing: tickets then wait as before.

        Parameters
        ----------
        tickets : int or array_like of shape (n,)
            Which predictions the responses belong to, in any order, each told once.
        y : float or array_like of shape (n,)
            The responses.
        """
        found = self._room.find(tickets)
        waiting = list(found.values())
        responses = as_response(np.atleast_1d(as_float_array(y, "y")), len(waiting), "y")
        if _can_learn(self._recalibrator):
            self._learn(waiting, responses, list(found))
        self._tracker.tell(responses[:, np.newaxis] <= np.array([one.quantiles for one in waiting]))
        self._room.leave(found)
        return self

    def discard(self, tickets: Any) -> Self:
        """Let go of predictions that will never be told of; ``waiting`` has their tickets."""
        self._room.leave(self._room.find(tickets))
        return self

    def _recalibrate(self, base: Distribution, space: FloatArray | None) -> Recalibrated:
        if self._recalibrator is None:
            return Recalibrated(base, Untouched())
        within = self._recalibrator.recalibrate(base, space)
        if not within.scores.has_density:
            raise _no_reach(self._recalibrator)
        return within

    def _learn(self, waiting: Sequence[Waiting], y: FloatArray, tickets: Sequence[int]) -> None:
        """Let responses join the calibration set, and the oldest points leave it."""
        for ticket, one, response in zip(tickets, waiting, y, strict=True):
            z = float(one.base.z(response)[0])
            if not abs(z) <= _FARTHEST:
                raise InvalidInputError(
                    f"y must lie inside the support of dist_new, got {float(response)!r} for ticket {ticket}, with a "
                    f"normal score of {z:g} under the model; nothing was learnt: discard that ticket, or predict by a "
                    "distribution that allows it"
                )
        _update(self._recalibrator, waiting, y)
        if self.window is not None:
            self._recalibrator.forget(keep_last=self.window)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        held = (self._recalibrator, self.window, self._tracker, self._room)
        return dict(zip(_HELD, held, strict=True))

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        held = check_fields(saved, _HELD)
        online = cls()
        online._recalibrator, online.window = held["recalibrator"], held["window"]
        online._tracker, online._room = held["tracker"], held["room"]
        require(online.window is None or _can_learn(online._recalibrator), "window needs a recalibrator that learns")
        for one in online._room.all():
            fits = len(one.quantiles) == len(online._tracker.levels)
            require(fits, "predictions that wait must have a quantile for every level")
        return online


def _can_learn(recalibrator: Any) -> bool:
    """Tell whether a recalibrator can be updated; the method of the base class refuses, and says why."""
    own = getattr(type(recalibrator), "update", None)
    return own is not None and own is not getattr(Recalibrator, "update", None)


def _check_recalibrator(recalibrator: Any) -> None:
    if not hasattr(recalibrator, "recalibrate"):
        raise InvalidParameterError(
            f"recalibrator must be a fitted recalibrator or None, got {type(recalibrator).__name__}; give "
            "nearcal.tune(...).recalibrator, or .recalibrator of a calibrated model"
        )
    if hasattr(recalibrator, "_require_fitted"):
        recalibrator._require_fitted()
    if getattr(recalibrator, "quantile_rule", CONTINUOUS_RULES[0]) not in CONTINUOUS_RULES:
        raise _no_reach(recalibrator)


def _check_window(window: Any, recalibrator: Any) -> int | None:
    if window is None:
        return None
    most = check_count(window, "window")
    if not _can_learn(recalibrator):
        kind = "none" if recalibrator is None else f"a {type(recalibrator).__name__}"
        raise InvalidParameterError(
            f"window must be None for a recalibrator that cannot be updated, got window={most} and {kind}; use "
            "nearcal.LocalRecalibrator, or leave window out: the level is followed all the same"
        )
    k = getattr(recalibrator, "k", None)
    if k is not None and most < k:
        raise InvalidParameterError(
            f"window must be at least the number of neighbours, k={k}, got {most}; keep more points, or fit with a "
            "smaller k"
        )
    return most


def _no_reach(recalibrator: Any) -> InvalidParameterError:
    return InvalidParameterError(
        f"recalibrator must have a continuous quantile_rule, one of {CONTINUOUS_RULES}, got {recalibrator!r}: no "
        "correction of the level reaches beyond the outermost value of a weighted sample; fit it with "
        'quantile_rule="predictive"'
    )


def _update(recalibrator: Any, waiting: Sequence[Waiting], y: FloatArray) -> None:
    """Add points to the calibration set: together where their bases are of one kind, else one by one."""
    try:
        parts = [concatenate([one.base for one in waiting])]
    except InvalidInputError:
        parts = [one.base for one in waiting]
    start = 0
    for part in parts:
        rows = slice(start, start + len(part))
        places = [one.place for one in waiting[rows]]
        recalibrator.update(part, y[rows], None if places[0] is None else np.array(places))
        start = rows.stop
