"""Choosing how to recalibrate each of several models, and how to combine them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_response, check_choice
from nearcal._errors import DependenceWarning, InvalidParameterError, OutOfDistributionWarning, TiesWarning, warn_user
from nearcal._sample_weights import PointWeights
from nearcal._saved import instance, mapping_of, number, optional, require, savable, text, tuple_of
from nearcal._table import Table, format_number
from nearcal.distributions import Distribution
from nearcal.recalibration import CombinedRecalibrator, Fade, Workers
from nearcal.recalibration.base import weighted_rows
from nearcal.recalibration.combined import left_out_table
from nearcal.recalibration.pooling import POOLS, Pool, learn_weights, pool_tables, table_crps
from nearcal.space import Folds, kept_relations
from nearcal.tuning.choice import Comparison
from nearcal.tuning.choosing import tune
from nearcal.tuning.evidence import Tuning
from nearcal.tuning.fitting import columns_of
from nearcal.tuning.racing import EFFORT_NAMES, EFFORTS, EffortName
from nearcal.tuning.row_order import folds_of

_FOLDS = 5
_MORE_SPACES = 2  # in which corrections are tried: of those that models share, and of a model's own
_ERRORS = 2  # standard errors by which one model alone must be better than all together
_OURS = (TiesWarning, DependenceWarning, OutOfDistributionWarning)  # what may be said of every model alike
_POOL_WORDS: Mapping[Pool, str] = {"quantiles": "quantile average", "mixture": "mixture"}


@savable(
    evidence=instance(Table),
    reason=text,
    recalibrator=instance(CombinedRecalibrator),
    spaces=tuple_of(text),
    members=mapping_of(instance(Tuning)),
    weights=mapping_of(number(0.0)),
    fade=optional(instance(Fade)),
)
@dataclass(frozen=True, repr=False)
class Combination:
    """How several models were combined: what ``tuning`` of a calibrated model of several is; print it.

    Attributes
    ----------
    evidence : Table
        One row a ``kind``, every model alone, as recalibrated, and the combinations of all: the number of candidates
        ``tried``, the mean leave-one-out ``crps`` with its ``std_error``, the ``difference`` from the best of them with
        the ``difference_std_error`` of the paired differences, whether it was ``chosen``, and what the ``best`` of its
        candidates is, of a combination the weights. Those behind its score are learnt without the rows they are
        scored on.
    reason : str
        Why, in a sentence.
    recalibrator : CombinedRecalibrator
        Fitted.
    spaces : tuple of str
        The spaces that its members look at: it is given positions in all of them, side by side.
    members : dict of str to Tuning
        How each model is recalibrated, and all that was tried.
    weights : dict of str to float
        The weight of every model, of sum 1.
    fade : Fade or None
        How rows unlike the calibration set were asked to fade.
    """

    evidence: Table
    reason: str
    recalibrator: CombinedRecalibrator
    spaces: tuple[str, ...]
    members: Mapping[str, Tuning]
    weights: Mapping[str, float]
    fade: Fade | None = None

    def __post_init__(self) -> None:
        require(set(self.weights) == set(self.members), "weights must be those of the members")

    @property
    def table(self) -> Table:
        """All candidates of all models, as in :class:`Tuning`, after the name of the ``model``."""
        tables = {name: tuning.table for name, tuning in self.members.items()}
        columns = {"model": np.repeat(list(tables), [len(table) for table in tables.values()])}
        for name in next(iter(tables.values())).columns:
            columns[name] = np.concatenate([table[name] for table in tables.values()])
        return Table(columns)

    def __str__(self) -> str:
        return f"Combination of {len(self.members)} models\n{self.evidence}\n{self.reason}"

    def __repr__(self) -> str:
        return str(self)


def combine(
    dists: Mapping[str, Distribution],
    y_cal: Any,
    spaces: Mapping[str, Mapping[str, FloatArray]],
    *,
    groups: Any = None,
    time: Any = None,
    gap: Any = None,
    sample_weight: Any = None,
    workers: Workers | None = None,
    distilled: Any = "auto",
    effort: EffortName = "default",
    **options: Any,
) -> Combination:
    """Choose how to recalibrate every model by :func:`nearcal.tune`, and combine them by leave-one-out CRPS.

    Parameters
    ----------
    dists : mapping of str to Distribution
        What every model predicts of the n calibration points.
    y_cal : array_like of shape (n,) or (n, 1)
        What was observed.
    spaces : mapping of str to mapping of str to ndarray
        For every model the spaces to choose among.
    groups, time, gap, sample_weight, workers, **options
        As in :func:`nearcal.tune`.
    effort : {"default", "quick", "thorough"}
        As in :func:`nearcal.tune`; corrections are tried in two spaces more, since those that models share are often
        the best without, and a model's own with.
    distilled : "auto" or False
        No member is: its weight is learnt from what it makes of calibration points without them, which a student does
        not keep.
    """
    if distilled not in ("auto", False):
        raise InvalidParameterError(
            "distilled must be False where several models are combined, since their weights are learnt from what each "
            f"makes of calibration points without them, got {distilled!r}; give the result to nearcal.compile, which "
            "compiles every member"
        )
    check_choice(effort, EFFORT_NAMES, "effort")
    more = replace(EFFORTS[effort], spaces=EFFORTS[effort].spaces + _MORE_SPACES)
    relations = {"groups": groups, "time": time, "gap": gap, "sample_weight": sample_weight}
    with _each_warning_once():
        found = {
            name: tune(dist, y_cal, spaces[name], **relations, workers=workers, distilled=False, effort=more, **options)
            for name, dist in dists.items()
        }
        models = _LeftOut.of(found, dists, y_cal, **relations)
    comparison = models.compare()
    place = _choose(comparison, len(found))
    shares = (
        np.eye(len(found))[place] if place < len(found) else learn_weights(models.tables, models.y, models.relative)
    )
    members = [tuning.recalibrator for tuning in found.values()]
    chosen = [tuning.spaces if share > 0 else () for tuning, share in zip(found.values(), shares, strict=True)]
    widths = {space: spaces[name][space].shape[1] for name, own in zip(found, chosen, strict=True) for space in own}
    looked_at = [columns_of(own, widths) for own in chosen]
    recalibrator = CombinedRecalibrator(members, pool=POOLS[max(place - len(found), 0)]).fit_members(
        members, looked_at, shares, models.tables, models.y, models.weights
    )
    weights = dict(zip(found, shares.tolist(), strict=True))
    fades = [tuning.fade for name, tuning in found.items() if tuning.fade is not None and weights[name] > 0]
    return Combination(
        _evidence(found, weights, comparison, place),
        _explain(list(found), weights, comparison, place),
        recalibrator,
        tuple(widths),
        found,
        weights,
        min(fades, key=lambda fade: fade.false_alarm, default=None),
    )


@dataclass(frozen=True)
class _LeftOut:
    """What every model makes of calibration points, recalibrated by the others: tables of quantiles."""

    tables: list[FloatArray]
    y: FloatArray
    weights: PointWeights | None
    folds: Folds | None

    @classmethod
    def of(
        cls, found: Mapping[str, Tuning], dists: Mapping[str, Distribution], y_cal: Any, *, groups: Any, time: Any,
        gap: Any, sample_weight: Any,
    ) -> "_LeftOut":  # fmt: skip
        tables, folds = [], []
        for name, dist in dists.items():
            kept, y, _, weights, rows = weighted_rows(dist, y_cal, None, sample_weight)
            y = as_response(y, len(kept), "y_cal")
            folds.append(folds_of(kept.z(y), *kept_relations(groups, time, rows, len(dist)), gap))
            tables.append(left_out_table(found[name].recalibrator, kept, None, folds[-1]))
        return cls(tables, y, weights, next((fold for fold in folds if fold is not None), None))

    @property
    def relative(self) -> FloatArray | None:
        return None if self.weights is None else self.weights.relative

    def compare(self) -> Comparison:
        """Compare every model alone, and the combinations of all, by the rows that somebody speaks for."""
        judged = np.flatnonzero(~np.isnan(np.sum([table[:, 0] for table in self.tables], axis=0)))
        tables, y = [table[judged] for table in self.tables], self.y[judged]
        relative = None if self.relative is None else self.relative[judged]
        alone = [table_crps(table, y) for table in tables]
        units = None if self.folds is None else self.folds.units[judged]
        return Comparison.of(np.array([*alone, *_cross_fitted(tables, y, relative, units)]), units, relative)


def _cross_fitted(
    tables: Sequence[FloatArray], y: FloatArray, relative: FloatArray | None, units: IntArray | None
) -> list[FloatArray]:
    """Return the CRPS of every row under each pool, with weights learnt without the rows that depend on it."""
    units = np.arange(len(y)) if units is None else np.unique(units, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(int(units.max()) + 1)[units] % _FOLDS
    scores = [np.empty(len(y)) for _ in POOLS]
    for this in np.unique(fold):
        inside, others = fold == this, fold != this
        others = others if others.any() else inside
        weights = None if relative is None else relative[others]
        shares = learn_weights([table[others] for table in tables], y[others], weights)
        for own, pool in zip(scores, POOLS, strict=True):
            own[inside] = table_crps(pool_tables(pool, shares, [table[inside] for table in tables]), y[inside])
    return scores


def _choose(comparison: Comparison, models: int) -> int:
    """Return the place of the choice, of every model alone and the pools after them.

    The better of the pools, unless a model alone is better than it by more than two standard errors: a pool steadies
    what a choice among models leaves to chance, and the score of the best of them owes something to chance.
    """
    pool = models + int(np.argmin(comparison.mean[models:]))
    best = comparison.best
    is_clear = comparison.difference[pool] > _ERRORS * comparison.difference_std_error[pool]
    return best if best < models and is_clear else pool


def _evidence(found: Mapping[str, Tuning], weights: Mapping[str, float], comparison: Comparison, place: int) -> Table:
    """Return the table of every model alone, as recalibrated, and of the combinations."""
    kinds = [f"{name} alone" for name in found] + [_POOL_WORDS[pool] for pool in POOLS]
    best = [str(tuning.chosen) for tuning in found.values()]
    best += [_words_of(weights) if place == len(found) + number else "" for number in range(len(POOLS))]
    return Table(
        {
            "kind": kinds,
            "tried": [len(tuning.table) for tuning in found.values()] + [1] * len(POOLS),
            "crps": comparison.mean,
            "std_error": comparison.std_error,
            "difference": comparison.difference,
            "difference_std_error": comparison.difference_std_error,
            "chosen": np.arange(len(kinds)) == place,
            "best": best,
        }
    )


def _explain(names: Sequence[str], weights: Mapping[str, float], comparison: Comparison, place: int) -> str:
    """Say why the combination was chosen."""
    alone = int(np.argmin(comparison.mean[: len(names)]))
    best, own = format_number(comparison.mean[alone]), format_number(comparison.mean[place])
    if place < len(names):
        pool = len(names) + int(np.argmin(comparison.mean[len(names) :]))
        return (
            f"Chose {names[place]} alone: leave-one-out CRPS {own}, better than any combination of the {len(names)} "
            f"models ({format_number(comparison.mean[pool])}) by more than {_ERRORS} standard errors."
        )
    return (
        f"Chose the {_POOL_WORDS[POOLS[place - len(names)]]} of {_words_of(weights)}: leave-one-out CRPS {own} against "
        f"{best} of {names[alone]}, the best model alone."
    )


def _words_of(weights: Mapping[str, float]) -> str:
    """Return the models of a combination, the heaviest first, with their weights."""
    used = sorted((name for name in weights if weights[name] > 0), key=lambda name: -weights[name])
    return ", ".join(f"{weights[name]:.2f} {name}" for name in used)


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Tell what is said of several models, such as of ties among responses, once a kind; what others say, as it is."""
    with warnings.catch_warnings(record=True) as told:
        for category in _OURS:
            warnings.simplefilter("always", category)
        yield
    ours = {warning.category: str(warning.message) for warning in reversed(told) if warning.category in _OURS}
    for category, message in ours.items():
        warn_user(message, category)
    for other in told:
        if other.category not in _OURS:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno, source=other.source)
