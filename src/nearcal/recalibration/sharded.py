"""Local recalibration by a calibration set larger than memory: in shards, built by streaming, searched in place."""

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_space, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import count, flag, having, instance, one_of, require, savable, tuple_of
from nearcal.distributions import Distribution, require_distribution
from nearcal.recalibration.base import Recalibrator, calibration_scores
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.corrections import Correction, LearntCorrection
from nearcal.recalibration.fade import Fade, trust_by_ranges
from nearcal.recalibration.leave_one_out import LeaveOneOut
from nearcal.recalibration.local import LocalRecalibrator
from nearcal.recalibration.local_options import check_options, neighborhood_of
from nearcal.recalibration.neighborhoods import KNearest, Radius, Smoothing, WithinRadius
from nearcal.recalibration.reliability import OwnIsolation
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.score_laws import QUANTILE_RULES, QuantileRule
from nearcal.recalibration.sharded_scores import ScoresElsewhere, ShardedScores, find_around
from nearcal.recalibration.workers import Workers
from nearcal.space import (
    ColumnSums,
    Found,
    Metric,
    RowSample,
    Scaling,
    ScalingName,
    Search,
    ShardedIndex,
    SpaceMap,
    View,
    build_shards,
    has_equals,
)

ROWS_AT_ONCE = 2**17
LEAST_SAMPLE = 10_000
_MOST_LOOKED_UP = 2**21  # pairs of a point and its neighbours, from which corrections are learnt

Batch = tuple[Distribution, Any, Any]


class _AllLookedUp(LeaveOneOut):
    """Calibration points each among the others, of which some are looked up: these stand for any that are asked."""

    def gather(self, statistic: Any, values: FloatArray, rows: IntArray | None = None) -> FloatArray:
        return super().gather(statistic, values, None)


