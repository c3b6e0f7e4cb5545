"""The model of columns: from options to what columns mean, and from the file that ``nearcal fit`` has written."""

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from nearcal.cli._console import Mistake, check_share, check_word, did_you_mean, require_file
from nearcal.cli._tables import FORMATS, TableFile
from nearcal.models import CalibratedModel
from nearcal.models.adapters import ColumnsModel
from nearcal.models.adapters.columns import FAMILIES, Source, parameter_names, positive_parameters
from nearcal.persistence import Artefact, read

PARAMETRIC = tuple(name for name in FAMILIES if name not in ("quantiles", "samples"))
PARAMETERS = frozenset(name for family in PARAMETRIC for way in FAMILIES[family] for name in parameter_names(way))
# what families and their parameters are called elsewhere
_OTHER_FAMILIES = {"gaussian": "normal", "norm": "normal", "t": "student_t", "student": "student_t"}
_OTHER_PARAMETERS = {"mean": "loc", "mu": "loc", "std": "scale", "sd": "scale", "sigma": "scale", "nu": "df"}
_OTHER_PARAMETERS |= {"alpha": "shape", "beta": "rate", "k": "shape", "theta": "scale"}
DEFAULT_SPACE = "space"
_TRAILING_NUMBER = re.compile(r"\d+(\.\d+)?$")


def map_columns(
    file: TableFile,
    *,
    family: str | None,
    params: Sequence[str],
    quantiles: Sequence[str],
    samples: Sequence[str],
    space: Sequence[str],
    response: str,
) -> ColumnsModel:
    """Return the model that the options of ``nearcal fit`` describe."""
    given = {"--family": family is not None, "--quantile": bool(quantiles), "--samples": bool(samples)}
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) != 1:
        raise Mistake(
            f"give one of --family, --quantile and --samples, got {' and '.join(chosen) or 'none'}",
            "for example --family normal --param loc=mu --param scale=sigma",
        )
    if params and family is None:
        raise Mistake(f"--param goes with --family, got {chosen[0]}", f"leave out --param {params[0]}")
    file.require([response])
    if family is not None:
        if other := _OTHER_FAMILIES.get(family.lower()):
            raise Mistake(f"--family does not know {family!r}", f"did you mean {other!r}?")
        family = check_word(family.replace("-", "_"), PARAMETRIC, "--family")
        parameters: dict[str, Source] = _parameters(file, family, params)
    elif quantiles:
        family, parameters = "quantiles", _quantiles(file, quantiles)
    else:
        family, parameters = "samples", {"draws": match_columns(file, samples, "--samples")}
    spaces = _spaces(file, space)
    for name, columns in spaces.items():
        if response in columns:
            where = "--space" if name == DEFAULT_SPACE else f"--space {name}="
            raise Mistake(
                f"{where} takes in the response {response!r}, which is not known for new rows",
                "name the columns of the space without it",
            )
    model = ColumnsModel(family, parameters, spaces, response)
    if response in model.columns():
        raise Mistake(f"--y {response!r} is also a column of the prediction", "name the column of what was observed")
    return model


