"""What tuning found: all candidates with their scores, the choice, and the reason for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcal._saved import instance, savable, text
from nearcal._table import Table, format_number
from nearcal.recalibration import GlobalRecalibrator, IdentityRecalibrator, LocalRecalibrator
from nearcal.tuning._candidates import Candidate
from nearcal.tuning._choice import Comparison, Rule, choose
from nearcal.tuning._evidence import collect_evidence

_SHOWN = 10


@savable(table=instance(Table), chosen=instance(Candidate), reason=text)
@dataclass(frozen=True, repr=False)
class Tuning:
    """What :func:`nearcal.tune` returns; print it to see the best candidates and the choice.

    Attributes
    ----------
    table : Table
        One row a candidate: ``kind``, ``space``, ``scaling``, ``components``, ``k``, ``smoothing``,
        ``adjustment``, ``shrinkage``, the mean leave-one-out ``crps`` with its ``std_error``, the ``difference`` from
        the best candidate with the ``difference_std_error`` of the paired differences, and whether it was ``chosen``.
    chosen : Candidate
        The choice.
    reason : str
        Why, in a sentence.
    """

    table: Table
    chosen: Candidate
    reason: str

    @property
    def evidence(self) -> Table:
        """What each step brings, one row a ``kind`` of candidates: none, global, plain local, and local with each step.

        Of every kind the number ``tried``, the scores of the best as in ``table``, whether the choice is ``chosen``
        from it, and which the ``best`` is. A candidate with several steps is of several kinds.
        """
        return collect_evidence(self.table)

    def recalibrator(self, **options: Any) -> IdentityRecalibrator | GlobalRecalibrator | LocalRecalibrator:
        """Return the unfitted recalibrator of the choice; options are those of its class, such as ``quantile_rule``."""
        return self.chosen.recalibrator(**options)

    def __str__(self) -> str:
        order = np.argsort(self.table["crps"], kind="stable")[:_SHOWN]
        best = Table({name: column[order] for name, column in self.table.columns.items()})
        return f"Tuning: the best {len(best)} of {len(self.table)} candidates\n{best}\n{self.reason}"

    def __repr__(self) -> str:
        return str(self)


def conclude(candidates: Sequence[Candidate], comparison: Comparison, rule: Rule, is_calibrated: bool) -> Tuning:
    """Choose by the rule and put everything into a table."""
    place, within = choose(candidates, comparison, rule, is_calibrated)
    columns: dict[str, Any] = {
        name: [getattr(candidate, name) or "" for candidate in candidates] for name in ("kind", "space", "scaling")
    }
    for name in ("components", "k"):
        columns[name] = [getattr(candidate, name) or np.nan for candidate in candidates]
    for name in ("smoothing", "adjustment"):
        columns[name] = [getattr(candidate, name) or "" for candidate in candidates]
    columns["shrinkage"] = [candidate.shrinkage for candidate in candidates]
    columns["crps"] = comparison.mean
    columns["std_error"] = comparison.std_error
    columns["difference"] = comparison.difference
    columns["difference_std_error"] = comparison.difference_std_error
    columns["chosen"] = np.arange(len(candidates)) == place
    return Tuning(Table(columns), candidates[place], _explain(candidates, comparison, place, within))


def _explain(candidates: Sequence[Candidate], comparison: Comparison, place: int, within: int) -> str:
    chosen, best = candidates[place], candidates[comparison.best]
    score = f"leave-one-out CRPS {format_number(comparison.mean[place])}"
    if chosen.kind != "none":
        untouched = comparison.mean[[candidate.kind for candidate in candidates].index("none")]
        score += f" against {format_number(untouched)} without recalibration"
    if place == comparison.best:
        return f"Chose {chosen}: the best of {len(candidates)} candidates, {score}."
    return (
        f"Chose {chosen}: the simplest of the {within} candidates as good as the best within its error ({best}, CRPS "
        f"{format_number(comparison.mean[comparison.best])}); {score}."
    )
