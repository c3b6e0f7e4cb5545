"""What compiling costs: a compiled recalibrator against the exact one, on rows that neither has seen."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from nearcal._arrays import FloatArray, IntArray
from nearcal._saved import count, float_array, instance, number, savable, text
from nearcal._table import Table
from nearcal.recalibration import Recalibrated
from nearcal.scores import crps, interval_score

_MEASURES = ("CRPS", "PIT error", "coverage of 90%", "coverage of 95%", "regional error", "worst region")
_MOST_REGIONS, _ROWS_A_REGION = 10, 50
_COVERAGE, _WIDE = 0.9, 0.95
DOUBT = 0.02  # by which a loss and its standard error may exceed a tolerance
_CHANCE = 0.313  # the mean of |B(t)| over t, of a Brownian bridge B: √(π / 32)


@savable(
    form=text,
    rows=count(0),
    exact=float_array(1),
    compiled=float_array(1),
    standard_error=number(0.0),
    in_sample=number(),
    unseen=number(0.0),
    tried=instance(Table),
    in_units_of=text,
)
@dataclass(frozen=True, eq=False)
class CompilationLoss:
    """How a compiled recalibrator compares with the exact one, cross-fitted: rows are judged by what has not seen them.

    Attributes
    ----------
    form : str
        What the compiled recalibrator is made of. The figures are of what learns from batches half as large, and, of
        several networks of a kind, of one: these err more.
    rows : int
        The number of calibration rows that were judged; 0 where one law of all rows was taken over as it is.
    exact, compiled : ndarray of shape (6,)
        Mean CRPS, error of PIT values (mean distance from uniform ones), coverage of 90% and 95% intervals, error of
        the coverage of 90% intervals over regions (mean over ten clusters of rows at most), and the least of them.
    standard_error : float
        Of the relative difference in CRPS.
    in_sample : float
        The loss at calibration points that the compiled recalibrator has learnt from, against the exact one without
        each of them, less two standard errors: whoever is worse even there is too small a function for so much data.
    unseen : float
        What cross-fitting does not show, where the exact recalibrator gains much by the rows of a fold: what it gains,
        as single points left out tell, beyond a twentieth and two standard errors.
    tried : Table
        Every form that was tried, with its loss.
    in_units_of : str
        What the CRPS is of: "response", where predictive distributions were given, or "score".
    """

    form: str
    rows: int
    exact: FloatArray
    compiled: FloatArray
    standard_error: float
    in_sample: float
    unseen: float
    tried: Table
    in_units_of: str

    @property
    def loss(self) -> float:
        """The CRPS relative to that of the exact recalibrator, less 1; negative where it is better.

        It is that of rows not seen, or in sample where that is worse. Cross-fitted, both have learnt from a part of the
        rows, and the exact one may gain more by the rest, which is added.
        """
        if not self.rows:
            return 0.0
        return max(float(self.compiled[0] / self.exact[0] - 1) + self.unseen, self.in_sample)

    def is_within(self, tolerance: float) -> bool:
        """Tell whether the loss is within a tolerance, and known well enough: not far beyond by one standard error."""
        return self.loss <= tolerance and self.loss + self.standard_error <= tolerance + DOUBT

    def least_tolerance(self) -> float:
        """Return the least tolerance that the loss is within, in whole percent."""
        least = max(self.loss, self.loss + self.standard_error - DOUBT)
        return float(np.ceil(100 * max(least, 0.0)) / 100)

    def to_table(self) -> Table:
        """Return one line a measure."""
        return Table({"measure": list(_MEASURES), "exact": self.exact, "compiled": self.compiled})

    def __str__(self) -> str:
        if not self.rows:
            return f"compiled as {self.form}: nothing is lost"
        return (
            f"compiled as {self.form}: CRPS {self.loss:+.2%} ± {self.standard_error:.2%} of the exact one's, "
            f"cross-fitted on {self.rows} calibration rows\n{self.to_table()}"
        )


def take_over(form: str) -> CompilationLoss:
    """Return the loss of what was taken over as it is: none."""
    same = np.zeros(len(_MEASURES))
    return CompilationLoss(form, 0, same, same, 0.0, 0.0, 0.0, Table({"form": [form], "loss": [0.0]}), "score")


class Judged:
    """Rows that were judged by exact recalibrators and students that have not seen them."""

    def __init__(self, regions: IntArray, weights: FloatArray) -> None:
        self.regions, self.weights = regions, weights
        n = len(regions)
        self.crps, self.interval, self.scores = (np.full(n, np.nan) for _ in range(3))

    def take(self, rows: IntArray, out: Recalibrated, y: FloatArray) -> None:
        """Note what a recalibrator says of some rows."""
        self.crps[rows] = crps(out, y)
        self.interval[rows] = interval_score(out, y, _WIDE)
        self.scores[rows] = out.z(y)

    def measures(self) -> FloatArray:
        """Return the figures of :class:`CompilationLoss`."""
        known = ~np.isnan(self.crps)
        weights, scores, regions = self.weights[known], self.scores[known], self.regions[known]
        order = np.argsort(scores)
        middle = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
        pit_error = np.average(np.abs(ndtr(scores[order]) - middle), weights=weights[order])
        inside = [np.abs(scores) <= -ndtri((1 - share) / 2) for share in (_COVERAGE, _WIDE)]
        covered = [float(np.average(one, weights=weights)) for one in inside]
        by_region = np.array(
            [np.average(inside[0][regions == one], weights=weights[regions == one]) for one in np.unique(regions)]
        )
        regional = float(np.abs(by_region - _COVERAGE).mean())
        mean = float(np.average(self.crps[known], weights=weights))
        return np.array([mean, pit_error, *covered, regional, by_region.min()])


def find_regions(points: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the cluster of every point, of fifty points or more on average."""
    from scipy.cluster.vq import kmeans2  # slow to import

    count = min(max(len(points) // _ROWS_A_REGION, 1), _MOST_REGIONS)
    middle = points.min(axis=0) / 2 + points.max(axis=0) / 2
    largest = np.abs(points - middle).max()
    if not largest > 0:
        return np.zeros(len(points), dtype=np.intp)
    placed = (points - middle) / largest  # squares are neither too large nor too small
    count = min(count, len(np.unique(placed.round(6), axis=0)))
    return np.asarray(kmeans2(placed, count, minit="++", rng=rng)[1], dtype=np.intp)


def compare(form: str, exact: Judged, compiled: Judged, tried: dict[str, float], in_units_of: str) -> CompilationLoss:
    """Return what was lost."""
    known = ~np.isnan(exact.crps)
    mean = np.average(exact.crps[known], weights=exact.weights[known])
    difference = (compiled.crps[known] - exact.crps[known]) / mean
    error = float(difference.std() / np.sqrt(known.sum()))
    table = Table({"form": list(tried), "loss": list(tried.values())})
    measures = exact.measures(), compiled.measures()
    return CompilationLoss(form, int(known.sum()), *measures, error, -1.0, 0.0, table, in_units_of)


def is_off(pit_error: float, rows: int) -> bool:
    """Tell whether PIT values are farther from uniform ones than chance makes them: twice what is expected of it."""
    return pit_error > 2 * _CHANCE / np.sqrt(rows)
