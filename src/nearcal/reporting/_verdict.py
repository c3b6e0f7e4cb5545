"""The verdict in plain words. Every sentence follows from grades and numbers of `_judgement`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearcal.diagnostics.features import EVERYWHERE
from nearcal.recalibration import are_far_too_many
from nearcal.reporting._judgement import SMALL_GAP, Grade, Judgement, Observed, detectable_gap, severity

State = Literal["fine", "slight", "places", "wrong"]
Mood = Literal["good", "fair", "bad", "plain"]

_TOO_COARSE = 0.05  # a gap of coverage that must not go unnoticed

_ALONE: dict[State, str] = {
    "fine": "No sign of miscalibration",
    "slight": "Close to calibrated",
    "places": "Right on average, wrong in places",
    "wrong": "Not calibrated",
}
_STATE_MOODS: dict[State, Mood] = {"fine": "good", "slight": "good", "places": "bad", "wrong": "bad"}
_GRADE_MOODS: dict[Grade, Mood] = {Grade.FINE: "good", Grade.SLIGHT: "fair", Grade.CLEAR: "bad"}


@dataclass(frozen=True)
class Method:
    """One method's name, what was observed, and its judgements: of all rows, and of every region."""

    name: str
    observed: Observed
    overall: Judgement
    regions: Sequence[Judgement]

    @property
    def state(self) -> State:
        """How it stands in all."""
        worst_region = max((one.grade for one in self.regions), default=Grade.FINE)
        if self.overall.grade == Grade.CLEAR:
            return "wrong"
        if worst_region == Grade.CLEAR:
            return "places"
        return "slight" if max(self.overall.grade, worst_region) == Grade.SLIGHT else "fine"

    @property
    def is_bad(self) -> bool:
        """Whether something is clearly off."""
        return self.state in ("places", "wrong")

    @property
    def clear(self) -> int:
        """The number of regions that are clearly off."""
        return sum(one.grade == Grade.CLEAR for one in self.regions)


@dataclass(frozen=True)
class Change:
    """Change of a figure that is better when smaller, and its standard error, NaN where there is none."""

    value: float
    error: float

    @property
    def rises(self) -> bool:
        """Whether it rises beyond noise."""
        return self.value > 2 * np.nan_to_num(self.error)

    @property
    def falls(self) -> bool:
        """Whether it falls beyond noise."""
        return self.value < -2 * np.nan_to_num(self.error)


@dataclass(frozen=True)
class Comparison:
    """What speaks for the last method against the first, and what against it, in words.

    ``overruling`` is what makes it worse whatever speaks for it: a larger error, or intervals that cover less well.
    """

    better: Sequence[str]
    worse: Sequence[str]
    overruling: Sequence[str]


@dataclass(frozen=True)
class Answer:
    """An answer to one question a reader has."""

    question: str
    mood: Mood
    text: str


@dataclass(frozen=True)
class Verdict:
    """The headline, what it rests on, and the answers."""

    headline: str
    mood: Mood
    lead: str
    answers: Sequence[Answer]

    def __str__(self) -> str:
        lines = [f"{answer.question} {answer.text}" for answer in self.answers]
        return "\n".join([f"{self.headline}.", self.lead, *lines])


def decide(methods: Sequence[Method], score: Change | None) -> Verdict:
    """Put the judgements of one method, or of the first and the last with the change of score, into words."""
    first, last = methods[0], methods[-1]
    comparison = None if score is None else compare(first, last, score)
    headline, mood = _headline(first, last, comparison)
    if last.observed.faded is not None and _are_unlike(last, last.observed.faded):
        headline, mood = f"{headline}; many rows are unlike the calibration set", "fair" if mood == "good" else mood
    answers = [_overall(method, len(methods)) for method in methods]
    answers += [_everywhere(method, len(methods)) for method in methods]
    if score is not None and comparison is not None:
        answers.append(_mended(first, last, comparison, score))
    if last.observed.faded is not None:
        answers.append(_likeness(last, last.observed.faded))
    answers.append(_certainty(last))
    return Verdict(headline, mood, _lead(first, last), answers)


