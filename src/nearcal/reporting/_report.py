"""The public function: distributions and observations in, a page out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_response, as_space, check_count
from nearcal._atomic import replacing
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal._version import __version__
from nearcal.compiled import CompilationLoss
from nearcal.diagnostics.features import EVERYWHERE, Feature, as_features, has_categories
from nearcal.diagnostics.regions import Regions, as_regions
from nearcal.distributions import Distribution
from nearcal.reporting import _sections
from nearcal.reporting._evaluate import Evaluation, Metric, as_named, evaluate
from nearcal.reporting._explorer import can_be_drawn, choose_k, explorer_data
from nearcal.reporting._judgement import Observed, Places, all_rows, describe_places, judge
from nearcal.reporting._page import Markup, as_text, build_page, shorten_all, shorten_features
from nearcal.reporting._promise import conditional_answer, promise_answer
from nearcal.reporting._verdict import Change, Method, Verdict, decide
from nearcal.space import as_units
from nearcal.tuning import Combination, Tuning

_METRICS: tuple[Metric, ...] = ("crps", "rmse", "interval_score", "coverage", "width")
_REGIONAL: tuple[Metric, ...] = ("worst_region_coverage", "regional_coverage_error")
_LONGEST_TITLE = 200
_ENOUGH = 200  # rows, to look for places where intervals miss that nobody has named


@dataclass(frozen=True)
class Report:
    """A page about the calibration of a model, made by :func:`nearcal.report`.

    Attributes
    ----------
    html : str
        The page, complete in itself. A notebook shows it.
    verdict : Verdict
        The verdict; ``str(report.verdict)`` is its text.
    evaluation : Evaluation
        The table before and after. Its regional metrics are of the regions below.
    regions : Table
        The regions with the coverage, its limits, the corrected p-value, the grade and the finding of the first
        and the last method; empty where no features or positions were given.
    text : str
        What the page says, without its drawings; ``print(report)`` prints it.
    """

    html: str = field(repr=False)
    verdict: Verdict = field(repr=False)
    evaluation: Evaluation = field(repr=False)
    regions: Table = field(repr=False)
    text: str = field(repr=False)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file, replacing an old one as a whole or not at all; return its path."""
        if not isinstance(path, str | PathLike):
            raise InvalidInputError(f"path must be a string or a path, got {type(path).__name__}")
        target = Path(path)
        with replacing(target) as file:
            file.write(self.html.encode())
        return target

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, which shares neither style nor scripts with a notebook."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" height="900" '
            'style="border:0" title="Calibration report"></iframe>'
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Report({self.verdict.headline}; {len(self.html) / 1e6:.1f} MB; save it with .save(path))"


