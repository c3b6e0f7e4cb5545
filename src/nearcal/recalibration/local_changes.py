"""A calibration set that changes: points that come and go, of local recalibration."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

from nearcal._arrays import FloatArray, IntArray, as_space
from nearcal._errors import InvalidInputError
from nearcal._growing import GrowingRows
from nearcal.distributions import Distribution
from nearcal.recalibration.base import Recalibrator, is_empty, read_calibration
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import LearntCorrection
from nearcal.recalibration.neighborhoods import KNearest, WithinRadius
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.space import (
    Folds,
    Growing,
    IndexPlan,
    NeighborIndex,
    Search,
    SpaceMap,
    as_folds,
    check_points,
    grow,
)


class ChangingSet(Recalibrator):
    """What :class:`nearcal.LocalRecalibrator` knows of its calibration points, and how they come and go."""

    search: Search
    n_features_in_: int
    neighborhood_: KNearest | WithinRadius
    calibration_: CalibrationScores
    space_map_: SpaceMap
    index_: NeighborIndex
    corrections_: tuple[LearntCorrection, ...]
    own_isolation_: OwnIsolation
    positions_: GrowingRows | None

    @abstractmethod
    def _check_options(self) -> None:
        """Refuse options that cannot be learnt with."""

    @abstractmethod
    def _learn(self, calibration: CalibrationScores, space: FloatArray, folds: Folds | None) -> Self:
        """Learn everything from scores and positions."""

    def update(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Append points to the calibration set; the index takes them in without being built again every time.

        What was learnt from the calibration set as a whole stays as it was: the scaling of the space, and what
        corrections have learnt; call :meth:`relearn` from time to time to learn them again. The result is, to the last
        bit, that of a fit on all points with this scaling and these corrections. Without a learnt scaling
        (``scaling="none"``) and without corrections nothing else is learnt, and it is that of ``fit`` on all points.

        Results made before stay as they were. Approximate searches (``eps > 0``, "faiss") are built anew when they are
        first asked after an update.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the new calibration points, of any number, also none; the family may differ.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed.
        space_cal : array_like of shape (n, d)
            Where they are, in the space given to ``fit``.
        sample_weight : array_like of shape (n,), optional
            How much each counts beside those that are there, which count 1 each if none was given in ``fit``.

        Returns
        -------
        self
            If it fails, nothing has changed.

        Examples
        --------
        A model whose errors grow as time goes by, known by its last 500 observations:

        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> x, spread = rng.uniform(size=2000), np.repeat([1.0, 3.0], 1000)
        >>> y, model = rng.normal(x, spread), nc.Normal(x, 1.0)
        >>> rc = nc.LocalRecalibrator(k=200).fit(model[:1000], y[:1000], x[:1000])
        >>> rc.recalibrate(model[:2], x[:2]).std().round()
        array([1., 1.])
        >>> rc = rc.update(model[1000:], y[1000:], x[1000:]).forget(keep_last=500)
        >>> rc.recalibrate(model[:2], x[:2]).std().round()
        array([3., 3.])
        """
        self._require_fitted()
        if not is_empty(y_cal):
            more, space_cal, _ = read_calibration(dist_cal, y_cal, space_cal, sample_weight)
            self._append(more, as_space(space_cal, "space_cal", len(more), self.n_features_in_))
        return self

    def _append(self, more: CalibrationScores, space: FloatArray) -> None:
        points = replace(self.space_map_, name="space_cal")(space)
        check_points(points, self.index_.metric, "space_cal")
        self._hold_rows(
            self.calibration_.extended(more),
            self._growing_index().extended(points),
            None if self.positions_ is None else self.positions_.extended(space),
            tuple(correction.extended(points) for correction in self.corrections_),
        )

    def _keep(self, rows: IntArray) -> None:
        near = self.neighborhood_
        if isinstance(near, KNearest) and len(rows) < near.k:
            raise InvalidInputError(
                f"forget must leave at least k={near.k} of the {self.n_cal_} calibration points, got {len(rows)} that "
                "would remain; forget fewer, or fit again with a smaller k"
            )
        self._hold_rows(
            self.calibration_.restricted(rows),
            self._growing_index().restricted(rows),
            None if self.positions_ is None else self.positions_.kept(rows),
            tuple(correction.restricted(rows) for correction in self.corrections_),
        )

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Learn the scaling and the corrections again, from the calibration set as it is now.

        The result is, to the last bit, that of ``fit`` on the points that it has, in their order, and costs as much.

        Parameters
        ----------
        groups, time, gap
            As in ``fit``, of the points that it has.

        Examples
        --------
        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> x, y, model = rng.uniform(size=(600, 2)), rng.normal(size=600), nc.Normal(np.zeros(600), 2.0)
        >>> settings = {"k": 50, "scaling": "standard", "corrections": [nc.Polish()], "quantile_rule": "predictive"}
        >>> rc = nc.LocalRecalibrator(**settings).fit(model[:500], y[:500], x[:500])
        >>> rc = rc.update(model[500:], y[500:], x[500:]).relearn()
        >>> fresh = nc.LocalRecalibrator(**settings).fit(model, y, x)
        >>> (rc.recalibrate(model, x).std() == fresh.recalibrate(model, x).std()).all()
        np.True_
        """
        self._require_fitted()
        self._check_options()
        folds = as_folds(groups, time, gap, self.n_cal_)
        return self._learn(self.calibration_, self.positions(), folds)

    def positions(self) -> FloatArray:
        """Return where calibration points are, as it was given."""
        return self.index_.points if self.positions_ is None else self.positions_.array

    def _growing_index(self) -> Growing:
        near = self.neighborhood_
        eps = near.eps if isinstance(near, KNearest) else 0.0
        plan = IndexPlan(self.index_.metric, self.search, near.least, eps)
        return grow(self.index_, lambda: self.space_map_(self.positions()), plan)

    def _hold_rows(
        self,
        calibration: CalibrationScores,
        index: Growing,
        positions: GrowingRows | None,
        corrections: tuple[LearntCorrection, ...],
        **more: Any,
    ) -> None:
        """Take over other calibration points; at once, since another thread may be about to recalibrate."""
        near = self.neighborhood_
        vars(self).update(
            neighborhood_=near.among(calibration),
            calibration_=calibration,
            index_=index,
            positions_=positions,
            corrections_=corrections,
            own_isolation_=OwnIsolation.of_growing(index),
            n_cal_=len(calibration),
            **more,
        )


def are_positions(space_map: SpaceMap, index: NeighborIndex) -> bool:
    """Tell whether the points of an index are positions as they were given: neither scaled nor brought to a sphere."""
    return space_map.matrix is None and index.metric != "cosine"
