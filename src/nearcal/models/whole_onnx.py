"""A calibrated model as one ONNX file: the model, by its framework's own converter, and the recalibration behind it."""

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._optional import import_extra
from nearcal.compiled.bases import BaseFamily, LogNormalBase, NormalBase, QuantileBase
from nearcal.compiled.export import metadata_of
from nearcal.compiled.program import Wanted, recalibration
from nearcal.compiled.tracing import OPSET, Graph, Traced
from nearcal.models.adapters import ModelAdapter
from nearcal.models.adapters.heads import Head, NormalHead, PointHead, QuantileHead
from nearcal.models.calibrated_model import CalibratedModel, layer_parts

if TYPE_CHECKING:
    from nearcal.compiled.recalibrator import CompiledRecalibrator

_OTHERWISE = (
    "; export the recalibration alone, model.recalibrator.to_onnx(path, base), and feed it with what the model says"
)
_ML_OPSET = 3


def whole_model(compiled: "CompiledRecalibrator", model: CalibratedModel, X: Any, wanted: Wanted) -> Any:
    """Return the ONNX model from inputs ``X``, in single precision, to statistics."""
    if X is None:
        raise InvalidInputError("X must be some inputs of the model, one row or more, to trace it by, got None")
    rows = np.asarray(X, dtype=np.float32)
    if rows.ndim < 2:
        raise InvalidInputError(f"X must have one row an input, shape (n, ...), got {rows.shape}")
    layers = [] if model.layer is None else layer_parts(model.model, model.layer)
    look = None if model.look is None else model.look.layer
    asked = list(dict.fromkeys([*layers, *([look] if look else [])]))
    head, graph = _head_of(model.model), Graph("to_onnx")
    x = graph.input("X")
    output, spaces = _convert(graph, model.model, x, rows, [name for name in asked if name not in ("input", "output")])
    spaces |= {"input": graph.double(graph.node("Flatten", x, axis=1)), "output": output}
    family, inputs = _parameters(graph, head, output)
    if layers:
        inputs["position"] = graph.concat([spaces[name] for name in layers])
    if look:
        inputs["look"] = spaces[look]
    answers = recalibration(graph, compiled, family, inputs, wanted, None if model.look is None else model.look.ranges)
    outputs = {name: (value, len(wanted.levels) if name == "quantiles" else 1) for name, value in answers.items()}
    metadata = {**metadata_of(compiled, family, wanted), "model": repr(model.model), "layer": str(model.layer)}
    return graph.model({"X": rows.shape[1:]}, outputs, metadata, single=True)


def _head_of(adapter: ModelAdapter) -> Head:
    """Return what the output of a model means."""
    if len(getattr(adapter, "networks", "1")) > 1 or getattr(adapter, "mc_dropout", None) is not None:
        raise InvalidParameterError(
            f"a model to be exported must be one network without random passes, got {adapter!r}{_OTHERWISE}"
        )
    heads: tuple[Head, ...] = getattr(adapter, "heads", ())
    if len(heads) != 1 or not isinstance(heads[0], PointHead | NormalHead | QuantileHead):
        raise InvalidParameterError(
            f"a model to be exported must be of PyTorch, scikit-learn or LightGBM, with the head 'point', 'normal' or "
            f"'quantiles', got {adapter!r}{_OTHERWISE}"
        )
    return heads[0]


def _parameters(graph: Graph, head: Head, output: Traced) -> tuple[BaseFamily, dict[str, Traced]]:
    """Return the family of predictions, and its parameters as values of the graph."""
    if isinstance(head, QuantileHead):
        order = np.argsort(head.levels)
        columns = [graph.columns(output, int(place), int(place) + 1) for place in order]
        values = graph.concat(columns)
        levels = tuple(float(head.levels[place]) for place in order)
        return QuantileBase(levels), {"values": values if head.response == "identity" else graph.exp(values)}
    loc = graph.columns(output, 0, 1)
    if isinstance(head, PointHead):
        scale = loc * graph.constant(0.0) + graph.constant(head.scale)
    else:
        scale = graph.exp(graph.columns(output, 1, 2))
    if head.response == "log":  # type: ignore[attr-defined]
        return LogNormalBase(), {"mu": loc, "sigma": scale}
    return NormalBase(), {"loc": loc, "scale": scale}