def report(
    dists: Mapping[str, Distribution] | Distribution,
    y: Any,
    space: Any = None,
    *,
    features: Any = None,
    names: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    title: str = "Calibration report",
    response: str = "y",
    unit: str = "",
    coverage: float = 0.9,
    regions: int | Regions | Any = None,
    n_cal: int | None = None,
    groups: Any = None,
    time: Any = None,
    k: int | None = None,
    points: int = 50_000,
    tuning: Tuning | Combination | CompilationLoss | None = None,
    path: str | PathLike[str] | None = None,
    rng: int = 0,
) -> Report:
    """Write a page for the person who must decide whether to trust a model.

    It says in plain words whether predictions are calibrated, overall and in regions described by the features, and
    whether recalibration mended what was wrong; then come a table with standard errors, PIT histograms and the
    reliability diagram, the regions, and an explorer in which any observation can be picked to see its neighbourhood
    and its predictive density. The page is one file that opens from disk without a network.

    Parameters
    ----------
    dists : mapping of str to Distribution, or Distribution
        Methods by name on the same n rows, such as ``{"base": dist, "local": out}``: the first is what was there, the
        last is what is judged as mended. One alone is judged as it is.
    y : array_like of shape (n,) or (n, 1)
        What was observed: rows that neither the model nor the recalibration has seen.
    space : DataFrame or array_like of shape (n, d), optional
        Where the rows are, such as inputs or activations; neighbourhoods are taken there. None takes the numbers and
        graded categories among the features. Categories have no place: they describe regions alone.
    features : DataFrame, Table, mapping of str to array_like, or array_like of shape (n, d), optional
        Numbers or categories that regions are described by and that are the axes of the explorer; None takes the
        columns of the space.
    names : sequence of str, optional
        Names of the columns of an array; a table brings its own.
    levels : mapping of str to sequence, optional
        Categories of graded features in increasing order; see :func:`nearcal.diagnostics.described_regions`.
    title : str
        Title of the page.
    response : str
        What y is called.
    unit : str
        What y is measured in, such as "dollars".
    coverage : float
        Nominal coverage of the central intervals.
    regions : int, Regions or array_like of shape (n,), optional
        The regions to judge, as in :func:`nearcal.evaluate`: a number of clusters of the space, Regions, or a label a
        row. None looks for regions in which calibration differs and describes them by the features, as
        :func:`nearcal.diagnostics.described_regions` does.
    n_cal : int, optional
        Number of rows the last method was recalibrated on, so that tests allow for their sampling error, as in
        :func:`nearcal.diagnostics.uniformity_tests`. Results of local and global recalibration know it themselves.
    groups, time
        Which rows may depend on each other, as in :func:`nearcal.evaluate`; standard errors, tests and confidence
        limits allow for it.
    k : int, optional
        Number of rows in a neighbourhood of the explorer; None takes 2%, at least 50 and at most 300.
    points : int
        Most rows in the explorer; of more, as many are drawn at random. All else is computed from all rows.
    tuning : Tuning, Combination or CompilationLoss, optional
        How recalibration was chosen, as :func:`nearcal.tune` returns it and ``calibrated.tuning`` of
        :func:`nearcal.calibrate` keeps it: the page shows the reason and the best candidate of every kind. Or what
        compiling has lost, ``compiled.loss_`` of :func:`nearcal.compile`.
    path : str or path, optional
        Where to save the page.
    rng : int
        Seed of all that is drawn at random.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> age = rng.uniform(20, 80, size=4000)
    >>> y = rng.normal(0.0, np.where(age > 60, 3.0, 1.0))
    >>> page = nc.report(nc.Normal(np.zeros(4000), 1.5), y, features={"age": age})
    >>> print(page.verdict.lead)
    Where age > 60, 90% intervals of “predictions” cover 57.8% (630 rows).
    """
    named = as_named(dists)
    title, response = as_text(title, "title", _LONGEST_TITLE), as_text(response, "response")
    unit = as_text(unit, "unit")
    response = f"{response} ({unit})" if unit else response
    check_count(rng, "rng", 0)
    if not isinstance(tuning, Tuning | Combination | CompilationLoss | None):
        raise InvalidInputError(
            f"tuning must be what nearcal.tune returns, such as calibrated.tuning, got {type(tuning).__name__}"
        )
    n = len(next(iter(named.values())))
    observations = as_response(y, n, "y")
    given = None if space is None or has_categories(space) else as_space(space, "space", n)
    columns = _columns(features, space, n, levels, names)
    positions = _positions(space, columns, n) if given is None else given
    seeds = np.random.SeedSequence(rng).spawn(3)
    shown = dict(zip(shorten_all(named), named.values(), strict=True))
    shown = {name: shown[name] for name in dict.fromkeys((next(iter(shown)), list(shown)[-1]))}
    units = as_units(groups, time, n)
    observed = _observe(shown, observations, coverage, n_cal, seeds[0], units)
    generator = np.random.default_rng(seeds[1])
    if regions is None:
        places = describe_places(observed, columns, generator)
    else:
        places = _given_places(as_regions(regions, space if positions is None else positions, n, generator))
    methods = [
        Method(name, one, judge(one, all_rows(n))[0], judge(one, places.regions) if places else ())
        for name, one in zip(shown, observed, strict=True)
    ]
    evaluation = _evaluate(named, observations, coverage, places, rng, units, positions)
    verdict = decide(methods, _score_change(evaluation))
    more = [conditional_answer(evaluation), promise_answer(list(named.values())[-1])]
    verdict = replace(verdict, answers=[*verdict.answers, *(answer for answer in more if answer is not None)])
    rows = _sample(n, check_count(points, "points"), np.random.default_rng(seeds[2]))
    data = None
    if positions is not None and can_be_drawn(observations, columns):
        neighbors = choose_k(len(rows)) if k is None else check_count(k, "k", 2)
        data = explorer_data(
            shown,
            observed,
            observations,
            columns,
            positions,
            rows,
            k=neighbors,
            axes=places.features if places else (),
            response=response,
        )
    parts = _parts(methods, verdict, evaluation, places, title, unit, rng, tuning)
    made = Report(
        build_page(title, parts, data),
        verdict,
        evaluation,
        _region_table(methods),
        _sections.plain_text(methods, verdict, evaluation, places.anew if places else ()),
    )
    if path is not None:
        made.save(path)
    return made


def _columns(
    features: Any,
    space: Any,
    n: int,
    levels: Mapping[str, Sequence[Any]] | None,
    names: Sequence[str] | None,
) -> tuple[Feature, ...]:
    given = space if features is None else features
    return () if given is None else shorten_features(as_features(given, n, levels, names))


def _positions(space: Any, columns: Sequence[Feature], n: int) -> FloatArray | None:
    """Return numbers and graded categories as positions, what is missing at the mean; None where there are none."""
    columns = columns if space is None else as_features(space, n)
    ordered = [column.values for column in columns if column.is_ordered and not np.isnan(column.values).all()]
    if not ordered:
        return None
    return np.column_stack([np.where(np.isnan(values), _mean(values[~np.isnan(values)]), values) for values in ordered])


