"""``nearcal fit``: learn from the predictions and responses of a calibration set."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import nearcal as nc
from nearcal._arrays import FloatArray
from nearcal.cli._console import Mistake, SkipMissing, check_word, progress_bar, require_place, tell
from nearcal.cli._folders import Engine, EngineName, Scheduler, WorkersOption
from nearcal.cli._guarantee import (
    Delta,
    Guarantee,
    GuaranteeSeed,
    PromiseGroups,
    Share,
    promise_of,
)
from nearcal.cli._large import Large
from nearcal.cli._model import PARAMETRIC, map_columns, must_be_positive
from nearcal.cli._relations import Groups, InOrder, Relations, Time
from nearcal.cli._rows import read_all
from nearcal.cli._tables import FORMATS, open_table
from nearcal.distributed.batches import Columns
from nearcal.distributed.calibrating import SAMPLE
from nearcal.models.promised_groups import promised_columns
from nearcal.recalibration import LEAST_NEIGHBORS, SMOOTHINGS
from nearcal.space import SCALINGS
from nearcal.tuning.racing import EFFORT_NAMES

_OF_NEIGHBOURS = ("local", "knn")
_OF_ALL_ROWS = ("global", "isotonic", "conformal", "variance-scaling", "none")
METHODS = ("auto", *_OF_NEIGHBOURS, *_OF_ALL_ROWS)

EXAMPLES = r"""
nearcal fit calibration.parquet -o model.nearcal --y price \
    --family normal --param loc=mu --param scale=sigma --space 'h*'
nearcal fit calibration.csv -o model.nearcal --y price \
    --quantile 'q*' --space carat,depth
nearcal fit calibration.arrow -o model.nearcal --y price \
    --samples 'draw_*' --space 'x*' --k 500 --linear
nearcal fit calibration.csv -o model.nearcal --y price \
    --family gamma --param shape=2.5 --param mean=mu --method isotonic
nearcal fit calibration.parquet -o model.nearcal --y price \
    --quantile 'q*' --space 'x*' --guarantee marginal
nearcal fit hours.parquet -o model.nearcal --y demand \
    --quantile 'q*' --space 'x*' --time observed_at --gap 24h
nearcal fit calibration/ -o model.nearcal --y price --shards shards/ \
    --family normal --param loc=mu --param scale=sigma --space 'h*'
