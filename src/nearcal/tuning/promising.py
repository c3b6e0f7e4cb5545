"""The choice with a promise: made without the rows that the promise is made by."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nearcal._arrays import FloatArray, IntArray, as_float_array, as_space
from nearcal.distributions import Distribution, require_distribution
from nearcal.guarantees import PAC, Aside, Cross, CrossRecalibrator, GuaranteedRecalibrator, Marginal
from nearcal.guarantees.cross_conformal import Fold, check_cross, learn_folds, score_fold
from nearcal.space import as_groups
from nearcal.tuning.evidence import Tuning


def promise_choice(
    choose: Callable[..., Tuning],
    promise: Marginal | PAC | Cross,
    dist_cal: Distribution,
    y_cal: Any,
    spaces: Any,
    **options: Any,
) -> Tuning:
    """Choose by ``choose``, which is :func:`nearcal.tune`, and wrap what is chosen."""
    n = len(require_distribution(dist_cal, "dist_cal"))
    y = as_float_array(y_cal, "y_cal").reshape(-1)
    named = spaces if isinstance(spaces, Mapping) else {"space": spaces}
    positions = {str(name): as_space(space, f"spaces[{name!r}]", n) for name, space in named.items()}
    if isinstance(promise, Cross):
        return _by_folds(choose, promise, dist_cal, y, positions, options)
    given = {name: options[name] for name in ("groups", "time", "sample_weight")}
    aside = Aside.of(promise, n, **given, labels=promise.groups)
    rest, held = aside.rest, aside.held
    if options["groups"] is not None:
        options["groups"] = as_groups(options["groups"], n)[rest]
    if options["sample_weight"] is not None:
        options["sample_weight"] = as_float_array(options["sample_weight"], "sample_weight").reshape(-1)[rest]
    found = choose(dist_cal[rest], y[rest], _rows(positions, rest), **options)
    inner, at = found.recalibrator, found.positions(_rows(positions, held))
    recalibrator = GuaranteedRecalibrator(inner, promise).fit_held(inner, dist_cal[held], y[held], at, aside)
    return replace(found, recalibrator=recalibrator)


def _by_folds(
    choose: Callable[..., Tuning],
    promise: Cross,
    dist: Distribution,
    y: FloatArray,
    positions: Mapping[str, FloatArray],
    options: Mapping[str, Any],
) -> Tuning:
    """Choose without each fold; new rows are positions in all spaces chosen, side by side."""
    check_cross(*(options[name] for name in ("groups", "time", "sample_weight")))
    choices: list[Tuning] = []

    def learn(rest: IntArray, part: IntArray) -> Fold:
        found = choose(dist[rest], y[rest], _rows(positions, rest), **options)
        choices.append(found)
        scores = score_fold(found.recalibrator, dist[part], y[part], found.positions(_rows(positions, part)))
        return Fold(found.recalibrator, found.spaces, scores)

    folds = learn_folds(promise, len(y), learn)
    widths = {name: table.shape[1] for name, table in positions.items()}
    recalibrator, used = CrossRecalibrator(None, promise).fit_folds(folds, widths)
    kinds = ", ".join(f"{kind} in {count}" for kind, count in Counter(one.chosen.kind for one in choices).items())
    reason = f"Chose once a fold of {len(folds)}: {kinds}; without the first: {choices[0].reason}"
    chosen = replace(choices[0].chosen, space=" + ".join(used) or None)
    return replace(
        choices[0], chosen=chosen, reason=reason, recalibrator=recalibrator, spaces=tuple(used),
        widths=tuple(widths[name] for name in used),
    )  # fmt: skip


def _rows(positions: Mapping[str, FloatArray], rows: IntArray) -> dict[str, FloatArray]:
    return {name: table[rows] for name, table in positions.items()}
