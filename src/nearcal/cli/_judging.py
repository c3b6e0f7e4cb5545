"""What ``evaluate`` and ``report`` share: predictions before and after, of rows whose responses are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nearcal._arrays import FloatArray
from nearcal.cli._console import remark
from nearcal.cli._mapping import match_columns
from nearcal.cli._mistakes import Mistake
from nearcal.cli._model import load_model, parts_of_space
from nearcal.cli._numbers import must_be_positive, read_all
from nearcal.cli._tables import is_numeric, open_table
from nearcal.distributions import Distribution
from nearcal.tuning import Tuning


class Judged(NamedTuple):
    """Distributions by name, responses and their name, positions if there are any, features by name, and the rest."""

    dists: dict[str, Distribution]
    y: FloatArray
    response: str
    space: FloatArray | None
    features: dict[str, Any]
    left_out: int
    tuning: Tuning | None


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
    spaces = parts_of_space(calibrated, columns) or columns.layers()[:1]
    needed = columns.columns(*spaces)
    file.require(needed, asked_by=f"{model} takes")
    own = tuple(dict.fromkeys(name for space in spaces for name in columns.spaces[space]))
    shown = match_columns(file, features, "--features") if features else own
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
        np.column_stack([table[name] for name in own]) if own else None,
        {name: table[name] if name in table else others[name] for name in shown},
        findings.incomplete,
        calibrated.tuning,
    )
