"""``nearcal compile``, a saved model as a small function; ``nearcal warm-up``, what numba compiles on first use."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from nearcal.cli._console import Mistake, check_share, check_word, require_place, tell
from nearcal.cli._model import load_artefact
from nearcal.compiled import TOLERANCE, compile, loss_of
from nearcal.distributions import Distribution, Quantiles, Samples
from nearcal.models import CalibratedModel, Recalibration, calibrate
from nearcal.models.adapters import ColumnsModel
from nearcal.persistence import save

EXAMPLES = {
    "compile": """
nearcal compile model.nearcal -o model.onnx
nearcal compile model.nearcal -o model.onnx --levels 0.1,0.9 --coverage 0.8
nearcal compile model.nearcal -o small.nearcal --tolerance 0.05
""",
    "warm-up": """
nearcal warm-up
""",
}
_NAMED = ("normal", "lognormal", "gamma")
_SUFFIXES = (".onnx", ".nearcal")


def compile_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File written by nearcal fit, or by nearcal.save.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write: .onnx for any language, .nearcal for nearcal.")
    ],
    tolerance: Annotated[
        float, typer.Option(help="The largest loss of CRPS, as a share of that of exact recalibration.")
    ] = TOLERANCE,
    levels: Annotated[str, typer.Option(help="Levels of the quantiles in an ONNX file.")] = "0.05,0.25,0.5,0.75,0.95",
    coverage: Annotated[float, typer.Option(help="Coverage of the interval in an ONNX file.")] = 0.95,
    false_alarm: Annotated[
        float, typer.Option(help="Share of rows like the calibration set that may be flagged in an ONNX file.")
    ] = 0.01,
    base: Annotated[
        str | None, typer.Option(help="For a file without its model: what it predicts, normal, lognormal or gamma.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compile a saved model to a small function that needs no calibration row, and tell what that loses.

    The loss is measured by cross-fitting. Above the tolerance nothing is written.
    """
    if output.suffix not in _SUFFIXES:
        raise Mistake(f"--output must end in {' or '.join(_SUFFIXES)}, got {output}", "say so by its suffix")
    if not 0 <= tolerance < np.inf:
        raise Mistake(f"--tolerance must be at least 0, got {tolerance:g}", "2% is 0.02")
    numbers = _levels(levels)
    check_share(coverage, "--coverage")
    check_share(false_alarm, "--false-alarm")
    artefact = load_artefact(model)
    require_place(output, model=model)
    content = artefact.content
    if not hasattr(content, "recalibrate") and not isinstance(content, CalibratedModel | Recalibration):
        raise Mistake(f"{model} holds a {type(content).__name__}, no model", "compile what nearcal fit has written")
    if output.suffix == ".onnx":
        _require_onnx_base(content, base, model)
    start = time.perf_counter()
    compiled = compile(content, tolerance=tolerance)
    recalibrator = compiled.recalibrator if hasattr(compiled, "recalibrator") else compiled
    if output.suffix == ".nearcal":
        save(compiled, output)
    elif not hasattr(recalibrator, "to_onnx"):
        raise Mistake(
            f"{type(recalibrator).__name__} has no ONNX form: several models are combined", "write a .nearcal file"
        )
    else:
        family = _base_of(content, base)
        recalibrator.to_onnx(output, family, levels=numbers, coverage=coverage, false_alarm=false_alarm)
    loss, seconds = loss_of(compiled if recalibrator is compiled else recalibrator), time.perf_counter() - start
    facts = {
        "file": str(output),
        "bytes": output.stat().st_size,
        "loss": loss.loss,
        "form": loss.form,
        "measures": list(loss.to_table()),
        "seconds": seconds,
    }
    tell(as_json, facts, f"{loss}\nwrote {output}, {facts['bytes']:,} bytes, without any calibration row")


def _levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        raise Mistake(f"--levels must be numbers with commas between them, got {text!r}", "0.05,0.5,0.95") from None
    for level in levels:
        check_share(level, "--levels")
    return levels


def _require_onnx_base(content: Any, base: str | None, path: Path) -> None:
    """Refuse what has no ONNX form before hours of work, not after."""
    if base is not None:
        check_word(base, _NAMED, "--base")
    if _is_columns(content):
        if base is not None:
            raise Mistake(f"--base is known from {path}, {content.model.family}", "leave it out")
        _base_of(content, None)
    elif base is None:
        raise Mistake(f"{path} does not hold the model itself", f"say what it predicts: --base {' or '.join(_NAMED)}")


def _is_columns(content: Any) -> bool:
    return isinstance(content, CalibratedModel) and isinstance(content.model, ColumnsModel)


def _base_of(content: Any, base: str | None) -> str | Distribution:
    """Return the family of what is recalibrated."""
    if not _is_columns(content):
        assert base is not None
        return base
    family, parameters = content.model.family, content.model.parameters
    if family == "quantiles":
        levels = [float(level) for level in parameters]
        return Quantiles(levels, np.arange(1.0, len(levels) + 1)[np.newaxis])
    if family == "samples":
        return Samples(np.arange(1.0, len(parameters["draws"]) + 1)[np.newaxis])
    if family not in _NAMED:
        raise Mistake(
            f"predictions of the family {family!r} have no ONNX form", "write a .nearcal file, or fit their quantiles"
        )
    return family


def warm_up(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Compile what the first calibration and the first prediction would compile, and keep it in the cache of numba.

    For the image of a container: what runs there later begins at once.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = rng.normal(X[:, 0] ** 2, 1 + np.abs(X[:, 1]))
    model = calibrate(lambda X: X[:, 0], X, y)
    model.predict(X[:50]).summary(p=[0.5], y=y[:50])
    model.reliability(X[:50])
    seconds = time.perf_counter() - start
    tell(as_json, {"seconds": seconds}, f"warmed up in {seconds:.1f} s")