def compare(first: Method, last: Method, score: Change) -> Comparison:
    """Weigh the score, the overall coverage and the regions of two methods: all that the page shows of them."""
    better, worse, overruling = list[str](), list[str](), list[str]()
    coverage = coverage_change(first.observed, last.observed)
    nominal = _percent(last.observed.coverage)
    if score.falls:
        better.append("the error of the predictions (CRPS) fell")
    if coverage.falls:
        better.append(f"the overall coverage came nearer to {nominal}")
    if last.clear != first.clear:
        more = last.clear > first.clear
        (worse if more else better).append(f"{'more' if more else 'fewer'} regions are clearly off")
    if first.overall.grade != last.overall.grade == Grade.CLEAR:
        worse.append("predictions are clearly off overall")
    elif last.overall.grade < first.overall.grade:
        better.append("predictions are less off overall")
    if _harmed(first, last):
        worse.append(f"the coverage of a region moved away from {nominal}")
    if score.rises:
        overruling.append("the error of the predictions (CRPS) rose")
    # a farther coverage that the test of all rows sees nothing in is chance
    if coverage.rises and last.overall.grade != Grade.FINE:
        matters = abs(last.overall.coverage - last.observed.coverage) >= SMALL_GAP
        (overruling if matters or not better else worse).append(f"the overall coverage moved away from {nominal}")
    return Comparison(better, worse, overruling)


def coverage_change(first: Observed, last: Observed) -> Change:
    """Return by how much farther from nominal the overall coverage is, with the error of the pairs of rows."""
    signs = [np.sign(one.covered.mean() - one.coverage) for one in (first, last)]
    difference = signs[1] * (last.covered - last.coverage) - signs[0] * (first.covered - first.coverage)
    n = len(difference)
    share = min(one.share(n) for one in (first, last))
    return Change(float(difference.mean()), float(difference.std() / np.sqrt(n * share)))


def _harmed(first: Method, last: Method) -> tuple[Judgement, Judgement] | None:
    """Return the region, before and after, that is clearly off and whose coverage moved farthest away, if any did."""
    level, moved = last.observed.coverage, []
    for before, after in zip(first.regions, last.regions, strict=True):
        farther = abs(after.coverage - level) - abs(before.coverage - level)
        # rows are the same, so that this is too large an error unless the two cover different ones
        error = np.sqrt(sum(one.coverage * (1 - one.coverage) / one.n for one in (before, after)))
        if after.grade == Grade.CLEAR and after.region != EVERYWHERE and farther >= max(SMALL_GAP, 2 * error):
            moved.append((farther, before, after))
    return max(moved, key=lambda one: one[0])[1:] if moved else None


def _headline(first: Method, last: Method, comparison: Comparison | None) -> tuple[str, Mood]:
    if comparison is None:
        return _ALONE[first.state] + _doubt(first), _STATE_MOODS[first.state]
    if comparison.overruling:
        mended = ", though nothing is clearly off any more" if first.is_bad and not last.is_bad else ""
        return f"Worse after recalibration: {_listed(comparison.overruling)}{mended}", "bad"
    if not last.is_bad:
        before = {"wrong": "Not calibrated at first", "places": "Right on average but wrong in places"}
        if first.is_bad:
            doubt = _open_question(last)
            return f"{before[first.state]}, mended by recalibration{_doubt(last) or doubt}", "fair" if doubt else "good"
        return f"{_ALONE[last.state]}, before or after recalibration{_doubt(last)}", "good"
    if comparison.worse and comparison.better:
        text = f"{_listed(comparison.better)}, but {_listed(comparison.worse)}"
        return f"Not mended by recalibration: {text}", "bad"
    if comparison.worse:
        return f"Worse after recalibration: {_listed(comparison.worse)}", "bad"
    if comparison.better:
        return "Better after recalibration, but not mended", "fair"
    return "Recalibration did not mend it", "bad"


