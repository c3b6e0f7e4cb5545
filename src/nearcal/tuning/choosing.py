"""Choosing where to look for neighbours, how many to ask and how to weigh them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from nearcal._arrays import FloatArray, IntArray, as_response, as_space, check_choice, check_count, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._sample_weights import common_weight, keep_rows
from nearcal.distributions import Distribution, require_distribution
from nearcal.distributions.base import overflow_is_infinite
from nearcal.guarantees import as_promise
from nearcal.recalibration import (
    CONTINUOUS_RULES,
    QUANTILE_RULES,
    SMOOTHINGS,
    AveragedRecalibrator,
    Fade,
    LocalRecalibrator,
    QuantileRule,
    Smoothing,
    Workers,
    calibration_scores,
)
from nearcal.recalibration.base import weighted_rows
from nearcal.recalibration.calibration_scores import CalibrationScores
from nearcal.recalibration.progress import Report
from nearcal.scores import crps
from nearcal.space import SCALINGS, CalibrationSpace, Scaling, ScalingName, is_constant, kept_relations
from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choice import RULES, Comparison, Rule, choose, fade_by_gain, widest
from nearcal.tuning.distilling import check_distilled, distil, scores_of, wants_student, with_student
from nearcal.tuning.evidence import Tuning, explain, tabulate
from nearcal.tuning.finals import Decision, can_play, decide, play
from nearcal.tuning.fitting import Fit, spaces_of
from nearcal.tuning.promising import promise_choice
from nearcal.tuning.racing import EFFORT_NAMES, Clock, Effort, EffortName, effort_of
from nearcal.tuning.row_order import folds_of, is_normal, order_of, unevenness
from nearcal.tuning.scoring import Places, Scorer
from nearcal.tuning.weighted_scoring import WeightedScorer

Auto = Literal["auto"]

USUAL: dict[str, Any] = {  # what "auto" means
    "k": (10, 20, 50, 100, 200, 500, 1000),
    "smoothing": ("biweight", "epanechnikov"),
    "scaling": ("standard", "whiten", "relevance"),
    "components": "auto",
    "linear": (False, True),
    "shrinkage": (False, True),
    "trend": (False, True),
}
_WIDE, _LEADING = 256, 50  # columns beyond which a space is reduced, and to how many components
_POINTS_A_COLUMN = 5  # with fewer, the narrowest of all directions that whitening stretches are chance
_UNIFORM_ENOUGH = 0.05  # p-value of PIT values below which a model is not taken for calibrated overall
_EVEN = 3 / 6  # of the unevenness of PIT values: three times what chance makes of it


@dataclass(frozen=True)
class Menu:
    """What is tried: every option as a list, nothing left open. The one place that knows what "auto" means: USUAL."""

    k: list[int]
    smoothing: list[Smoothing]
    scaling: list[ScalingName]
    components: list[int | Auto | None]
    linear: list[bool]
    shrinkage: list[bool]
    trend: list[bool]
    polish: bool
    fade: Fade | None
    quantile_rule: QuantileRule

    @classmethod
    def of(cls, n: int, **options: Any) -> "Menu":
        """Validate options, each "auto", one value or several, for n calibration points."""
        lists = {name: _several(USUAL[name] if _is_auto(options[name]) else options[name], name) for name in USUAL}
        known: dict[str, Any] = {
            "smoothing": SMOOTHINGS,
            "scaling": SCALINGS,
            "linear": (False, True),
            "shrinkage": (False, True),
            "trend": (False, True),
        }
        for name, choices in known.items():
            for value in lists[name]:
                check_choice(value, choices, name)
        for number in lists["components"]:
            if number is not None and number != "auto":
                check_count(number, "components")
        sizes = sorted({check_count(size, "k") for size in lists["k"]}, reverse=True)
        if not _is_auto(options["k"]) and sizes[-1] >= n:
            raise InvalidParameterError(
                f"k must be below the number of calibration points, {n}, to leave one out, got {sizes[-1]} at least"
            )
        lists["k"] = [size for size in sizes if size < n]
        rule: Any = "predictive" if _is_auto(options["quantile_rule"]) else options["quantile_rule"]
        check_choice(rule, QUANTILE_RULES, "quantile_rule")
        polish = rule in CONTINUOUS_RULES if _is_auto(options["polish"]) else options["polish"]
        if not isinstance(polish, bool):
            raise InvalidParameterError(f'polish must be True, False or "auto", got {polish!r}')
        if polish and rule not in CONTINUOUS_RULES:
            raise InvalidParameterError(
                f"polish=True needs a continuous quantile_rule, one of {CONTINUOUS_RULES}, got {rule!r}"
            )
        return cls(**lists, polish=polish, fade=_as_fade(options["fade"]), quantile_rule=rule)

    def searches(self, positions: Mapping[str, FloatArray]) -> list[tuple[str, Scaling]]:
        """Return the spaces to look for neighbours in, by name and scaling."""
        if not self.k:
            return []
        found = [
            (space, Scaling(scaling, kept))
            for space, table in positions.items()
            for scaling in self.scaling
            for kept in (_components(number, table.shape[1]) for number in self.components)
            if self._is_worth_trying(scaling, table, kept or table.shape[1])
        ]
        return list(dict.fromkeys(found))

    def _is_worth_trying(self, scaling: ScalingName, table: FloatArray, width: int) -> bool:
        """Tell whether a scaling can be learnt from a space, and is not another one under a different name."""
        if scaling not in ("whiten", "relevance"):
            return True
        if scaling == "whiten" and len(self.scaling) > 1 and len(table) < _POINTS_A_COLUMN * width:
            return False
        is_standard = table.shape[1] == 1 and "standard" in self.scaling
        return not is_standard and not is_constant(table).all()


def _components(number: int | Auto | None, width: int) -> int | None:
    """Return how many principal components of a space of some width are kept, None for all."""
    if number == "auto":
        return _LEADING if width > _WIDE else None
    return None if number is None or number >= width else number


def tune(
    dist_cal: Distribution,
    y_cal: Any,
    spaces: Any,
    *,
    k: Auto | int | Sequence[int] = "auto",
    smoothing: Auto | Smoothing | Sequence[Smoothing] = "auto",
    scaling: Auto | ScalingName | Sequence[ScalingName] = "auto",
    components: Auto | int | Sequence[int | None] | None = "auto",
    linear: Auto | bool | Sequence[bool] = "auto",
    shrinkage: Auto | bool | Sequence[bool] = "auto",
    trend: Auto | bool | Sequence[bool] = "auto",
    polish: Auto | bool = "auto",
    fade: Auto | bool | float = "auto",
    quantile_rule: Auto | QuantileRule = "auto",
    rule: Rule = "cautious",
    members: int = 3,
    groups: Any = None,
    time: Any = None,
    gap: Any = None,
    sample_weight: Any = None,
    guarantee: Any = None,
    distilled: Auto | bool = "auto",
    effort: EffortName | Effort = "default",
    seconds: float | None = None,
    workers: Workers | None = None,
) -> Tuning:
    """Choose how to recalibrate by the leave-one-out CRPS of the calibration set.

    Every calibration row is recalibrated by the others, under every candidate, and scored by its own response.
    Candidates are all combinations of the options below, and always also no recalibration and global recalibration, so
    that a good model is left alone. One whose score is too large for a number is never the choice.

    Parameters
    ----------
    dist_cal : Distribution
        Predictive distributions of the n calibration points, which the model was not trained on.
    y_cal : array_like of shape (n,) or (n, 1)
        What was observed.
    spaces : mapping of str to array_like of shape (n, d), or one array
        Where the points are, by the name of the space: inputs, layers of a network. One array is named "space".
    k : "auto", int or sequence of int
        Numbers of neighbours; "auto" is 10, 20, 50, 100, 200, 500 and 1000. Those above n - 1 are left out; of those
        given at least one must remain.
    smoothing : "auto", str or sequence of str
        As in :class:`LocalRecalibrator`; "auto" is biweight and epanechnikov.
    scaling : "auto", str or sequence of str
        As in :class:`LocalRecalibrator`; "auto" is standard, whiten and relevance. Among others, "whiten" is tried
        with at least five calibration points a column: with fewer, what it stretches most is chance.
    components : "auto", int, None or a sequence of them
        Numbers of principal components to keep, None for all, as are numbers not below a space's width. "auto" keeps
        all of a space of up to 256 columns, and the 50 widest of a wider one: distances in a thousand directions tell
        points apart badly, and cost the more.
    linear : "auto", bool or sequence of bool
        Whether there is a :class:`LocalLinear` correction; "auto" tries both, in the three best spaces.
    shrinkage : "auto", bool or sequence of bool
        Whether there is a :class:`Shrinkage`; "auto" tries both, for the two best local candidates.
    trend : "auto", bool or sequence of bool
        Whether there is a :class:`Trend`; "auto" tries both, in the three best spaces.
    polish : "auto" or bool
        Whether a local choice is followed by :class:`Polish`; "auto" does so where the quantile rule allows it. Unless
        there are ``groups`` alone, or ``time`` is False, it looks for a drift along the rows.
    fade : "auto", bool or float
        Whether rows unlike the calibration set keep their base distribution, by degrees, after a local choice
        (:class:`Fade`); a number is its ``false_alarm``. "auto" is True: a hundredth; or, with g the leave-one-out
        CRPS of the choice relative to that of no recalibration, (3g / 2)⁴ hundredths where g is below 2/3: the more
        recalibration brings, the more a row loses that fades without need. A global choice does not look where rows
        are: there nothing fades, but in :func:`nearcal.calibrate`, which looks at the inputs as well.
    quantile_rule : "auto" or {"step", "interpolated", "predictive", "conservative"}
        How quantiles are read from what is chosen; "auto" is "predictive": the choice is often of few neighbours, whose
        outermost values are no quantiles to trust.
    rule : {"cautious", "best", "one-standard-error", "two-standard-errors"}
        "cautious" scores a dozen finalists again, as they will be used, and takes the local one of the least CRPS +
        0.03 × 95% interval score, or an average of some (``members``) that does better. If e is the standard error of
        the gain g over no recalibration in that sum, 1.5 (e / g)² of every prediction, half of that of an average, is
        left to the model (:class:`Caution`), and as much of the tails by the gain of interval scores, half at most, or
        of the middle by the gain in CRPS; where the former is all, or global recalibration does better, the choice is
        that, with what is left of it by the rule of averages; or none, where that is all, or where it gains less than a
        five-hundredth. If PIT values are not uniform by the test below, 1 / 2W² is left at most, with W² the statistic
        of Cramér and von Mises, of mean 1/6 where they are. Given ``time``, only those local candidates may be
        finalists that ask at least as many neighbours as any within one standard error of the best.
        "best" takes the smallest mean CRPS. The others take,
        of all candidates whose paired difference from the best is within that many standard errors of the difference,
        or within a five-hundredth of the best's score, the simplest: no recalibration, unless a Kolmogorov-Smirnov test
        rejects at the 5% level that PIT values are uniform; else global, if it scores better than none; else the best.
        Two errors, since the best of a hundred candidates owes something to chance. Without a continuous
        ``quantile_rule`` "cautious" is "two-standard-errors".
    members : int
        How many finalists at most are averaged (:class:`AveragedRecalibrator`), by the rule "cautious": candidates that
        score alike err in different places, and an average of a few is better than the best of them nearly always. It
        costs as many searches; 1 takes one alone.
    groups : array_like of shape (n,), optional
        The group of each row: a person, a device, a place. New rows belong to groups not seen before, so rows of one
        group do not speak for each other while anything is learnt. Numbers or texts.
    time : array_like of shape (n,), True, False or None
        When each row was observed: numbers or dates. New rows come later, so only earlier rows speak for a row while
        anything is learnt. True says that rows are in order of time, one unit apart; False that their order means
        nothing. With None and no groups this is tested: see below.
    gap : number or timedelta, optional
        Rows that are no farther than this before another do not speak for it either: how far ahead predictions are
        made, or how long it takes until a response is known. In the units of ``time``, 0 by default.
    sample_weight : array_like of shape (n,), optional
        How much each point counts, by age, importance or covariate shift, as in :meth:`LocalRecalibrator.fit`: as a
        neighbour, and in the mean of all scores. ``k`` is then a weight, in units of the average point.
    guarantee : "marginal", "pac", "cross", Marginal, PAC or Cross, optional
        A promise of coverage in finite samples: rows are set aside before anything is learnt or chosen, or everything
        is chosen once a fold, and the ``recalibrator`` is a :class:`GuaranteedRecalibrator` or a
        :class:`CrossRecalibrator`. Groups that the promise is made to are labels or flags of the rows here.
    distilled : "auto" or bool
        Whether a local choice is compiled (:func:`nearcal.compile`), and the student takes its place where it is better
        in the sum of the rule above, on rows that neither it nor its teacher had seen, by more than two standard errors
        of the difference; it cannot be updated. "auto" tries one with ``effort="thorough"``, where the choice is one
        neighbourhood without a trend or a line: it takes longer than all the rest, and brings nothing elsewhere.
    effort : {"default", "quick", "thorough"}
        How soon candidates that do badly leave, how many rows decide, and in how many spaces corrections are tried: see
        below. "quick" is for a first look, "thorough" scores every candidate on every row.
    seconds : float, optional
        Begin nothing more after so many seconds. Spaces are then tried one after another, in the order of what they
        cost, and ``reason`` says which were not. What is chosen depends on how fast the machine is; without
        ``seconds`` it does not.
    workers : Workers, optional
        Threads, memory and progress. Beside the memory given, one number a candidate and row is held.

    Returns
    -------
    Tuning
        The choice, the reason, a table of all candidates, and the fitted ``recalibrator``.

    Notes
    -----
    Neighbours are searched once in every scaled space, at the largest k; smaller neighbourhoods are parts of that one.
    The score of a row is that of the step rule, to rounding (to 1e-9 where quantiles have no formula) the same as
    after fitting on the other n - 1 rows, but for some liberties:

    - standard deviations, principal components and the variances behind shrinkage are learnt once, from all n rows or
      2,000 of them;
    - relevance, which looks at scores, is learnt five times, each time without a fifth of the rows, which are scored in
      the space so learnt;
    - in global recalibration of more than 2,001 rows whose distributions differ in more than location and scale, 2,000
      scores at evenly spaced ranks stand for all;
    - of the corrected scores of more than 50 neighbours, 50 quantiles stand for all where quantiles have no formula.

    Candidates race. Rows are drawn once, by the rank of their score, so that the draw does not depend on their order.
    All candidates are scored on 250 rows, those left on 1,000, those left then on 3,000, or on all there are, and these
    decide. Whoever is worse than the best by more than three standard errors of the difference, row by row, leaves.
    Candidates with corrections enter when those without are done, and
    must keep up with the best of them. With ``effort="quick"`` heats are of 100 and 300 rows, 1,000 decide, and
    corrections are tried in the best space instead of the three best; with "thorough" nobody leaves, and all rows
    decide. The table tells on how many ``rows`` each candidate was scored.

    Groups are whole in ten folds of about equally many rows, and each row is recalibrated by those of the other folds.
    In order of time, rows are cut into ten stretches, and each row is recalibrated by those before its stretch, less
    the gap; the first stretches, with less than two fifths of all rows before them, are not scored. With both, there
    are five folds of groups, and earlier rows of the other four speak. Scaling and relevance are learnt from those who
    may speak. Of s rows that may, out of n, k s / n are a row's neighbours, rounded up, so that neighbourhoods are
    about as wide as those of new rows will be among all; they are smaller, and the k chosen is rather too large than
    too small. Standard errors are those of sums over groups, or over thirty stretches of time, and the
    Kolmogorov-Smirnov test counts as many rows as these leave independent.

    Without ``groups`` and ``time``, rows that follow each other are tested for being alike: Spearman's correlation of
    their scores z_i and z_{i+1}. If it is above 0.2, and above what one in a thousand calibration sets of independent
    rows has by chance, a :class:`DependenceWarning` says so, and rows are kept together in ten stretches in the order
    given, each recalibrated by those that are at least half a stretch away. ``time=False`` leaves that out.

    Left-out scores of a local choice, and scores before a global one, are also tested for a drift along the rows, of
    their level or their spread: in order of time, or as they come where nothing is said. Where there is one, the latest
    quarter of the rows alone says how predictions are off overall (``Polish(drift=True)``, which has the details); a
    global choice is fitted to it.

    With weights a row is left out with all of its weight, and k keeps its meaning. The mean of scores is weighted, with
    the standard error of a ratio of sums; the Kolmogorov-Smirnov test takes the effective size for the number of rows.

    Candidates with corrections take a sort for each row, so few are scored: of those with a local-linear one, the three
    best on 1,000 rows at most are scored on more.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-1, 1, size=(400, 2))
    >>> y = rng.normal(x[:, 0], np.exp(2 * x[:, 1]))
    >>> tuning = nc.tune(nc.Normal(x[:, 0], 1.0), y, {"both": x, "useless": x[:, :1]})
    >>> tuning.chosen.space
    'both'
    >>> new = tuning.recalibrator.recalibrate(nc.Normal([0.0, 0.0], 1.0), [[0.0, -0.9], [0.0, 0.9]])
    >>> new.std().round(1)
    array([0.2, 5.8])
    """
    if guarantee is not None:
        options = {name: value for name, value in locals().items() if name != "guarantee"}
        return promise_choice(tune, as_promise(guarantee), **options)
    n = len(require_distribution(dist_cal, "dist_cal"))
    dist, y_cal, _, weights, kept = weighted_rows(dist_cal, y_cal, None, sample_weight)
    z = calibration_scores(dist, y_cal)
    y = as_response(y_cal, len(z), "y_cal")
    if len(y) < 2:
        raise InvalidInputError(f"y_cal must have at least 2 responses, to leave one out, got {len(y)}")
    positions = _as_spaces(spaces, len(y), kept, n)
    check_choice(rule, RULES, "rule")
    check_count(members, "members")
    if not isinstance(effort, Effort):  # which several models ask for
        check_choice(effort, EFFORT_NAMES, "effort")
    check_distilled(distilled)
    if seconds is not None:
        check_number(seconds, "seconds", least=0.0, strict=True)
    clock, workers = Clock(seconds), Workers.of(workers)
    folds = folds_of(z, *kept_relations(groups, time, kept, n), gap)
    menu = Menu.of(
        len(y), k=k, smoothing=smoothing, scaling=scaling, components=components, linear=linear, shrinkage=shrinkage,
        trend=trend, polish=polish, fade=fade, quantile_rule=quantile_rule,
    )  # fmt: skip
    calibration = CalibrationScores(z, weights, common_weight(sample_weight))
    places = {
        (space, how): CalibrationSpace(positions[space], z, how, menu.k[0] + 1, folds=folds, weights=weights)
        for space, how in menu.searches(positions)
    }
    kind = Scorer if weights is None else WeightedScorer
    scorer = kind(dist, y, calibration, places, workers.silent(), folds=folds, effort=effort_of(effort), clock=clock)
    total = scorer.work(menu.k, True in menu.linear, True in menu.shrinkage, True in menu.trend)
    # threads of BLAS wait for one another actively: beside ours, or whatever else runs, they take many times as long
    with threadpool_limits(1, user_api="blas"), workers.reporting("choosing how to recalibrate", total) as report:
        scorer.report = report
        if seconds is None:
            _make_views(places, scorer.cost, workers, report)
        with overflow_is_infinite():
            scored = _score(scorer, menu)
        units, shares = None if folds is None else folds.units, None if weights is None else weights.relative
        is_calibrated = is_normal(z, units, shares, _UNIFORM_ENOUGH)
        rows = scorer.race.rows
        candidates, scores = list(scored), np.array(list(scored.values()))[:, rows]
        _require_finite_candidate(scores, rows if kept is None else kept[rows])
        comparison = Comparison.of(
            scores, None if units is None else units[rows], None if shares is None else shares[rows]
        )
        place, within = choose(candidates, comparison, rule, is_calibrated)
        finals, decision = None, Decision({place: 1.0})
        is_ahead = rule == "cautious" and folds is not None and folds.by_time is not None
        if can_play(menu.quantile_rule) and not clock.is_up:
            with overflow_is_infinite():
                finals = play(
                    scorer, candidates, comparison.mean,
                    widest(candidates, comparison) if is_ahead else range(len(candidates)),
                    menu.polish, menu.quantile_rule, members if rule == "cautious" else 1,
                )  # fmt: skip
            if rule == "cautious":
                most = 1.0 if is_calibrated else min(_EVEN / unevenness(z, units, shares), 1.0)
                decision = decide(finals, most, units)
        if _is_auto(fade) or fade is True:
            menu = replace(menu, fade=fade_by_gain(candidates, comparison, decision.place))
        by_time = order_of(folds, groups, time, len(y))
        chosen = {candidates[place]: weight for place, weight in decision.weights.items()}
        fit = Fit(calibration, places, menu.quantile_rule, menu.fade, menu.polish, by_time, workers.silent())
        looked_at = spaces_of(chosen, positions)
        recalibrator = fit(chosen, decision.caution, looked_at)
        student, is_wanted = None, wants_student(distilled, effort, chosen)
        if is_wanted and isinstance(recalibrator, LocalRecalibrator | AveragedRecalibrator):
            if clock.is_up:
                scorer.not_tried.append("a student")
            else:
                report(0, "learning a student of the choice")
                student = distil(recalibrator, dist, folds)
        report(total)  # candidates that there were not
    how = [] if folds is None else [folds.words]
    how += [f"no time was left to try {', '.join(scorer.not_tried)}"] if scorer.not_tried else []
    found = Tuning(
        tabulate(candidates, comparison, decision.weights, finals),
        candidates[decision.place],
        explain(candidates, comparison, decision, within, "; ".join(how), finals if rule == "cautious" else None),
        recalibrator,
        menu.fade,
        tuple(looked_at),
        tuple(looked_at.values()),
    )
    return found if student is None else with_student(found, student, scores_of(decision, comparison, finals))


def _make_views(places: Places, cost: Callable[[Any], int], workers: Workers, report: Report) -> None:
    """Make all spaces ready, several at a time, the dearest first: none is left to one thread alone at the end."""

    def make(place: tuple[str, Scaling]) -> None:
        report(0, f"learning {place[1].name!r} of space {place[0]!r}")
        places[place].views  # noqa: B018, it is kept

    with ThreadPoolExecutor(workers.count()) as pool:
        list(pool.map(make, sorted(places, key=cost, reverse=True)))


def _score(scorer: Scorer, menu: Menu) -> dict[Candidate, FloatArray]:
    """Return the leave-one-out CRPS of every row under every candidate."""
    everyone, plain = scorer.score_plain(menu.k or [1], menu.smoothing)
    local = plain if False in menu.linear else {}
    linear = scorer.score_linear(plain, menu.k, local) if True in menu.linear else {}
    local = {**local, **linear}
    rivals = local if False in menu.trend else {}
    trend = scorer.score_trend({**plain, **linear}, menu.k, menu.linear, rivals) if True in menu.trend else {}
    local = {**rivals, **trend}
    rivals = local if False in menu.shrinkage else {}
    shrunk = scorer.score_shrunk(local, rivals) if True in menu.shrinkage else {}
    local = {**rivals, **shrunk}
    return {Candidate("none"): crps(scorer.dist, scorer.y), Candidate("global"): everyone, **local}


def _require_finite_candidate(scores: FloatArray, rows: IntArray) -> None:
    """Refuse to choose where every candidate has an infinite score at some of the rows, whose numbers are given."""
    infinite = np.isinf(scores)[~np.isnan(scores).any(axis=1)]  # of those that were scored to the end
    fewest = infinite[np.argmin(infinite.sum(axis=1))]
    if fewest.any():
        raise InvalidInputError(
            "dist_cal and y_cal must have a finite leave-one-out CRPS under some candidate, got too large a number at "
            f"{int(fewest.sum())} of {len(rows)} rows under the best, the first at index {int(rows[fewest][0])}; drop "
            "rows whose predictions are too wide, and those whose responses are impossibly far from their predictions"
        )


def _as_spaces(spaces: Any, n: int, rows: IntArray | None, given: int) -> dict[str, FloatArray]:
    named = spaces if isinstance(spaces, Mapping) else {"space": spaces}
    if not named:
        raise InvalidInputError('spaces must name at least one space, such as {"input": X}, got an empty mapping')
    kept = {name: keep_rows(space, rows, given, f"spaces[{name!r}]") for name, space in named.items()}
    return {str(name): as_space(space, f"spaces[{name!r}]", n) for name, space in kept.items()}


def _several(value: Any, name: str) -> list[Any]:
    """Return one option or a sequence of them as a list without repetitions."""
    values = [value] if value is None or isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
    if not values:
        raise InvalidParameterError(f"{name} must hold at least one option, got none")
    return list(dict.fromkeys(values))


def _as_fade(fade: Any) -> Fade | None:
    """Return how rows fade, given whether they do, or the rate of false alarms."""
    if _is_auto(fade) or isinstance(fade, bool):
        return None if fade is False else Fade()
    if not isinstance(fade, int | float):
        raise InvalidParameterError(f'fade must be True, False, "auto" or a rate of false alarms, got {fade!r}')
    chosen = Fade(float(fade))
    chosen.check()
    return chosen


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