# ---- converters, by framework ---------------------------------------------------------------------------------------


def _convert(
    graph: Graph, adapter: ModelAdapter, x: Traced, rows: Any, layers: Sequence[str]
) -> tuple[Traced, dict[str, Traced]]:
    """Take a model into the graph; return its output and its inner layers, in double precision, (n, d) each."""
    kind = type(adapter).__name__
    if kind == "TorchModel":
        return _convert_torch(graph, adapter, x, rows, layers)
    if layers:
        raise InvalidParameterError(
            f"a model of {kind} can be exported where its layers are 'input' and 'output', got "
            f'{", ".join(map(repr, layers))}; calibrate with layer="input", or{_OTHERWISE[1:]}'
        )
    given = adapter.model  # type: ignore[attr-defined]
    models = list(given.values()) if hasattr(given, "values") else given
    models = list(models) if isinstance(models, list | tuple) else [models]
    if kind not in ("SklearnModel", "LightGBMModel"):
        raise InvalidParameterError(f"a model to be exported must be of PyTorch, scikit-learn or LightGBM, got {kind}")
    converted = [_of_sklearn(one, rows) if kind == "SklearnModel" else _of_lightgbm(one, rows) for one in models]
    outputs = []
    for place, model in enumerate(converted):
        name = model.graph.input[0].name
        first = graph.absorb(model, f"m{place}_", {name: x})[0]
        outputs.append(graph.double(graph.node("Reshape", first, graph.numbers([-1, 1], np.int64))))
    return (outputs[0] if len(outputs) == 1 else graph.concat(outputs)), {}


def _of_sklearn(model: Any, rows: Any) -> Any:
    skl2onnx = import_extra("skl2onnx", "onnx-models", "to_onnx of a scikit-learn model")
    return skl2onnx.to_onnx(model, rows[:1], target_opset={"": OPSET, "ai.onnx.ml": _ML_OPSET})


def _of_lightgbm(model: Any, rows: Any) -> Any:
    onnxmltools = import_extra("onnxmltools", "onnx-models", "to_onnx of a LightGBM model")
    types = import_extra("onnxmltools.convert.common.data_types", "onnx-models", "to_onnx of a LightGBM model")
    kind = types.FloatTensorType([None, rows.shape[1]])
    return onnxmltools.convert_lightgbm(model, initial_types=[("X", kind)], target_opset=15, zipmap=False)


def _convert_torch(
    graph: Graph, adapter: Any, x: Traced, rows: Any, layers: Sequence[str]
) -> tuple[Traced, dict[str, Traced]]:
    """Trace a module by torch's own exporter, with hooks on the layers that are asked for."""
    torch: Any = import_extra("torch", "torch", "to_onnx of a PyTorch module")
    network = adapter.networks[0]

    class Watched(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs: Any) -> tuple[Any, ...]:
            seen: dict[str, Any] = {}
            named = dict(network.named_modules(remove_duplicate=False))
            hooks = [
                named[name].register_forward_hook(lambda module, given, out, name=name: seen.update({name: out}))
                for name in layers
            ]
            try:
                output = network(inputs)
            finally:
                for hook in hooks:
                    hook.remove()
            flat = [output, *(seen[name] for name in layers)]
            return tuple(one.reshape(one.shape[0], -1).to(torch.float64) for one in flat)

    names = ["output", *(f"layer{place}" for place in range(len(layers)))]
    example = torch.as_tensor(rows[:2] if len(rows) > 1 else np.repeat(rows, 2, axis=0))
    file, training = io.BytesIO(), network.training
    network.eval()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the older exporter, which needs no further package
            torch.onnx.export(
                Watched().eval(), (example,), file, dynamo=False, opset_version=OPSET, input_names=["x"],
                output_names=names, dynamic_axes={name: {0: "batch"} for name in ["x", *names]},
            )  # fmt: skip
    finally:
        network.train(training)
    values = graph.absorb(graph.onnx.load_model_from_string(file.getvalue()), "net_", {"x": x})
    return values[0], dict(zip(layers, values[1:], strict=True))