def _doubt(method: Method) -> str:
    """Add what too few rows leave open."""
    if method.state == "fine" and detectable_gap(method.observed, method.overall.n) > _TOO_COARSE:
        return ", though there are too few rows to rule it out"
    return ""


def _open_question(method: Method) -> str:
    """Add that a region covers far from nominal, where its rows are too few to tell that from chance."""
    return " as far as can be told" if _unexplained(method) else ""


def _unexplained(method: Method) -> Sequence[Judgement]:
    """Return regions that look clearly off without evidence of it, the farthest first."""
    level = method.observed.coverage
    far = [one for one in method.regions if abs(one.coverage - level) >= _TOO_COARSE and one.region != EVERYWHERE]
    far = [one for one in far if one.grade != Grade.CLEAR]
    return sorted(far, key=lambda one: -abs(one.coverage - level))


def _lead(first: Method, last: Method) -> str:
    """Say what it was like before and after: in a region that was harmed, or the worst, else over all rows."""
    level, pairs = first.observed.coverage, [(first.overall, last.overall)]
    if first.is_bad:
        pairs += [pair for pair in zip(first.regions, last.regions, strict=True) if pair[0].region != EVERYWHERE]
    before, after = _harmed(first, last) or max(pairs, key=lambda pair: severity(pair[0], level))
    where = "Over all rows" if before.region == EVERYWHERE else f"Where {before.region}"
    text = f"{where}, {_percent(level)} intervals of “{first.name}” cover {_percent(before.coverage)}"
    if last is not first:
        text += f"; those of “{last.name}” cover {_percent(after.coverage)}"
    return f"{text} ({before.n:,} rows)."


def _overall(method: Method, count: int) -> Answer:
    one, level = method.overall, _percent(method.observed.coverage)
    limits = f"95% limits {_percent(one.lower)} to {_percent(one.upper)}"
    covers = f"{level} intervals cover {_percent(one.coverage)} of {one.n:,} observations ({limits})."
    words = {
        Grade.FINE: "As far as these rows can tell, yes.",
        Grade.SLIGHT: f"Nearly. Predictions are measurably {_phrase(one.finding)}, but only slightly.",
        Grade.CLEAR: f"No. Predictions are {_phrase(one.finding)}.",
    }[one.grade]
    return Answer(f"Calibrated overall{_of(method, count)}?", _GRADE_MOODS[one.grade], f"{words} {covers}")


def _everywhere(method: Method, count: int) -> Answer:
    question, level = f"Calibrated everywhere{_of(method, count)}?", method.observed.coverage
    if not method.regions:
        return Answer(question, "plain", "Not looked at: no features or positions were given.")
    total = len(method.regions)
    bad = max(method.regions, key=lambda one: severity(one, level))
    if bad.region == EVERYWHERE:
        text = (
            "No feature was found that separates better from worse predictions: as far as these rows can tell, "
            "what holds overall holds everywhere."
        )
        return Answer(question, _GRADE_MOODS[bad.grade], text)
    example = f"{bad.region}: {_percent(level)} intervals cover {_percent(bad.coverage)} ({bad.n:,} rows)"
    if bad.grade == Grade.FINE:
        return Answer(question, "good", f"No evidence against it in any of {total} regions. The farthest is {example}.")
    if bad.grade == Grade.SLIGHT:
        slight = sum(one.grade == Grade.SLIGHT for one in method.regions)
        text = (
            f"Nearly: {slight} of {total} regions {_are(slight)} slightly off, none clearly. The farthest is {example}."
        )
        return Answer(question, "fair", text)
    text = f"No: {method.clear} of {total} regions {_are(method.clear)} clearly off. The worst is {example}."
    return Answer(question, "bad", f"{text} Predictions there are {_phrase(bad.finding)}.")


