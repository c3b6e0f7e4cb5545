"""The parts of the page that need no script: verdict, table, charts, regions, notes."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nearcal._table import align, format_number, format_with_error
from nearcal.compiled import CompilationLoss
from nearcal.diagnostics import pit_histogram, reliability
from nearcal.reporting import _charts
from nearcal.reporting._evaluate import Evaluation
from nearcal.reporting._judgement import POWER, SIGNIFICANT, SMALL_DISTANCE, SMALL_GAP, Grade, Judgement
from nearcal.reporting._page import Markup, element, join, shorten, shorten_all
from nearcal.reporting._verdict import Method, Verdict
from nearcal.tuning import Combination, Tuning

_METRICS = {
    "crps": ("Error of the predictive distribution (CRPS)", "lower is better"),
    "rmse": ("Error of the mean (RMSE)", "lower is better"),
    "interval_score": ("Interval score", "lower is better"),
    "coverage": ("Coverage of the intervals", "near {level}"),
    "width": ("Mean width of the intervals", "narrow, at equal coverage"),
    "worst_region_coverage": ("Least coverage of a region", "near {level}"),
    "regional_coverage_error": ("Mean error of coverage over regions", "lower is better"),
    "worst_slab_coverage": ("Coverage of the worst slab of the space", "near {level}"),
    "excess_risk": ("Error of coverage that a classifier finds", "near or below 0"),
}
_SHARES = ("coverage", "worst_region_coverage", "regional_coverage_error", "worst_slab_coverage", "excess_risk")
_GRADES = {Grade.FINE: "no evidence", Grade.SLIGHT: "slightly off", Grade.CLEAR: "clearly off"}
_BINS = 20
_LONGEST_CHOICE = 200
_SEARCHED = (
    "Regions are leaves of a small tree, grown on one half of the rows, chosen at random, so as to separate better "
    "from worse predictions by their features; every figure of a region is from the other half. The tree is grown "
    "for the first predictions and, where there are others, once more for the last."
)


def verdict_section(verdict: Verdict) -> Markup:
    """Return the headline and the answers."""
    answers = [
        element("div", element("dt", answer.question), element("dd", answer.text), class_=f"answer {answer.mood}")
        for answer in verdict.answers
    ]
    return join(
        element("p", verdict.headline + ".", class_=f"headline {verdict.mood}"),
        element("p", verdict.lead, class_="lead"),
        element("dl", answers, class_="answers"),
    )


def table_section(evaluation: Evaluation, coverage: float, unit: str) -> Markup:
    """Return the table of metrics, with the change from the first to the last method."""
    methods = list(dict.fromkeys(evaluation["method"].tolist()))
    rows = list(evaluation)
    change = [element("th", "change", class_="number", scope="col")] if len(methods) > 1 else []
    head = [element("th", "", scope="col"), element("th", "good is", scope="col")]
    head += [element("th", name, class_="number", scope="col") for name in shorten_all(methods)]
    lines = []
    for metric in dict.fromkeys(evaluation["metric"].tolist()):
        words, good = _METRICS[metric]
        own = [row for row in rows if row["metric"] == metric]
        words += f", {unit}" if unit and metric not in _SHARES else ""
        cells = [element("th", words, scope="row"), element("td", good.format(level=_percent(coverage)), class_="good")]
        cells += [element("td", _with_error(metric, row["value"], row["se"]), class_="number") for row in own]
        if change:
            text = _with_error(metric, own[-1]["difference"], own[-1]["difference_se"], signed=True)
            cells.append(element("td", text, class_="number"))
        lines.append(element("tr", cells))
    table = element("table", element("thead", element("tr", head, change)), element("tbody", lines), class_="metrics")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of metrics")


def _loss_section(loss: CompilationLoss) -> Markup:
    """Return what compiling has lost against exact recalibration, measure by measure."""
    head = [element("th", "Measure", scope="col")]
    head += [element("th", words, class_="number", scope="col") for words in ("exact", "compiled")]
    lines = [
        element(
            "tr",
            element("th", row["measure"], scope="row"),
            *(element("td", format_number(row[name]), class_="number") for name in ("exact", "compiled")),
        )
        for row in loss.to_table()
    ]
    table = element("table", element("thead", element("tr", head)), element("tbody", lines), class_="choice")
    about = "Measured on calibration rows, by recalibrators that have not seen them."
    return join(
        element("p", str(loss).partition("\n")[0]),
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of losses"),
        element("p", about, class_="about"),
    )


def choice_section(tuning: Tuning | Combination | CompilationLoss) -> Markup:
    """Return how recalibration was chosen on the calibration set: the reason, and the best candidate of every kind."""
    if isinstance(tuning, CompilationLoss):
        return _loss_section(tuning)
    head = [element("th", "Recalibration", scope="col"), element("th", "tried", class_="number", scope="col")]
    head += [
        element("th", words, class_="number", scope="col") for words in ("CRPS of the best", "behind the best of all")
    ]
    head += [element("th", "The best", scope="col")]
    evidence = tuning.evidence
    least, lines = float(evidence["crps"].min()), []
    for row in evidence:
        chosen = " (chosen)" if row["chosen"] else ""
        cells = [element("th", row["kind"] + chosen, scope="row"), element("td", f"{row['tried']:,}", class_="number")]
        cells += [element("td", format_number(row["crps"]), class_="number")]
        cells += [element("td", _behind(row["difference"], row["difference_std_error"], least), class_="number")]
        cells += [element("td", shorten(row["best"], _LONGEST_CHOICE), class_="good")]
        lines.append(element("tr", cells, class_="chosen" if chosen else None))
    table = element("table", element("thead", element("tr", head)), element("tbody", lines), class_="choice")
    about = (
        "Scores are those of calibration rows, each recalibrated by the others: they guided the choice and flatter it."
    )
    return join(
        element("p", shorten(tuning.reason, 3 * _LONGEST_CHOICE)),
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of candidates"),
        element("p", about, class_="about"),
    )


def _behind(difference: float, error: float, least: float) -> str:
    """Return by how much of the least score another is worse, nothing for the best and where scores are infinite."""
    if not (difference > 0 and least > 0 and np.isfinite(difference)):
        return ""
    return f"{100 * difference / least:.1f} ± {100 * error / least:.1f}%"


def charts_section(methods: Sequence[Method]) -> Markup:
    """Return PIT histograms on one scale, and the reliability diagram."""
    tables = [(method.name, pit_histogram(method.observed.pit, _BINS)) for method in methods]
    tallest = max(float(np.max([table["density"].max(), table["upper"].max()])) for _, table in tables) * 1.05
    figures = []
    for place, (name, table) in enumerate(tables):
        kind = _charts.role(place, len(tables))
        caption = element("figcaption", _charts.legend_mark(kind), " PIT values, ", element("b", name))
        figures.append(element("figure", caption, _charts.pit_histogram(table, name, kind, tallest)))
    levels = [(method.name, reliability(method.observed.pit)) for method in methods]
    caption = element("figcaption", "Reliability of quantiles")
    figures.append(element("figure", caption, _charts.reliability(levels), class_="square"))
    return element("div", figures, class_="figures")


def regions_section(methods: Sequence[Method], anew: Collection[str]) -> Markup:
    """Return the regions, the worst first, those that were found ``anew`` for the last method by themselves."""
    if not methods[0].regions:
        return element("p", "No features or positions were given, so that no region could be described.")
    nominal = methods[0].observed.coverage
    lines = _in_order(methods, anew)
    least = min(0.8, nominal, *(one.lower for line in lines for one in line))
    least = np.floor(least * 10) / 10
    head = [element("th", "Region", scope="col"), element("th", "rows", class_="number", scope="col")]
    head += [
        element(
            "th", _charts.legend_mark(_charts.role(place, len(methods))), " ", method.name, class_="number", scope="col"
        )
        for place, method in enumerate(methods)
    ]
    scale = _charts.coverage_scale(nominal, float(least))
    head += [element("th", "Coverage, nominal ", _percent(nominal), scale, class_="strip", scope="col")]
    head += [element("th", "What the tests say", scope="col")]
    body = [_region_line(line, methods, nominal, float(least)) for line in lines if line[0].region not in anew]
    again = [_region_line(line, methods, nominal, float(least)) for line in lines if line[0].region in anew]
    if again:
        words = f"Looked for anew in the predictions of “{methods[-1].name}”"
        body += [element("tr", element("th", words, colspan=len(head)), class_="group"), *again]
    table = element("table", element("thead", element("tr", head)), element("tbody", body), class_="regions")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Table of regions")


def _in_order(methods: Sequence[Method], anew: Collection[str]) -> list[tuple[Judgement, ...]]:
    """Return the judgements of each region by all methods, in the order of the page."""
    nominal, lines = methods[0].observed.coverage, zip(*(method.regions for method in methods), strict=True)

    def place(line: tuple[Judgement, ...]) -> tuple[bool, int, float]:
        return line[0].region in anew, -max(one.grade for one in line), -abs(line[0].coverage - nominal)

    return sorted(lines, key=place)


def plain_text(methods: Sequence[Method], verdict: Verdict, evaluation: Evaluation, anew: Collection[str]) -> str:
    """Return what the page says without its drawings: the verdict, the table, the regions."""
    parts = [str(verdict), str(evaluation)]
    if lines := _in_order(methods, anew):
        columns = [("region", [line[0].region for line in lines]), ("rows", [f"{line[0].n:,}" for line in lines])]
        for place, method in enumerate(methods):
            tests = [_finding(line[place], "").replace("\u00a0", " ") for line in lines]
            columns.append((f"{method.name} covers", [_percent(line[place].coverage) for line in lines]))
            columns.append((f"tests of {method.name}", tests))
        parts.append(align(columns))
    return "\n\n".join(parts)


def _region_line(line: Sequence[Judgement], methods: Sequence[Method], nominal: float, least: float) -> Markup:
    cells = [
        element("th", line[0].region, scope="row"),
        element("td", f"{line[0].n:,}", class_="number", data_label="rows"),
    ]
    for one, method in zip(line, methods, strict=True):
        cells.append(element("td", _percent(one.coverage), class_="number", data_label=f"{method.name} covers"))
    cells.append(element("td", _charts.coverage_strip(line, nominal, least), class_="strip"))
    findings = [
        element("li", _finding(one, method.name if len(methods) > 1 else ""), class_=f"grade-{int(one.grade)}")
        for one, method in zip(line, methods, strict=True)
    ]
    cells.append(element("td", element("ul", findings), class_="finding"))
    return element("tr", cells)


def _finding(one: Judgement, name: str) -> str:
    prefix = f"{name}: " if name else ""
    p_value = "p\u00a0<\u00a00.001" if one.p_value < 0.001 else f"p\u00a0=\u00a0{one.p_value:.2g}"
    words = "" if one.grade == Grade.FINE else f", {one.finding}"
    return f"{prefix}{_GRADES[one.grade]}{words} ({p_value})"


def notes_section(methods: Sequence[Method], settings: Mapping[str, str], *, were_searched: bool) -> Markup:
    """Return the rules behind the words, and what the report was made with."""
    coverage = methods[0].observed.coverage
    rules = [
        f"A set of rows is “clearly off” if there is evidence against calibration and its size matters; “slightly "
        f"off” if there is evidence of something small; else there is “no evidence”. Evidence: p < {SIGNIFICANT:g}. "
        f"Small: the probability of lying below any value is off by less than {_percent(SMALL_DISTANCE)} (largest "
        f"distance of the PIT values' distribution from uniform) and the coverage of {_percent(coverage)} intervals by "
        f"less than {_percent(SMALL_GAP)}.",
        "The p-value is the smaller one of Frosini's test of uniform PIT values and the binomial test of the coverage, "
        "doubled, and corrected by Holm's method for the number of regions.",
        "“Too narrow” and “too wide” follow the coverage of central intervals, a bias apart; “too low” and “too high” "
        "the mean of the normal scores. Predictions are called worse if their error (CRPS) rose or their overall "
        "coverage moved away from the nominal one by more than two standard errors, and better only if neither did, "
        "nor did the coverage of a region that is clearly off.",
        _SEARCHED if were_searched else "Regions were given, and are judged by all of their rows.",
        "Predictions recalibrated on few rows carry the sampling error of those rows. Tests of the last method allow "
        "for it where the number of calibration rows is known.",
        f"“Would show a gap” means: with probability {POWER:.0%}. ± is one standard error, by bootstrap of the rows.",
        "A PIT value is the predicted probability of a value below the one observed. If predictions are right these "
        "are spread evenly: a hump in the middle means too wide, a valley too narrow, a slope a bias. The shaded band "
        "holds all bars with probability 95% if predictions are right.",
        "Densities in the explorer are drawn from eleven quantiles, lightly smoothed: their small bumps mean nothing.",
    ]
    made = [element("div", element("dt", key), element("dd", value)) for key, value in settings.items()]
    return join(element("ul", [element("li", rule) for rule in rules]), element("dl", made, class_="settings"))


def _with_error(metric: str, value: float, error: float, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if metric in _SHARES:
        unit = " pts" if signed else "%"
        margin = "" if np.isnan(error) else f" ± {100 * error:.1f}"
        return f"{100 * value:{sign}.1f}{margin}{unit}".replace("-", "−")
    return format_with_error(value, error, sign).replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def heading(title: str, methods: Sequence[str], n: int, coverage: float) -> Markup:
    """Return the title and what the page is about."""
    compared = "predictions" if len(methods) == 1 else f"“{methods[0]}” against “{methods[-1]}”"
    about = f"{compared}, {n:,} observations, {_percent(coverage)} intervals"
    return join(element("h1", title), element("p", about, class_="about"))