"""


def fit(
    calibration: Annotated[
        Path, typer.Argument(metavar="CALIBRATION", help="Table of a calibration set: .parquet, .csv, .arrow …")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to save the model.")],
    y: Annotated[str, typer.Option("--y", help="Column of what was observed.")],
    family: Annotated[str | None, typer.Option(help=f"What is predicted: {', '.join(PARAMETRIC)}.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A parameter of the family: a column, or a number for all rows."),
    ] = None,
    quantile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=COLUMN", help="A predicted quantile, or a glob of columns named by their level: q05."
        ),
    ] = None,
    samples: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Columns of predicted draws.")] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Columns in which near means similar; NAME=GLOB for several to choose among, alone or joined.",
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of how much each row counts; 0 leaves a row out.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help=f"{', '.join(METHODS)}; without it auto, or local if --k or --radius is given.")
    ] = None,
    k: Annotated[str, typer.Option(help="Number of neighbours; auto chooses by leave-one-out.")] = "auto",
    radius: Annotated[float | None, typer.Option(help="All neighbours within this distance, instead of --k.")] = None,
    smoothing: Annotated[
        str, typer.Option(help=f"{', '.join(SMOOTHINGS)}; auto chooses, or with --k is epanechnikov.")
    ] = "auto",
    scaling: Annotated[
        str, typer.Option(help=f"{', '.join(SCALINGS)}; auto chooses, or with --k is standard.")
    ] = "auto",
    components: Annotated[
        int | None, typer.Option(min=1, help="Keep this many principal components of the space, for wide ones.")
    ] = None,
    linear: Annotated[
        bool | None,
        typer.Option(
            "--linear/--no-linear",
            help="Regress neighbours' errors on position, to where the row is; chosen if not said, or with --k off.",
            show_default=False,
        ),
    ] = None,
    trend: Annotated[
        bool | None,
        typer.Option(
            "--trend/--no-trend",
            help="Move neighbours' errors along a smooth function of position; chosen if not said, or with --k off.",
            show_default=False,
        ),
    ] = None,
    shrinkage: Annotated[
        bool | None,
        typer.Option(
            "--shrinkage/--no-shrinkage",
            help="Draw neighbourhoods that tell little towards all rows; chosen if not said, or with --k off.",
            show_default=False,
        ),
    ] = None,
    polish: Annotated[
        bool | None,
        typer.Option(
            "--polish/--no-polish",
            help="Correct all rows alike, so that coverage is right overall; on if not said, but for knn.",
            show_default=False,
        ),
    ] = None,
    groups: Groups = None,
    time: Time = None,
    gap: Annotated[
        str | None,
        typer.Option(help="Rows no longer than this before another do not speak for it: 48, or of dates 2d, 12h, 30m."),
    ] = None,
    in_order: InOrder = None,
    fade: Annotated[
        bool | None,
        typer.Option(
            "--fade/--no-fade",
            help="Let rows unlike the calibration set keep their prediction; on if not said, or with --k off.",
            show_default=False,
        ),
    ] = None,
    guarantee: Guarantee = None,
    guarantee_share: Share = None,
    guarantee_delta: Delta = None,
    guarantee_groups: PromiseGroups = None,
    guarantee_seed: GuaranteeSeed = 0,
    effort: Annotated[
        str, typer.Option(help=f"How much is tried before the choice: {', '.join(EFFORT_NAMES)}.")
    ] = "default",
    members: Annotated[
        int | None,
        typer.Option(
            help="How many candidates are averaged at most; 3 if not said, with --shards 1.", show_default=False
        ),
    ] = None,
    distilled: Annotated[
        bool | None,
        typer.Option(
            "--distilled/--no-distilled",
            help="Compile the choice, and take it where clearly better; if not said, at times with --effort thorough.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Begin to try nothing more after so many seconds; the choice then depends on the machine."),
    ] = None,
    skip_missing: SkipMissing = False,
    shards: Annotated[
        Path | None,
        typer.Option(help="Folder to build for a calibration set larger than memory; the model needs it."),
    ] = None,
    sample: Annotated[
        int, typer.Option(help="With --shards, rows drawn at random on which settings are chosen.")
    ] = SAMPLE,
    engine: EngineName = "local",
    workers: WorkersOption = None,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn how wrong predictions are, and where, from a table of predictions and what was observed.

    The table needs rows that the model was not trained on. Everything that is not given is chosen by the leave-one-out
    CRPS of these rows; predictions that need no recalibration are left alone.

    A folder of Parquet files is one table. With --shards it need not fit in memory.
    """
    runner = Engine.of(engine, workers, scheduler, calibration)
    require_place(output, table=calibration)
    if output.suffix.lower() in FORMATS:
        raise Mistake(
            f"--output {output} has the suffix of a table", f"did you mean '{output.with_suffix('.nearcal')}'?"
        )
    details = {"smoothing": smoothing, "scaling": scaling, "components": components, "linear": linear}
    details |= {"trend": trend, "shrinkage": shrinkage, "polish": polish, "fade": fade}
    settings = _settings(
        method, k, radius, {name: "auto" if value is None else value for name, value in details.items()}
    )
    settings["choice"] = _choice_settings(settings["method"], effort, seconds, members, distilled)
    promise = promise_of(guarantee, guarantee_share, guarantee_delta, guarantee_groups, guarantee_seed)
    file = open_table(calibration)
    model = map_columns(
        file,
        family=family,
        params=param or [],
        quantiles=quantile or [],
        samples=samples or [],
        space=space or [],
        response=y,
    )
    if settings["method"] in ("auto", *_OF_NEIGHBOURS) and not model.spaces:
        raise Mistake(
            "--space is missing: the columns in which near means similar",
            "for example --space 'x*', or --method isotonic, which asks for none",
        )
    if settings["method"] in _OF_NEIGHBOURS and len(model.spaces) > 1:
        raise Mistake(
            f"--method {settings['method']} looks in one space, got {', '.join(model.spaces)}",
            "leave out --k, --radius and --method to have the space chosen",
        )
    related = Relations.of(file, groups, time, in_order)
    if settings["method"] in _OF_ALL_ROWS and (groups or time) and promise is None:
        raise Mistake(
            f"--method {settings['method']} has no use for {'--groups' if groups else '--time'}",
            "it learns nothing from rows among each other: leave it out",
        )
    if shards is not None or runner.name == "dask":
        idle: dict[str, Any] = {"--weight": weight, "--groups": groups, "--time": time, "--gap": gap}
        idle |= {"--guarantee": guarantee, "--members": members}
        idle |= {"--distilled": distilled}
        how_large = Large(shards, sample, runner, skip_missing, settings["method"], idle)
        how_large.require_options()
        with progress_bar("calibrating", None) as report:
            large, left_out = how_large.calibrate(file, model, y, {**_asked(model, settings, report), "time": in_order})
        _save(large, output, large.recalibrator.n_cal_, left_out, as_json)  # type: ignore[attr-defined]
        return
    length = related.gap(gap)
    weights = [] if weight is None else [weight]
    file.require(weights, "--weight names")
    file.require(promised_columns(promise), "--guarantee-groups names")
    spaces = [name for names in model.spaces.values() for name in names]
    needed = dict.fromkeys([y, *weights, *model.columns(), *spaces, *related.numbers, *promised_columns(promise)])
    table, others, left_out = read_all(
        file, list(needed), positive=must_be_positive(model, y), skip_missing=skip_missing, texts=related.texts
    )
    how: dict[str, Any] = {**related.values(table, others), "gap": length, "guarantee": promise}
    if weight is not None:
        how["sample_weight"] = _as_weights(table[weight], weight, calibration)
    rows = int((how["sample_weight"] > 0).sum()) if weight is not None else len(table[y])
    if settings["k"] is not None and settings["k"] > rows:
        raise Mistake(
            f"--k must be at most the number of rows{' of positive weight' * (weight is not None)}, {rows}, got "
            f"{settings['k']}",
            "take fewer, or --method global for all of them",
        )
    activity = "choosing how to recalibrate" if settings["method"] == "auto" else "fitting"
    with progress_bar(activity, None) as report:
        calibrated = _calibrate(model, table, table[y], settings, how, report)
    _save(calibrated, output, rows, left_out, as_json)