@savable(
    n_cal_=count(),
    n_features_in_=count(),
    neighborhood_=instance(KNearest, WithinRadius),
    quantile_rule_=one_of(*QUANTILE_RULES),
    space_map_=instance(SpaceMap),
    index_=having("found_nearest", "found_within", "shape"),
    corrections_=tuple_of(instance(LearntCorrection)),
    own_isolation_=instance(OwnIsolation),
    has_ties_=flag,
)
class ShardedRecalibrator(Recalibrator):
    """Recalibrate each prediction by the errors the model made nearby, in a calibration set larger than memory.

    As :class:`nearcal.LocalRecalibrator`, of calibration points that lie in shards: in a folder, mapped into memory and
    searched through the page cache of the system, or on the workers of a cluster (``nearcal.dask.calibrate``).
    Neighbours are those of one index over all points, ties included, and so are results, to the last bit; but of
    ``quantile_rule="conservative"`` a mean may differ by a rounding, as it does between searches.

    Parameters
    ----------
    k, radius, smoothing, quantile_rule, workers
        As in :class:`nearcal.LocalRecalibrator`. A radius cannot have ``thin="global"``, which asks for all points.
    scaling : {"none", "standard", "whiten", "relevance"} or Scaling
        "standard" takes the standard deviations of all points, from exact sums; what else is learnt, is learnt from the
        sample.
    corrections : sequence of Correction
        Learnt from points of the sample, each among all others: as many as have two million neighbours.
        ``Fade(to="global")``, which asks for the scores of all points, is refused.
    folder : str or path-like
        Where shards are built: a new folder, or one with shards to be replaced. A saved recalibrator names it, by its
        full path, and needs it.
    sample : int
        How many points, drawn at random, 10,000 or more, stand for all where all are too many.
    seed : int
        By which they are drawn: by their numbers, so that the sample does not depend on batches.

    Attributes
    ----------
    n_cal_ : int
        Number of calibration points.
    space_map_ : SpaceMap
        The fitted scaling.
    index_ : ShardedIndex
        The shards.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> def batches():
    ...     for _ in range(20):
    ...         x = rng.uniform(2, 20, size=2000)
    ...         yield nc.Normal(10 + 5 * x, 12.0), rng.normal(10 + 5 * x, x), x
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "shards"
    >>> rc = nc.ShardedRecalibrator(k=1000, folder=folder).fit_batches(batches())
    >>> rc.recalibrate(nc.Normal([25.0, 105.0], 12.0), [3.0, 19.0]).std().round()
    array([ 3., 18.])
    """

    metric: Metric = "euclidean"
    search: Search = "auto"
    eps = 0.0
    _not_updated = "its shards are built once"

    def __init__(
        self,
        k: int | None = None,
        radius: float | Radius | None = None,
        smoothing: Smoothing = "epanechnikov",
        *,
        scaling: ScalingName | Scaling = "none",
        quantile_rule: QuantileRule = "step",
        corrections: Sequence[Correction] = (),
        folder: Any = None,
        sample: int = 100_000,
        seed: int = 0,
        workers: Workers | None = None,
    ) -> None:
        self.k = k
        self.radius = radius
        self.smoothing = smoothing
        self.scaling = scaling
        self.quantile_rule = quantile_rule
        self.corrections = corrections
        self.folder = folder
        self.sample = sample
        self.seed = seed
        self.workers = workers

    @classmethod
    def like(cls, local: LocalRecalibrator, *, folder: Any = None, sample: int = 100_000, seed: int = 0) -> Self:
        """Return one with the settings of a local recalibrator, refusing those that shards cannot keep."""
        usual = {"eps": 0.0, "metric": "euclidean"}
        for name, value in usual.items():
            if getattr(local, name) != value:
                raise InvalidParameterError(
                    f"recalibrator must have {name}={value!r} for a calibration set in shards, got "
                    f"{getattr(local, name)!r}; leave it out"
                )
        if type(local) is not LocalRecalibrator or local.search == "faiss":
            raise InvalidParameterError(
                f"recalibrator must be a LocalRecalibrator with an exact search for a calibration set in shards, got "
                f"{local!r}; fit others on a sample"
            )
        names = ("k", "radius", "smoothing", "scaling", "quantile_rule", "corrections", "workers")
        settings = {name: getattr(local, name) for name in names}
        return cls(**settings, folder=folder, sample=sample, seed=seed)

    # ---- learning ---------------------------------------------------------------------------------------------------

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any, *, sample_weight: Any = None) -> Self:
        """Learn from a calibration set that is in memory; arguments as in :meth:`nearcal.LocalRecalibrator.fit`.

        Points in shards count alike: weights are refused.
        """
        if sample_weight is not None:
            raise InvalidParameterError(
                "sample_weight must be None, since points in shards count alike, got weights; use LocalRecalibrator"
            )
        return self.fit_batches([(dist_cal, y_cal, space_cal)])

    def fit_batches(self, batches: Iterable[Batch]) -> Self:
        """Learn from a calibration set that comes in batches, which are gone through once.

        Parameters
        ----------
        batches : iterable of (Distribution, array_like of shape (m,), array_like of shape (m, d))
            Predictive distributions of calibration points, what was observed, and where they are.
        """
        return self.fit_scores(
            (calibration_scores(require_distribution(dist, "dist_cal"), y), space) for dist, y, space in batches
        )

    def fit_scores(self, batches: Iterable[tuple[FloatArray, Any]]) -> Self:
        """Learn from batches of scores and positions, as somebody has computed them."""
        self.check_options()
        if self.folder is None:
            raise InvalidParameterError("folder must be where shards are built, got None; name a new folder")
        folder = Path(self.folder)
        with _scratch_beside(folder) as scratch:
            first = _FirstPass(scratch / "points", self.sample, self.seed)
            for z, space in batches:
                first.add(z, space)
            sample, sums = first.finish()
            space_map = self.learn_map(sums, sample)
            mapped = ((space_map(space), z) for space, z in first.read())
            index = build_shards(folder, mapped, sums.n, space_map(sample.space))
            has_ties = has_equals((z for _, z in first.read()), sums.n, scratch)
        return self.learn_from(index, space_map, sample, has_ties)

    def check_options(self) -> None:
        """Refuse what cannot be learnt from, whatever the calibration set."""
        check_options(self)
        check_count(self.sample, "sample", LEAST_SAMPLE)
        if self.radius is not None and Radius.of(self.radius).thin == "global":
            raise InvalidParameterError(
                'radius must not have thin="global" here: it asks for the scores of all points; use "nearest" or "base"'
            )
        for correction in self.corrections:
            if isinstance(correction, Fade) and correction.to == "global":
                raise InvalidParameterError(f'{correction!r} asks for the scores of all points; use Fade(to="base")')

    def learn_map(self, sums: ColumnSums, sample: RowSample) -> SpaceMap:
        """Return the scaling: of all points where their sums tell it, else of the sample."""
        scaling = Scaling.of(self.scaling)
        learnt = scaling.learn(sample.space, sample.z)
        return sums.standard_map() if scaling == Scaling("standard") else learnt

    def learn_from(self, index: ShardedIndex, space_map: SpaceMap, sample: RowSample, has_ties: bool) -> Self:
        """Learn the rest, given the shards of all points and some of these."""
        calibration = ScoresElsewhere(index.shape[0], has_ties)
        neighborhood, points = neighborhood_of(self, calibration), space_map(sample.space)
        own = OwnIsolation(index, sample.rows[:LEAST_SAMPLE], points[:LEAST_SAMPLE])
        corrections = self._learn_corrections(index, neighborhood, sample, points, own) if self.corrections else ()
        # all that can fail is done
        self.neighborhood_, self.quantile_rule_ = neighborhood, self.quantile_rule
        self.space_map_, self.index_, self.corrections_ = space_map, index, corrections
        self.own_isolation_, self.has_ties_ = own, has_ties
        self.n_features_in_ = sample.space.shape[1]
        self.n_cal_ = index.shape[0]
        return self

    def _learn_corrections(
        self,
        index: ShardedIndex,
        neighborhood: KNearest | WithinRadius,
        sample: RowSample,
        points: FloatArray,
        own: OwnIsolation,
    ) -> tuple[LearntCorrection, ...]:
        """Learn from some points of the sample, among all of their neighbours."""
        workers = Workers.of(self.workers).silent()
        pairs = neighborhood.pairs_per_row(index, points) + 1
        asked = slice(0, max(_MOST_LOOKED_UP // pairs, 100))
        found = find_around(index, _one_more(neighborhood), points[asked])
        # of points in one place the first are found, and those who ask need not be among them
        asking = Found(sample.rows[asked].astype(np.int32), points[asked], sample.z[asked])
        found = Found.joined([found, asking], points.shape[1])
        rows = np.searchsorted(found.rows, np.sort(asking.rows))
        view = View(found.points, found.build_index(neighborhood.least + 1), rows, found.points[rows])
        left_out: LeaveOneOut = _AllLookedUp(
            CalibrationScores(found.z), lambda: [view], neighborhood, self.quantile_rule, workers
        )
        learnt: list[LearntCorrection] = []
        for correction in self.corrections:
            if isinstance(correction, Fade):
                one: Any = correction.learn_from(neighborhood, own.sorted(neighborhood, workers)).looking_at(
                    sample.space
                )
            else:
                one = correction.learn(left_out, view)
            if one is not None:
                learnt.append(one.restricted(np.zeros(1, dtype=np.intp)))
                left_out = left_out.corrected(one)
        return tuple(learnt)

    # ---- recalibration ----------------------------------------------------------------------------------------------

    def recalibrate(self, dist_new: Distribution, space_new: Any) -> Recalibrated:
        """Return the recalibrated distributions of new rows; nothing is computed before it is asked for.

        Parameters
        ----------
        dist_new : Distribution
            Predictive distributions of the m new rows, of any family.
        space_new : array_like of shape (m, d)
            Where they are, in the space given to ``fit``.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        space = as_space(space_new, "space_new", len(base), self.n_features_in_)
        scores = ShardedScores(
            self.index_,
            self.space_map_(space),
            self.neighborhood_,
            ScoresElsewhere(self.n_cal_, self.has_ties_),
            self.corrections_,
            self.quantile_rule_,
            Workers.of(self.workers),
            self.own_isolation_,
            trust_by_ranges(self.corrections_, space),
        )
        return Recalibrated(base, scores)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _to_saved(self) -> dict[str, Any]:
        saved = super()._to_saved()
        saved["parameters"]["folder"] = None if self.folder is None else str(self.folder)
        return saved

    def _check_learnt(self) -> None:
        matrix, n = self.space_map_.matrix, self.n_cal_
        shape = n, self.n_features_in_ if matrix is None else matrix.shape[-1]
        require(
            len(self.space_map_.center) == self.n_features_in_, "space_map_ must take spaces of n_features_in_ columns"
        )
        require(self.index_.shape == shape, "index_ must have n_cal_ points of the dimension of the space")
        require(self.own_isolation_.index is self.index_, "own_isolation_ must hold the index of the recalibrator")
        near = self.neighborhood_
        fits = near.k <= n if isinstance(near, KNearest) else near.n_cal == n and Radius.of(near.radius) is near.radius
        require(fits and near.weights is None, "neighborhood_ must be one among n_cal_ points without weights")


def _one_more(neighborhood: KNearest | WithinRadius) -> KNearest | WithinRadius:
    """Return a neighbourhood with room for the point itself."""
    return replace(neighborhood, k=neighborhood.k + 1) if isinstance(neighborhood, KNearest) else neighborhood


# ---- one pass over batches ------------------------------------------------------------------------------------------


class _FirstPass:
    """Positions and scores on their way to disk, with their sums and a sample of them."""

    def __init__(self, path: Path, sample: int, seed: int) -> None:
        self.path, self._size, self._seed = path, sample, seed
        self._sums: ColumnSums | None = None
        self._sample: RowSample | None = None

    def add(self, z: FloatArray, space: Any) -> None:
        """Take a batch."""
        positions = as_space(space, "space_cal", len(z))
        done = 0 if self._sums is None else self._sums.n
        if self._sums is not None and positions.shape[1] != len(self._sums.sums):
            raise InvalidInputError(
                f"space_cal must have {len(self._sums.sums)} columns as in the batches before, got {positions.shape[1]}"
            )
        with self.path.open("ab") as file:
            file.write(np.column_stack([z, positions]).data)
        sums = ColumnSums.of(positions)
        self._sums = sums if self._sums is None else self._sums + sums
        self._sample = RowSample.of(positions, z, done, self._size, self._seed, self._sample)

    def finish(self) -> tuple[RowSample, ColumnSums]:
        """Return what is known of all points."""
        if self._sample is None or self._sums is None:
            raise InvalidInputError("batches must hold at least one calibration point, got none")
        return self._sample, self._sums

    def read(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield positions and scores again."""
        assert self._sums is not None
        width = 1 + len(self._sums.sums)
        with self.path.open("rb") as file:
            while (values := np.fromfile(file, np.float64, ROWS_AT_ONCE * width)).size:
                records = values.reshape(-1, width)
                yield np.ascontiguousarray(records[:, 1:]), records[:, 0].copy()


@contextmanager
def _scratch_beside(folder: Path) -> Iterator[Path]:
    """Yield a folder for what is needed for a while, on the disk where shards will be."""
    if not folder.absolute().name:
        raise InvalidParameterError(f"folder must be a new one, or one with shards, got {folder}; name one inside it")
    if not folder.absolute().parent.is_dir():
        raise InvalidParameterError(f"folder must lie in an existing directory, got {folder}; create its parent first")
    scratch = folder.absolute().with_name(f".nearcal-{secrets.token_hex(8)}.scratch")
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
