"""Export to ONNX: the recalibration alone, or with the model it belongs to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._atomic import replacing
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._version import __version__
from nearcal.compiled.bases import BaseFamily, GammaBase, LogNormalBase, NormalBase, family_of
from nearcal.compiled.program import Wanted, recalibration
from nearcal.compiled.tracing import OPSET, Graph
from nearcal.distributions import Distribution, as_levels, check_coverage
from nearcal.guarantees.bent_scores import PromisedReading
from nearcal.recalibration.reliability import check_false_alarm
from nearcal.space import Ranges

if TYPE_CHECKING:
    from nearcal.compiled.recalibrator import CompiledRecalibrator

_NAMED: Mapping[str, BaseFamily] = {"normal": NormalBase(), "lognormal": LogNormalBase(), "gamma": GammaBase()}


def as_wanted(levels: Any, coverage: Any, false_alarm: Any, promised: PromisedReading | None = None) -> Wanted:
    """Validate what is asked of rows."""
    check_coverage(coverage)
    check_false_alarm(false_alarm)
    known = np.atleast_1d(as_levels(levels))
    if known.ndim > 1 or not len(known):
        raise InvalidInputError(f"levels must be a scalar or have shape (q,), got {known.shape}")
    if not ((known > 0) & (known < 1)).all():
        raise InvalidInputError(f"levels must lie strictly between 0 and 1, got {known.min():g} to {known.max():g}")
    return Wanted(tuple(map(float, known)), float(coverage), float(false_alarm), promised)


def as_family(base: Any) -> BaseFamily:
    """Return the family that is meant: a name, or some distributions of it."""
    if isinstance(base, Distribution):
        return family_of(base)
    if isinstance(base, str) and base in _NAMED:
        return _NAMED[base]
    raise InvalidParameterError(
        f"base must be one of {', '.join(map(repr, _NAMED))}, or distributions such as will be recalibrated, "
        f"for example nc.Quantiles(levels, values), got {base!r}"
    )


def recalibration_model(
    compiled: "CompiledRecalibrator", family: BaseFamily, wanted: Wanted, look: Ranges | None = None
) -> Any:
    """Return the ONNX model of the recalibration alone: parameters and positions in, statistics out."""
    graph = Graph("to_onnx")
    columns = dict(family.inputs)
    if compiled.width is not None:
        columns["position"] = compiled.width
    if look is not None:
        columns["look"] = look.width
    answers = recalibration(graph, compiled, family, {name: graph.input(name) for name in columns}, wanted, look)
    outputs = {name: (value, len(wanted.levels) if name == "quantiles" else 1) for name, value in answers.items()}
    shapes = {name: (width,) for name, width in columns.items()}
    return graph.model(shapes, outputs, metadata_of(compiled, family, wanted))


def metadata_of(compiled: "CompiledRecalibrator", family: BaseFamily, wanted: Wanted) -> dict[str, str]:
    """Return what a file says of itself."""
    return {
        "nearcal": __version__,
        "recalibrator": compiled.source_,
        "form": compiled.loss_.form,
        "loss": f"{compiled.loss_.loss:.6f}",
        "n_cal": str(compiled.n_cal_),
        "base": repr(family),
        "levels": json.dumps(wanted.levels),
        "coverage": str(wanted.coverage),
        "false_alarm": str(wanted.false_alarm),
        "guarantee": "none" if wanted.promised is None else wanted.promised.words,
        "opset": str(OPSET),
    }


def write(model: Any, path: Any) -> Path:
    """Check a model and put it in a file, whole or not at all."""
    from nearcal._optional import import_extra

    onnx = import_extra("onnx", "onnx", "to_onnx")
    onnx.checker.check_model(model, full_check=True)
    target = Path(path)
    with replacing(target) as file:
        file.write(model.SerializeToString())
    return target