def _save(calibrated: nc.CalibratedModel, output: Path, rows: int, left_out: int, as_json: bool) -> None:
    """Save the model, and say what it is."""
    nc.save(calibrated, output)
    facts = {
        "model": str(output),
        "rows": rows,
        "rows_left_out": left_out,
        "recalibrator": repr(calibrated.recalibrator),
        "space": calibrated.layer,
        "reason": calibrated.reason,
        "guarantee": None if calibrated.guarantee is None else str(calibrated.guarantee),
        "version": nc.__version__,
    }
    promised = "" if calibrated.guarantee is None else f"{calibrated.guarantee}\n"
    learnt = f"{facts['recalibrator']}, learnt from {rows} rows\n{calibrated.reason}\n{promised}"
    tell(as_json, facts, f"{learnt}Saved {output}")


def _settings(method: str | None, k: str, radius: float | None, details: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, checked for what they are and for whether they go together."""
    for name, known in (("smoothing", SMOOTHINGS), ("scaling", SCALINGS)):
        check_word(details[name], ("auto", *known), f"--{name}")
    number = None if k == "auto" else _as_count(k)
    if number is not None and radius is not None:
        raise Mistake("--k and --radius are both given", "give one of them")
    if radius is not None and not 0 < radius < float("inf"):
        raise Mistake(f"--radius must be positive, got {radius:g}", "give a distance in the scaled space")
    is_given = number is not None or radius is not None
    chosen = check_word(method or ("local" if is_given else "auto"), METHODS, "--method")
    if chosen in _OF_NEIGHBOURS and not is_given:
        raise Mistake(f"--method {chosen} needs --k or --radius", "leave out --method to have it chosen")
    if chosen == "auto" and is_given:
        raise Mistake("--method auto chooses k itself", "leave out --method, or --k and --radius")
    if chosen in _OF_ALL_ROWS:
        idle = [
            name for name, value in {"k": number, "radius": radius, **details}.items() if value not in (None, "auto")
        ]
        if idle:
            option = f"--no-{idle[0]}" if details.get(idle[0]) is False else f"--{idle[0]}"
            raise Mistake(f"--method {chosen} has no use for {option}", "leave it out, or take --method local")
    if number is not None and details["linear"] is True and number < LEAST_NEIGHBORS:
        raise Mistake(
            f"--linear needs --k {LEAST_NEIGHBORS} at least, got {number}", "take more neighbours, or --no-linear"
        )
    return {"method": chosen, "k": number, "radius": radius, **details}


def _choice_settings(
    method: str, effort: str, seconds: float | None, members: int | None, distilled: bool | None
) -> dict[str, Any]:
    """Return how much time the choice takes, how many it may average, and whether it is distilled, if there is one."""
    check_word(effort, EFFORT_NAMES, "--effort")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise Mistake(f"--seconds must be positive, got {seconds:g}", "for example --seconds 30")
    if members is not None and members < 1:
        raise Mistake(f"--members must be at least 1, got {members}", "1 takes the best candidate alone")
    given = {"effort": effort != "default", "seconds": seconds is not None, "members": members is not None}
    given["distilled" if distilled is not False else "no-distilled"] = distilled is not None
    if method != "auto" and any(given.values()):
        name = next(name for name, is_given in given.items() if is_given)
        raise Mistake(f"--method {method} has no use for --{name}", "nothing is chosen: leave it out")
    options = {"members": members, "distilled": distilled}
    return {"effort": effort, "seconds": seconds} | {key: value for key, value in options.items() if value is not None}


def _as_count(k: str) -> int:
    try:
        number = int(k)
    except ValueError:
        number = 0
    if number < 1:
        raise Mistake(f"--k must be a whole number above 0 or auto, got {k!r}", "for example --k 500")
    return number


def _as_weights(values: FloatArray, name: str, path: Path) -> FloatArray:
    """Return the weights of rows, refusing what are none."""
    negative = values < 0
    if negative.any():
        first = int(np.argmax(negative))
        raise Mistake(
            f"column {name!r} of {path} is the weight of rows and must not be negative: {int(negative.sum())} of "
            f"{len(values)} rows are, the first is {values[first]:g}",
            "give rows that shall not count the weight 0",
        )
    if not values.any():
        raise Mistake(f"column {name!r} of {path} gives all rows the weight 0", "leave out --weight to count all alike")
    return values


def _calibrate(
    model: Any, table: Columns, y: Any, settings: dict[str, Any], how: dict[str, Any], report: Any
) -> nc.CalibratedModel:
    """Tune, or fit the recalibrator asked for; ``how`` holds what is known of the rows: groups, times, weights."""
    if settings["method"] not in _OF_ALL_ROWS:
        return nc.calibrate(model, table, y, **_asked(model, settings, report), **how)
    rule: Any = {"quantile_rule": "predictive"}  # as the choice does
    of_all_rows: Any = {
        "global": nc.GlobalRecalibrator(**rule),
        "isotonic": nc.IsotonicRecalibrator(),
        "conformal": nc.ConformalRecalibrator(),
        "variance-scaling": nc.VarianceScaling(),
        "none": nc.IdentityRecalibrator(),
    }[settings["method"]]
    if how["guarantee"] is not None:
        return nc.calibrate(model, table, y, recalibrator=of_all_rows, **how)
    fitted = of_all_rows.fit(model.distribution(table), y, None, sample_weight=how.get("sample_weight"))
    return nc.CalibratedModel(model, fitted, None, "The method was given.")


def _asked(model: Any, settings: dict[str, Any], report: Any) -> dict[str, Any]:
    """Return the arguments of ``nearcal.calibrate``: what to choose among, or the recalibrator that was asked for."""
    method, k, radius = (settings[name] for name in ("method", "k", "radius"))
    options = {name: value for name, value in settings.items() if name not in ("method", "k", "radius", "choice")}
    if method == "auto":
        return {"tuning": options | settings["choice"], "workers": nc.Workers(progress=report)}
    usual = {
        "smoothing": "epanechnikov", "scaling": "standard", "components": None, "trend": False, "linear": False,
        "shrinkage": False, "polish": method == "local", "fade": False,
    }  # fmt: skip
    options = {name: usual[name] if value == "auto" else value for name, value in options.items()}
    fade = nc.Fade(to="global" if method == "knn" else "base")  # which has no prediction to keep
    corrections: dict[str, Any] = {
        "trend": nc.Trend(), "linear": nc.LocalLinear(), "shrinkage": nc.Shrinkage(), "polish": nc.Polish(),
        "fade": fade,
    }  # fmt: skip
    scaling, components = options["scaling"], options["components"]
    local = nc.KNNRegressor if method == "knn" else nc.LocalRecalibrator
    recalibrator: Any = local(
        k,
        radius,
        options["smoothing"],
        scaling=scaling if components is None else nc.Scaling(scaling, components),
        corrections=tuple(correction for name, correction in corrections.items() if options[name]),
        quantile_rule="predictive",  # as the choice does
    )
    return {"layer": model.layers()[0], "recalibrator": recalibrator}