def match_columns(file: TableFile, patterns: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the columns that names and globs stand for, in the order of the file for each, none twice."""
    names: list[str] = []
    for pattern in patterns:
        for part in [pattern] if pattern in file.schema.names else pattern.split(","):
            names += _match(file, part.strip(), option)
    return tuple(dict.fromkeys(names))


def _match(file: TableFile, pattern: str, option: str) -> list[str]:
    names = file.schema.names
    if not pattern:
        raise Mistake(f"{option} names an empty column", "write names without spaces between them: a,b")
    if pattern in names or not any(mark in pattern for mark in "*?["):
        file.require([pattern])
        return [pattern]
    matching = [name for name in names if fnmatchcase(name, pattern)]
    if not matching:
        raise Mistake(
            f"{option} {pattern!r} matches no column of {file.path}",
            did_you_mean(pattern.strip("*?"), names, "there are"),
        )
    file.require(matching)
    return matching


def _parameters(file: TableFile, family: str, params: Sequence[str]) -> dict[str, Source]:
    ways = [parameter_names(way) for way in FAMILIES[family]]
    known = list(dict.fromkeys(name for way in ways for name in way))
    parameters: dict[str, Source] = {}
    for param in params:
        name, equals, source = (part.strip() for part in param.partition("="))
        if not (name and equals and source):
            raise Mistake(f"--param must be NAME=COLUMN or NAME=NUMBER, got {param!r}", f"for example {known[0]}=mu")
        if name not in known:
            other = _OTHER_PARAMETERS.get(name)
            remedy = f"did you mean {other!r}?" if other in known else did_you_mean(name, known)
            raise Mistake(f"family {family!r} has no parameter {name!r}", remedy)
        if name in parameters:
            raise Mistake(f"--param {name} is given twice, {parameters[name]} and {source}", "give it once")
        if source in file.schema.names:
            file.require([source])
            parameters[name] = source
        else:
            parameters[name] = _constant(file, param, source, name in positive_parameters(family))
    if set(parameters) not in [set(way) for way in ways]:
        nearest = max(ways, key=lambda way: len(set(way) & set(parameters)))
        missing = [name for name in nearest if name not in parameters]
        takes = " or ".join(", ".join(way) for way in ways)
        remedy = f"add --param {missing[0]}=COLUMN" if missing else f"give only {', '.join(nearest)}"
        raise Mistake(f"family {family!r} takes {takes}, got {', '.join(parameters) or 'no --param'}", remedy)
    if not any(isinstance(source, str) for source in parameters.values()):
        raise Mistake("all parameters are numbers, so that all predictions are the same", "name at least one column")
    return parameters


def _constant(file: TableFile, param: str, source: str, must_be_positive: bool) -> float:
    try:
        value = float(source)
    except ValueError:
        parts = param.split(",")
        if len(parts) > 1 and all("=" in part for part in parts):
            remedy = f"write {' '.join(f'--param {part.strip()}' for part in parts)}"
        else:
            remedy = did_you_mean(source, file.schema.names, "there are")
        raise Mistake(f"--param {param} names no column of {file.path} and no number", remedy) from None
    if not math.isfinite(value) or (must_be_positive and value <= 0):
        kind = "positive" if must_be_positive else "finite"
        raise Mistake(f"--param {param} must be a {kind} number", "give one, or name a column")
    return value


def _quantiles(file: TableFile, quantiles: Sequence[str]) -> dict[str, Source]:
    levels: dict[float, str] = {}
    for item in quantiles:
        text, equals, column = item.partition("=")
        if equals and item not in file.schema.names:
            file.require([column])
            pairs = [(_number(text, f"--quantile {item}"), column)]
        else:
            pairs = [(_level_in_name(name), name) for name in match_columns(file, [item], "--quantile")]
        for level, name in pairs:
            check_share(level, f"the level of --quantile {item!r}")
            if levels.setdefault(level, name) != name:
                raise Mistake(f"the quantile {level:g} is given twice, {levels[level]!r} and {name!r}", "give it once")
    if len(levels) < 2:
        raise Mistake("one quantile is no distribution", "give at least two, such as --quantile 0.1=q10")
    order = sorted(levels)
    return {"levels": tuple(order), "values": tuple(levels[level] for level in order)}


def _level_in_name(name: str) -> float:
    """Return the level at the end of a name: q0.05, q05 and q5 are 5%, q97.5 is 97.5%."""
    trailing = _TRAILING_NUMBER.search(name)
    text = trailing.group() if trailing else ""
    is_plain = 0 < len(text) <= 2 or "." in text
    if not is_plain:
        raise Mistake(f"no level can be read from the name of column {name!r}", f"give it, --quantile 0.5={name}")
    value = float(text)
    return value if value < 1 and "." in text else value / 100


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Mistake(f"{what} must be LEVEL=COLUMN, and {text!r} is no number", "for example 0.05=q05") from None


def _spaces(file: TableFile, space: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each space; those without a name are one space together."""
    patterns: dict[str, list[str]] = {}
    for item in space:
        name, equals, pattern = item.partition("=")
        is_named = bool(equals) and item not in file.schema.names
        patterns.setdefault(name if is_named else DEFAULT_SPACE, []).append(pattern if is_named else item)
    return {name: match_columns(file, parts, "--space") for name, parts in patterns.items()}


def must_be_positive(model: ColumnsModel, response: str | None = None) -> dict[str, str]:
    """Return the columns that must be positive, with what they are."""
    columns = {name: f"the parameter {parameter!r}" for name, parameter in model.positive_columns().items()}
    if response is not None and model.family in ("gamma", "lognormal"):
        columns[response] = f"the response of family {model.family!r}"
    return columns


def load_artefact(path: Path, remedy: str = "give a file that nearcal fit wrote") -> Artefact:
    """Load any file that ``nearcal.save`` wrote."""
    require_file(path, "nearcal fit writes one")
    if path.suffix.lower() in FORMATS:
        raise Mistake(f"{path} is a table, not a model", remedy)
    return read(path)


def load_model(path: Path) -> tuple[CalibratedModel, ColumnsModel]:
    """Load what ``nearcal fit`` wrote: the calibrated model, and its columns."""
    content = load_artefact(path, "the model comes first, then the table").content
    if isinstance(content, CalibratedModel) and isinstance(content.model, ColumnsModel):
        return content, content.model
    raise Mistake(
        f"{path} holds a {type(content).__name__} saved from Python, which does not say what columns it takes",
        "make a model with nearcal fit, or use nearcal.load in Python",
    )
