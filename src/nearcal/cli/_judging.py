"""What ``evaluate`` and ``report`` share: predictions before and after, of rows whose responses are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nearcal._arrays import FloatArray
from nearcal.cli._console import remark
from nearcal.cli._mapping import match_columns
from nearcal.cli._mistakes import Mistake
from nearcal.cli._model import load_model
from nearcal.cli._numbers import must_be_positive, read_all
from nearcal.cli._tables import is_numeric, open_table
from nearcal.distributions import Distribution


class Judged(NamedTuple):
    """Distributions by name, responses and their name, positions if there are any, and features by name."""

    dists: dict[str, Distribution]
    y: FloatArray
    response: str
    space: FloatArray | None
    features: dict[str, Any]
    left_out: int


def judge(
    model: Path, test: Path, response: str | None, skip_missing: bool, features: Sequence[str] | None = None
) -> Judged:
    """Read a table of new rows with responses, and predict them; features default to the columns of the space."""
    calibrated, columns = load_model(model)
    file = open_table(test)
    y = response or columns.response
    if y is None:
        raise Mistake(f"{model} does not say which column holds the responses", "name it by --y")
    file.require([y], asked_by="should hold the responses")
    # a model that recalibrates all rows alike still names a space, in which regions can be told apart
    layer = calibrated.layer or next(iter(columns.layers()), None)
    needed = columns.columns(layer)
    file.require(needed, asked_by=f"{model} takes")
    shown = match_columns(file, features, "--features") if features else (columns.spaces[layer] if layer else ())
    numeric = [name for name in shown if is_numeric(file.schema.field(name).type)]
    texts = [name for name in shown if name not in numeric]
    names = list(dict.fromkeys([y, *needed, *numeric]))
    table, others, findings = read_all(
        file, names, positive=must_be_positive(columns), skip_missing=skip_missing, texts=texts
    )
    if findings.incomplete:
        remark(f"left out {findings.incomplete} of {findings.rows} rows with missing values")
    return Judged(
        {"base": calibrated.base(table), "recalibrated": calibrated.predict(table)},
        table[y],
        y,
        columns.represent(table, layer) if layer else None,
        {name: table[name] if name in table else others[name] for name in shown},
        findings.incomplete,
    )