def _mended(first: Method, last: Method, comparison: Comparison, score: Change) -> Answer:
    mood: Mood = "bad"
    if not first.is_bad:
        text, mood = "There was nothing clear to mend.", "bad" if last.is_bad or comparison.overruling else "plain"
    elif not last.is_bad:
        text, mood = "Yes: nothing is clearly off any more.", "fair" if comparison.overruling else "good"
        if far := _unexplained(last):
            text = (
                f"As far as can be told: nothing is clearly off any more, but where {far[0].region}, "
                f"{_percent(last.observed.coverage)} intervals still cover {_percent(far[0].coverage)}, which may be "
                f"chance or not: its {far[0].n:,} rows cannot tell."
            )
            mood = "fair"
    elif comparison.overruling or not comparison.better:
        text = "No."
    else:
        text, mood = "In part.", "fair"
    if harmed := _harmed(first, last):
        before, after = (_percent(one.coverage) for one in harmed)
        level, where = _percent(last.observed.coverage), harmed[1].region
        text += f" Where {where}, {level} intervals covered {before} before, and cover {after} now."
    if first.regions and (first.is_bad or last.is_bad):
        text += f" Regions clearly off: {first.clear} before, {last.clear} after."
    return Answer("Mended?", mood, text + _score_words(score))


def _score_words(score: Change) -> str:
    if not np.isfinite(score.value):  # without a mean the CRPS is infinite
        return ""
    size = f"{score.error:.1%}"
    if score.falls or score.rises:
        word = "falls" if score.falls else "rises"
        return f" The error of the predictions (CRPS) {word} by {abs(score.value):.1%} ± {size}."
    return f" The error of the predictions (CRPS) does not change measurably ({score.value:+.1%} ± {size})."


def _are_unlike(method: Method, faded: int) -> bool:
    return are_far_too_many(faded, method.overall.n, method.observed.expected_faded)


def _likeness(method: Method, faded: int) -> Answer:
    n, expected = method.overall.n, method.observed.expected_faded
    rows = f"{faded:,} of {n:,} rows ({_percent(faded / n)})"
    usual = f"of rows like it {_percent(expected)} would be at most"
    question = "Are these rows like the calibration set?"
    if _are_unlike(method, faded):
        text = (
            f"No: {rows} lie far from its points or beyond the range of its columns; {usual}. They keep the model's "
            "own distribution in part or whole, and nothing was learnt about them: calibrate with rows of their kind."
        )
        return Answer(question, "bad", text)
    kept = "; they keep the model's own distribution in part or whole" if faded else ""
    return Answer(question, "good", f"Yes, by where they lie: {rows} are unlike it, {usual}{kept}.")


def _certainty(method: Method) -> Answer:
    gap = detectable_gap(method.observed, method.overall.n)
    text = f"{method.overall.n:,} rows show a gap of coverage overall if it exceeds about {_points(gap)}"
    smallest = min((one.n for one in method.regions), default=0)
    if smallest:
        local = detectable_gap(method.observed, smallest, len(method.regions))
        text += f", and in the smallest region ({smallest:,} rows) if it exceeds about {_points(local)}"
    sampled = (
        ""
        if method.observed.n_cal is None
        else (f" The sampling error of {method.observed.n_cal:,} calibration rows is allowed for.")
    )
    return Answer("How sure is this?", "plain", f"{text}; smaller ones would often go unnoticed.{sampled}")


def _of(method: Method, count: int) -> str:
    return f", “{method.name}”" if count > 1 else ""


def _listed(words: Sequence[str]) -> str:
    """Return "one", "one and two", or "one, two and three"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _phrase(finding: str) -> str:
    return finding.replace(", ", " and ") if finding != "ok" else "off"


def _percent(share: float) -> str:
    """Return a percentage with a decimal where it has one worth showing."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def _points(gap: float) -> str:
    value = f"{100 * gap:.2g}" if gap < 0.1 else f"{100 * gap:.0f}"
    return f"{value} percentage point{'' if value == '1' else 's'}"
