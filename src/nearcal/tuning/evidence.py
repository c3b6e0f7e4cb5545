"""What tuning found: all candidates with their scores, what each step brought, the choice, and the reason for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._arrays import FloatArray, as_space
from nearcal._errors import InvalidInputError
from nearcal._saved import count, having, instance, optional, require, savable, text, tuple_of
from nearcal._table import Table, format_number
from nearcal.compiled import CompiledRecalibrator
from nearcal.guarantees import CrossRecalibrator, GuaranteedRecalibrator
from nearcal.recalibration import (
    AveragedRecalibrator,
    Caution,
    Fade,
    GlobalRecalibrator,
    IdentityRecalibrator,
    LocalRecalibrator,
)
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import Comparison

if TYPE_CHECKING:
    from nearcal.tuning.finals import Decision, Finals

_SHOWN = 10
_SCORES = ("crps", "std_error", "difference", "difference_std_error", "interval_score", "log_score")
_FLAGS = ("linear", "shrinkage", "trend", "distilled")
_SETTINGS = ("kind", "space", "scaling", "components", "k", "smoothing", *_FLAGS)
_COLUMNS = (*_SETTINGS, *_SCORES, "rows", "weight", "chosen")
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
    "distilled": lambda candidate: candidate.distilled,
}


@savable(
    table=instance(Table),
    chosen=instance(Candidate),
    reason=text,
    recalibrator=having("recalibrate", "n_cal_"),
    fade=optional(instance(Fade)),
    spaces=tuple_of(text),
    widths=tuple_of(count()),
)
@dataclass(frozen=True, repr=False)
class Tuning:
    """What :func:`nearcal.tune` returns; print it to see the best candidates and the choice.

    Attributes
    ----------
    table : Table
        One row a candidate: ``kind``, ``space``, ``scaling``, ``components``, ``k``, ``smoothing``, ``linear``,
        ``shrinkage``, ``trend``, ``distilled``, the mean leave-one-out ``crps`` with its ``std_error``, the
        ``difference`` from the best candidate with the ``difference_std_error`` of the paired differences, the number
        of ``rows`` that it was scored on, the mean 95% ``interval_score`` and ``log_score`` (minus the log-density,
        before polish) of those that came into the finals, NaN for the others, its ``weight`` in what was chosen, and
        whether it was ``chosen``, alone or with others. Candidates that left the race before the end have the best's
        ``crps`` plus their ``difference``, at the rows that they were scored on. A student has the scores of what it
        has learnt from, plus the difference from it, cross-fitted, at the rows judged.
    chosen : Candidate
        The choice; of an average the candidate of the greatest weight; ``distilled`` where a student of it was taken.
    reason : str
        Why, in a sentence.
    recalibrator : AveragedRecalibrator, LocalRecalibrator, GlobalRecalibrator or IdentityRecalibrator
        The recalibrator of the choice, fitted, or the :class:`CompiledRecalibrator` of a student; its ``recalibrate``
        takes what :meth:`positions` returns. With a ``guarantee`` it is one that has it.
    fade : Fade or None
        How rows unlike the calibration set were asked to fade.
    spaces : tuple of str
        The spaces that the recalibrator looks at, side by side; none of one that treats all rows alike.
    widths : tuple of int
        How many columns each of them has.
    """

    table: Table
    chosen: Candidate
    reason: str
    recalibrator: (
        IdentityRecalibrator
        | GlobalRecalibrator
        | LocalRecalibrator
        | AveragedRecalibrator
        | CompiledRecalibrator
        | GuaranteedRecalibrator
        | CrossRecalibrator
    )
    fade: Fade | None = None
    spaces: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(len(self.spaces) == len(self.widths), "widths must be those of the spaces")
        absent = [name for name in _COLUMNS if name not in self.table.columns]
        require(not absent, f"table must have the columns {', '.join(_COLUMNS)}, {', '.join(absent)} missing")
        require(all(self.table[name].dtype.kind == "f" for name in _SCORES), "scores of table must be numbers")

    def positions(self, spaces: Any) -> FloatArray | None:
        """Return where new rows are, as the recalibrator asks for it; None if it does not.

        Parameters
        ----------
        spaces : mapping of str to array_like of shape (m, d), or one array
            As in :func:`nearcal.tune`, of new rows.

        Examples
        --------
        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> spaces = {"one": rng.normal(size=(200, 1)), "other": rng.normal(size=(200, 2))}
        >>> y = rng.normal(spaces["one"][:, 0] + spaces["other"][:, 0], 0.1)
        >>> tuning = nc.tune(nc.Normal(np.zeros(200), 1.0), y, spaces)
        >>> new = {name: space[:5] for name, space in spaces.items()}
        >>> tuning.recalibrator.recalibrate(nc.Normal(np.zeros(5), 1.0), tuning.positions(new))
        Recalibrated(n=5)
        """
        if not self.spaces:
            return None
        named = spaces if isinstance(spaces, Mapping) else {"space": spaces}
        if any(name not in named for name in self.spaces):
            raise InvalidInputError(f"spaces must have {', '.join(map(repr, self.spaces))}, got {list(named)}")
        own = {name: as_space(named[name], f"spaces[{name!r}]") for name in self.spaces}
        n = len(own[self.spaces[0]])
        for (name, table), width in zip(own.items(), self.widths, strict=True):
            if table.shape != (n, width):
                raise InvalidInputError(
                    f"spaces[{name!r}] must have {n} rows, as {self.spaces[0]!r} has, and {width} columns, as in tune, "
                    f"got shape {table.shape}"
                )
        return np.hstack(list(own.values()))

    @property
    def evidence(self) -> Table:
        """What each step brings, one row a ``kind``: none, global, plain local, local with each step, distilled.

        Of every kind the number ``tried``, the scores of the best as in ``table``, whether the choice is ``chosen``
        from it, and which the ``best`` is. A candidate with several steps is of several kinds.
        """
        rows = list(self.table)
        candidates = [Candidate.of_row(row) for row in rows]
        columns: dict[str, list[Any]] = {name: [] for name in ("kind", "tried", *_SCORES, "chosen", "best")}
        for kind, belongs in KINDS.items():
            own = [
                place for place, one in enumerate(candidates) if belongs(one) and one.distilled is (kind == "distilled")
            ]
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
    candidates: Sequence[Candidate],
    comparison: Comparison,
    weights: Mapping[int, float],
    finals: "Finals | None" = None,
) -> Table:
    """Return the table of all candidates, of which those at some places were chosen, with weights."""
    columns: dict[str, Any] = {
        name: [getattr(candidate, name) or "" for candidate in candidates] for name in ("kind", "space", "scaling")
    }
    for name in ("components", "k"):
        columns[name] = [getattr(candidate, name) or np.nan for candidate in candidates]
    columns["smoothing"] = [candidate.smoothing or "" for candidate in candidates]
    for name in _FLAGS:
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
    columns["weight"] = [weights.get(place, 0.0) for place in range(len(candidates))]
    columns["chosen"] = [place in weights for place in range(len(candidates))]
    return Table(columns)


def explain(
    candidates: Sequence[Candidate], comparison: Comparison, decision: "Decision", within: int, how: str = "",
    finals: "Finals | None" = None,
) -> str:  # fmt: skip
    """Say why candidates were chosen, of which ``within`` are as good as the best, and how they were judged.

    Where finals have decided, they are given.
    """
    place = decision.place
    chosen, best = candidates[place], candidates[comparison.best]
    score = f"leave-one-out CRPS {format_number(comparison.mean[place])}"
    if chosen.kind != "none":
        untouched = comparison.mean[[candidate.kind for candidate in candidates].index("none")]
        score += f" against {format_number(untouched)} without recalibration"
    score += f"; {how}" if how else ""
    left = "" if decision.caution is None else _left(decision.caution)
    if finals is not None and chosen.kind == "local":
        among = f"of {len(finals.places)} finalists of {len(candidates)} candidates"
        if len(decision.weights) == 1:
            return f"Chose {chosen}: the best in CRPS and 95% interval score {among}, {score}{left}."
        return f"Chose an average {among}: {_average_words(candidates, decision, finals)}; the first has {score}{left}."
    if finals is not None:
        return f"Chose {chosen}: no local candidate of {len(candidates)} is better beyond doubt, {score}{left}."
    if place == comparison.best:
        return f"Chose {chosen}: the best of {len(candidates)} candidates, {score}."
    return (
        f"Chose {chosen}: the simplest of the {within} candidates as good as the best within its error ({best}, CRPS "
        f"{format_number(comparison.mean[comparison.best])}); {score}."
    )


def _average_words(candidates: Sequence[Candidate], decision: "Decision", finals: "Finals") -> str:
    """Return the members of an average, the heaviest first, and what it brings."""
    assert finals.average is not None
    order = sorted(decision.weights, key=lambda place: -decision.weights[place])
    members = "; ".join(f"{decision.weights[place]:.2f} × ({candidates[place]})" for place in order)
    alone = min(finals.mean("crps")[finals.places.index(place)] for place in order)
    together = float(np.average(finals.average.crps, weights=finals.weights))
    return f"{members}; together CRPS {format_number(together)} against {format_number(alone)} of the best of them"


def _left(caution: Caution) -> str:
    """Return in words what is left to the model."""
    of = "its" if caution.share else "the"
    shares = {"every prediction": caution.share, f"{of} tails": caution.tails, f"{of} middle": caution.middle}
    parts = [f"{share:.0%} of {what}" for what, share in shares.items() if share > 0]
    return f"; left to the model: {', '.join(parts)}"
