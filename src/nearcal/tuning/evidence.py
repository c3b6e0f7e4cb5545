"""What tuning found: all candidates with their scores, what each step brought, the choice, and the reason for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._saved import having, instance, optional, savable, text
from nearcal._table import Table, format_number
from nearcal.guarantees import CrossRecalibrator, GuaranteedRecalibrator
from nearcal.recalibration import Fade, GlobalRecalibrator, IdentityRecalibrator, LocalRecalibrator
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import Comparison

if TYPE_CHECKING:
    from nearcal.tuning.finals import Finals

_SHOWN = 10
_SCORES = ("crps", "std_error", "difference", "difference_std_error", "interval_score", "log_score")
_STEPS: dict[str, Callable[[Candidate], bool]] = {
    "local, with relevance": lambda candidate: candidate.scaling == "relevance",
    "local, with trend": lambda candidate: candidate.trend,
    "local, with local-linear": lambda candidate: candidate.linear,
    "local, with shrinkage": lambda candidate: candidate.shrinkage,
}
KINDS: dict[str, Callable[[Candidate], bool]] = {
    "no recalibration": lambda candidate: candidate.kind == "none",
    "global recalibration": lambda candidate: candidate.kind == "global",
    "local, plain": lambda candidate: (
        candidate.kind == "local" and not any(adds(candidate) for adds in _STEPS.values())
    ),
    **_STEPS,
}


@savable(
    table=instance(Table),
    chosen=instance(Candidate),
    reason=text,
    recalibrator=having("recalibrate", "n_cal_"),
    fade=optional(instance(Fade)),
)
@dataclass(frozen=True, repr=False)
class Tuning:
    """What :func:`nearcal.tune` returns; print it to see the best candidates and the choice.

    Attributes
    ----------
    table : Table
        One row a candidate: ``kind``, ``space``, ``scaling``, ``components``, ``k``, ``smoothing``,
        ``linear``, ``shrinkage``, ``trend``, the mean leave-one-out ``crps`` with its ``std_error``, the ``difference``
        from the best candidate with the ``difference_std_error`` of the paired differences, the number of ``rows`` that
        it was scored on, the mean 95% ``interval_score`` and ``log_score`` (minus the log-density, before polish) of
        those that came into the finals, NaN for the others, and whether it was ``chosen``. Candidates that left the
        race before the end have the best's ``crps`` plus their ``difference``, at the rows that they were scored on.
    chosen : Candidate
        The choice.
    reason : str
        Why, in a sentence.
    recalibrator : LocalRecalibrator, GlobalRecalibrator or IdentityRecalibrator
        The recalibrator of the choice, fitted; its ``recalibrate`` takes positions in the space ``chosen.space``,
        of several spaces joined by " + " side by side. With a ``guarantee`` it is one that has it.
    fade : Fade or None
        How rows unlike the calibration set were asked to fade.
    """

    table: Table
    chosen: Candidate
    reason: str
    recalibrator: (
        IdentityRecalibrator | GlobalRecalibrator | LocalRecalibrator | GuaranteedRecalibrator | CrossRecalibrator
    )
    fade: Fade | None = None

    @property
    def evidence(self) -> Table:
        """What each step brings, one row a ``kind`` of candidates: none, global, plain local, and local with each step.

        Of every kind the number ``tried``, the scores of the best as in ``table``, whether the choice is ``chosen``
        from it, and which the ``best`` is. A candidate with several steps is of several kinds.
        """
        rows = list(self.table)
        candidates = [Candidate.of_row(row) for row in rows]
        columns: dict[str, list[Any]] = {name: [] for name in ("kind", "tried", *_SCORES, "chosen", "best")}
        for kind, belongs in KINDS.items():
            own = [place for place, candidate in enumerate(candidates) if belongs(candidate)]
            if not own:
                continue
            best = min(own, key=lambda place: rows[place]["crps"])
            columns["kind"].append(kind)
            columns["tried"].append(len(own))
            for name in _SCORES:
                columns[name].append(rows[best][name])
            columns["chosen"].append(any(rows[place]["chosen"] for place in own))
            columns["best"].append(str(candidates[best]))
        return Table(columns)

    def __str__(self) -> str:
        order = np.argsort(self.table["crps"], kind="stable")[:_SHOWN]
        best = Table({name: column[order] for name, column in self.table.columns.items()})
        return f"Tuning: the best {len(best)} of {len(self.table)} candidates\n{best}\n{self.reason}"

    def __repr__(self) -> str:
        return str(self)


def tabulate(
    candidates: Sequence[Candidate], comparison: Comparison, place: int, finals: "Finals | None" = None
) -> Table:
    """Return the table of all candidates, of which the one at ``place`` was chosen."""
    columns: dict[str, Any] = {
        name: [getattr(candidate, name) or "" for candidate in candidates] for name in ("kind", "space", "scaling")
    }
    for name in ("components", "k"):
        columns[name] = [getattr(candidate, name) or np.nan for candidate in candidates]
    columns["smoothing"] = [candidate.smoothing or "" for candidate in candidates]
    for name in ("linear", "shrinkage", "trend"):
        columns[name] = [getattr(candidate, name) for candidate in candidates]
    columns["crps"] = comparison.mean
    columns["std_error"] = comparison.std_error
    columns["difference"] = comparison.difference
    columns["difference_std_error"] = comparison.difference_std_error
    columns["rows"] = comparison.rows
    for name in ("interval", "log"):
        columns[f"{name}_score"] = np.full(len(candidates), np.nan)
        if finals is not None:
            columns[f"{name}_score"][finals.places] = finals.mean(name)
    columns["chosen"] = np.arange(len(candidates)) == place
    return Table(columns)


def explain(
    candidates: Sequence[Candidate], comparison: Comparison, place: int, within: int, how: str = "",
    finals: tuple[int, float] | None = None,
) -> str:  # fmt: skip
    """Say why the candidate at ``place`` was chosen, one of ``within`` that are as good as the best, and how judged.

    Where finals have decided, they are given as their number of finalists and the share that is left to the model.
    """
    chosen, best = candidates[place], candidates[comparison.best]
    score = f"leave-one-out CRPS {format_number(comparison.mean[place])}"
    if chosen.kind != "none":
        untouched = comparison.mean[[candidate.kind for candidate in candidates].index("none")]
        score += f" against {format_number(untouched)} without recalibration"
    score += f"; {how}" if how else ""
    if finals is not None and chosen.kind == "local":
        share = f"; {finals[1]:.0%} of every prediction is left to the model" * (finals[1] > 0)
        return (
            f"Chose {chosen}: the best in CRPS and 95% interval score of {finals[0]} finalists of {len(candidates)} "
            f"candidates, {score}{share}."
        )
    if finals is not None:
        return f"Chose {chosen}: no local candidate of {len(candidates)} is better beyond doubt, {score}."
    if place == comparison.best:
        return f"Chose {chosen}: the best of {len(candidates)} candidates, {score}."
    return (
        f"Chose {chosen}: the simplest of the {within} candidates as good as the best within its error ({best}, CRPS "
        f"{format_number(comparison.mean[comparison.best])}); {score}."
    )