def _mean(values: FloatArray) -> float:
    """Return the mean of numbers whose sum may be beyond the largest there is."""
    largest = float(np.abs(values).max()) or 1.0
    return float(np.mean(values / largest) * largest)


def _given_places(regions: Regions) -> Places:
    kind = "cluster " if regions.centers is not None else ""
    names = shorten_all(f"{kind}{name}" for name in regions.names.tolist())
    return Places(replace(regions, names=np.array(names)), were_searched=False)


def _observe(
    dists: Mapping[str, Distribution],
    y: FloatArray,
    coverage: float,
    n_cal: int | None,
    seed: np.random.SeedSequence,
    units: IntArray | None,
) -> list[Observed]:
    last = list(dists)[-1]
    return [
        Observed.of(dist, y, coverage, n_cal if name == last else None, np.random.default_rng(seed), units)
        for name, dist in dists.items()
    ]


def _evaluate(
    dists: Mapping[str, Distribution],
    y: FloatArray,
    coverage: float,
    places: Places | None,
    rng: int,
    units: IntArray | None,
    positions: FloatArray | None,
) -> Evaluation:
    """Return the table; its regions are those that the page judges, for no two figures of the page to differ."""
    metrics = _METRICS
    regions = None if places is None or places.regions.names.tolist() == [EVERYWHERE] else places.regions
    if regions is not None:
        metrics = (*metrics, *_REGIONAL)
    if positions is not None and len(y) >= _ENOUGH:
        metrics = (*metrics, "worst_slab_coverage", *(("excess_risk",) if find_spec("sklearn") else ()))
    given = all_rows(len(y)) if regions is None else regions
    space = None if positions is None else _in_units_of_range(positions)
    return evaluate(dists, y, space, coverage, regions=given, metrics=metrics, groups=units, rng=rng)


def _in_units_of_range(positions: FloatArray) -> FloatArray:
    """Return columns between 0 and 1, however large or small their numbers; constant ones are 0."""
    half = positions / 2  # whose differences do not overflow
    least, width = half.min(axis=0), np.ptp(half, axis=0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(width > 0, np.clip((half - least) / width, 0.0, 1.0), 0.0)


def _score_change(evaluation: Evaluation) -> Change | None:
    rows = [row for row in evaluation if row["metric"] == "crps"]
    if len(rows) == 1:
        return None
    score = rows[0]["value"]
    with np.errstate(divide="ignore", invalid="ignore"):  # a score of 0 cannot fall, and one that is infinite not rise
        relative = np.divide([rows[-1]["difference"], rows[-1]["difference_se"]], score)
    return Change(*relative.tolist())


def _sample(n: int, points: int, generator: np.random.Generator) -> IntArray:
    if n <= points:
        return np.arange(n)
    return np.sort(generator.choice(n, size=points, replace=False))


def _parts(
    methods: Sequence[Method],
    verdict: Verdict,
    evaluation: Evaluation,
    places: Places | None,
    title: str,
    unit: str,
    rng: int,
    tuning: Tuning | Combination | CompilationLoss | None,
) -> dict[str, Markup]:
    coverage, n = methods[0].observed.coverage, methods[0].overall.n
    settings = {
        "Rows": f"{n:,}",
        "Nominal coverage": f"{100 * coverage:g}%",
        "Seed": str(rng),
        "Version": f"nearcal {__version__}",
    }
    if methods[-1].observed.n_cal is not None:
        settings["Calibration rows"] = f"{methods[-1].observed.n_cal:,}"
    if methods[-1].observed.worth < 1:
        settings["Worth as many independent rows"] = f"{methods[-1].observed.worth * n:,.0f}"
    return {
        "heading": _sections.heading(title, [method.name for method in methods], n, coverage),
        "verdict": _sections.verdict_section(verdict),
        "table": _sections.table_section(evaluation, coverage, unit),
        "charts": _sections.charts_section(methods),
        "regions": _sections.regions_section(methods, places.anew if places else ()),
        "choice": Markup() if tuning is None else _sections.choice_section(tuning),
        "notes": _sections.notes_section(methods, settings, were_searched=places is None or places.were_searched),
    }


def _region_table(methods: Sequence[Method]) -> Table:
    columns: dict[str, Any] = {
        "region": [one.region for one in methods[0].regions],
        "n": [one.n for one in methods[0].regions],
    }
    for key, method in zip(("first", "last") if len(methods) > 1 else ("first",), methods, strict=True):
        for name in ("coverage", "lower", "upper", "p_value"):
            columns[f"{key}_{name}"] = [getattr(one, name) for one in method.regions]
        columns[f"{key}_grade"] = [one.grade.name.lower() for one in method.regions]
        columns[f"{key}_finding"] = [one.finding for one in method.regions]
    return Table(columns)
