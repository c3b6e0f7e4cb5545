"""``nearcal inspect``: what a saved file holds, and how it came about."""

from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from nearcal.cli._console import Mistake, tell
from nearcal.cli._model import load_artefact
from nearcal.compiled import loss_of
from nearcal.models import CalibratedModel, Recalibration
from nearcal.models.adapters import ColumnsModel
from nearcal.persistence import Artefact
from nearcal.recalibration import Fade, Radius
from nearcal.recalibration.members import all_within
from nearcal.space import Scaling
from nearcal.tuning import Combination, Tuning

EXAMPLES = """
nearcal inspect model.nearcal
nearcal inspect model.nearcal --json
"""


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by nearcal fit, or by nearcal.save.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Tell what a saved model is: its method and settings, its columns, and the evidence they were chosen by."""
    artefact = load_artefact(model)
    facts = _facts(model, artefact)
    tuning = artefact.tuning
    width = max(len(name) for name in facts)
    lines = [
        _line(name, value, width)
        for name, value in facts.items()
        if value is not None and not (name == "reason" and tuning)  # which ends with the reason
    ]
    evidence: Any = None
    table: Any = None
    if isinstance(tuning, Tuning | Combination):
        evidence, table = list(tuning.evidence), list(tuning.table)
        lines.append(f"\nEvidence: leave-one-out CRPS of the best of every kind\n{tuning.evidence}")
    elif tuning is not None:
        table = str(tuning)
    if tuning is not None:
        lines.append(f"\n{tuning}")
    loss = loss_of(getattr(artefact.content, "recalibrator", artefact.content))
    if loss is not None:
        lines.append(f"\n{loss}")
    measures = None if loss is None else {"loss": loss.loss, "form": loss.form, "measures": list(loss.to_table())}
    tell(as_json, facts | {"evidence": evidence, "tuning": table, "compiled": measures}, "\n".join(lines))


def _facts(path: Path, artefact: Artefact) -> dict[str, Any]:
    content = artefact.content
    is_model = isinstance(content, CalibratedModel | Recalibration)
    recalibrator: Any = content.recalibrator if is_model else content
    if not hasattr(recalibrator, "n_cal_"):
        raise Mistake(f"{path} holds a {type(content).__name__}, no model", "look at it with nearcal.load in Python")
    facts: dict[str, Any] = {"file": str(path), "bytes": path.stat().st_size, "version": artefact.version}
    if is_model:
        facts |= _facts_of_model(content.model) | {"space": content.layer, "reason": content.reason}
    return facts | {
        "class": type(recalibrator).__name__,
        "calibration_points": recalibrator.n_cal_,
        "dimensions": getattr(recalibrator, "n_features_in_", None),
        "settings": _settings(recalibrator),
        "guarantee": _guarantee(recalibrator),
        "fade": _fade(content if is_model else recalibrator),
    }


def _guarantee(recalibrator: Any) -> str | None:
    promised = getattr(recalibrator, "guarantee_", None)
    return None if promised is None else str(promised)


def _fade(content: Any) -> str | None:
    """Say which rows keep their base distribution."""
    fade = content.fade if hasattr(content, "fade") else None
    corrections = (one for member in all_within(content) for one in getattr(member, "corrections", ()))
    given = [one for one in corrections if isinstance(one, Fade)]
    fade = given[0] if given else fade
    if fade is None:
        return None
    return (
        f"rows far from calibration points ({fade.false_alarm:.2g} of those like them) or beyond the range of their "
        f"columns fade to {'the law of all rows' if fade.to == 'global' else 'their base distribution'}"
    )


def _settings(recalibrator: Any) -> dict[str, Any]:
    """Return the settings by name, those that stand together in an object one by one; workers are no setting."""
    settings: dict[str, Any] = {}
    if hasattr(recalibrator, "inner_"):
        settings["inner"] = type(recalibrator.inner_).__name__
        recalibrator = recalibrator.inner_
    for name, value in recalibrator.get_params().items():
        if name == "scaling":
            scaling = Scaling.of(value)
            settings |= {"scaling": scaling.name, "components": scaling.components}
        elif name == "radius" and value is not None:
            radius = Radius.of(value)
            settings |= {"radius": radius.distance, "min_neighbors": radius.min_neighbors, "thin": radius.thin}
        elif name == "corrections":
            settings[name] = [type(correction).__name__ for correction in value]
        elif name == "members":
            weights = recalibrator.weights_
            settings |= {"weights": weights.round(3).tolist(), name: [type(one).__name__ for one in value]}
        elif name not in ("workers", "columns", "weights"):
            settings[name] = value
    return settings


def _facts_of_model(model: Any) -> dict[str, Any]:
    if not isinstance(model, ColumnsModel):
        return {"model": str(model)}
    return {
        "family": model.family,
        "parameters": dict(model.parameters),
        "spaces": dict(model.spaces),
        "response": model.response,
    }


def _line(name: str, value: Any, width: int) -> str:
    """Return a fact as a line; settings, of which there are many, and what is promised as several."""
    if name == "guarantee":
        return f"{name.ljust(width)}  " + str(value).replace("\n", "\n" + " " * (width + 2))
    if name != "settings":
        return f"{name.ljust(width)}  {_in_words(value)}"
    text = _in_words(value) or "none"
    return "\n".join(wrap(text, 100, initial_indent=f"{name.ljust(width)}  ", subsequent_indent=" " * (width + 2)))


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_in_words(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(str, value)) + "]" if value else "none"
    return str(value)
