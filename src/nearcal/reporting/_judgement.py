"""How calibrated predictions are in a region: tests, the size of what is wrong, and a grade by a stated rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray
from nearcal.diagnostics import Regions, pit
from nearcal.diagnostics.dependence import effective_share
from nearcal.diagnostics.features import EVERYWHERE, Feature
from nearcal.diagnostics.groups import adjust, clopper_pearson
from nearcal.diagnostics.local import describe
from nearcal.diagnostics.pit_values import is_covered
from nearcal.diagnostics.region_tree import find_regions, split_rows
from nearcal.diagnostics.uniformity import independent_share, run_test
from nearcal.distributions import Distribution, Seed
from nearcal.recalibration import Recalibrated

SIGNIFICANT = 0.05
SMALL_DISTANCE = 0.05  # of the PIT values' distribution from uniform: no probability is off by more
SMALL_GAP = 0.03  # of the coverage
POWER = 0.8
_SEARCH = 0.5  # share of the rows that regions are searched in; they are tested on the others
TESTS = 2  # a region: shape and coverage


class Grade(IntEnum):
    """What can be said of a region, from best to worst."""

    FINE = 0  # no evidence against calibration
    SLIGHT = 1  # evidence, of something small
    CLEAR = 2  # evidence, of something that matters


@dataclass(frozen=True)
class Observed:
    """Where the responses fell in one method's predictive distributions."""

    pit: FloatArray
    z: FloatArray
    covered: NDArray[np.bool_]
    coverage: float
    n_cal: int | None
    worth: float = 1.0  # the share of rows that are as good as independent
    faded: int | None = None  # rows unlike the calibration set, where any such fade
    expected_faded: float = 0.0  # the share of them to expect at most of rows that are like it

    @classmethod
    def of(
        cls,
        dist: Distribution,
        y: FloatArray,
        coverage: float,
        n_cal: int | None,
        rng: Seed,
        units: IntArray | None = None,
    ) -> "Observed":
        """Look at a method; ``n_cal`` is how many calibration rows its sampling error comes from, if any."""
        n_cal = getattr(dist, "n_cal", None) if n_cal is None else n_cal
        values = pit(dist, y, rng)
        worth = effective_share(values, units)
        observed = cls(values, dist.z(y), is_covered(dist, y, coverage), coverage, n_cal, worth)
        if not isinstance(dist, Recalibrated) or dist.expected_faded is None:
            return observed
        return replace(observed, faded=int((dist.trust < 1).sum()), expected_faded=dist.expected_faded)

    def share(self, n: int) -> float:
        """Return which share of n rows count in tests: they may depend on each other, and on calibration rows."""
        return self.worth * independent_share(n, self.n_cal)


@dataclass(frozen=True)
class Judgement:
    """What is known of one region.

    ``lower`` and ``upper`` are exact 95% confidence limits of the coverage, ``distance`` is the largest of
    |ECDF(u) - u| over PIT values, ``p_value`` is corrected for the two tests and the number of regions.
    """

    region: str
    n: int
    coverage: float
    lower: float
    upper: float
    distance: float
    p_value: float
    grade: Grade
    finding: str


def judge(observed: Observed, regions: Regions) -> list[Judgement]:
    """Judge every region by Frosini's test of the PIT values and the binomial test of the coverage, Holm-corrected."""
    tested = len(np.unique(np.concatenate(regions.rows)))
    share = observed.share(tested)
    raw = np.array([_p_value(observed, rows, share) for rows in regions.rows])
    p_values = adjust(np.minimum(TESTS * raw, 1.0), "holm")
    results = []
    for name, rows, p_value in zip(regions.names.tolist(), regions.rows, p_values.tolist(), strict=True):
        hits, n = int(observed.covered[rows].sum()), len(rows)
        lower, upper = clopper_pearson(np.array(hits * observed.worth), n * observed.worth, 0.95)
        distance = run_test("kolmogorov-smirnov", np.sort(observed.pit[rows])).statistic
        z = observed.z[rows]
        finite = z[np.isfinite(z)]
        results.append(
            Judgement(
                region=str(name),
                n=n,
                coverage=hits / n,
                lower=float(lower),
                upper=float(upper),
                distance=distance,
                p_value=p_value,
                grade=grade(p_value, distance, hits / n - observed.coverage),
                finding=describe(finite, hits / n, observed.coverage, p_value) if len(finite) else "impossible",
            )
        )
    return results


def grade(p_value: float, distance: float, gap: float) -> Grade:
    """Grade by evidence first, then by size."""
    if p_value >= SIGNIFICANT:
        return Grade.FINE
    return Grade.SLIGHT if distance < SMALL_DISTANCE and abs(gap) < SMALL_GAP else Grade.CLEAR


def _p_value(observed: Observed, rows: Any, share: float) -> float:
    from scipy.stats import binomtest

    shape = run_test("frosini", np.sort(observed.pit[rows]), share).p_value
    worth = max(1, round(len(rows) * share))  # rows that a comparison with a calibration set is worth
    hits = round(float(observed.covered[rows].mean()) * worth)
    return min(shape, float(binomtest(hits, worth, observed.coverage).pvalue))


def detectable_gap(observed: Observed, n: int, regions: int = 1) -> float:
    """Return the gap of coverage that n rows would show with probability 80%, with as many regions tested."""
    from scipy.stats import norm

    worth = n * observed.share(n)
    quantiles = norm.isf(SIGNIFICANT / (2 * TESTS * regions)) + norm.ppf(POWER)
    return float(quantiles * np.sqrt(observed.coverage * (1 - observed.coverage) / worth))


def severity(one: Judgement, coverage: float) -> tuple[Grade, float, float]:
    """Return what judgements are ordered by: the grade, then the gap of coverage."""
    return one.grade, abs(one.coverage - coverage), one.distance


@dataclass(frozen=True)
class Places:
    """Regions with the rows to test them on, the features that describe them, and those found for the last alone."""

    regions: Regions
    features: tuple[str, ...] = ()
    anew: frozenset[str] = frozenset()
    were_searched: bool = True


def describe_places(
    observed: Sequence[Observed], columns: Sequence[Feature], generator: np.random.Generator
) -> Places | None:
    """Search the regions of every method; None without features."""
    if not columns:
        return None
    searched = split_rows(len(columns[0].values), _SEARCH, generator)
    trees = [find_regions(one.pit, one.covered, columns, searched) for one in observed]
    named = {
        name: rows for tree in trees for name, rows in zip(tree.regions.names.tolist(), tree.regions.rows, strict=True)
    }
    if len(named) > 1:  # all rows are judged by themselves
        named.pop(EVERYWHERE, None)
    regions = Regions(np.array(list(named)), tuple(named.values()))
    features = tuple(dict.fromkeys(name for tree in trees for name in tree.features))
    return Places(regions, features, frozenset(named) - set(trees[0].regions.names.tolist()))


def all_rows(n: int) -> Regions:
    """Return the region of all rows."""
    return Regions(np.array([EVERYWHERE]), (np.arange(n),))
