"""Programs traced to ONNX: values that note what is done to them, standard operators only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcal._optional import import_extra

OPSET, IR_VERSION = 18, 8


class Traced:
    """A value of a graph to be; operators note a node each."""

    def __init__(self, graph: "Graph", name: str, *, is_scalar: bool = False) -> None:
        self.graph, self.name, self.is_scalar = graph, name, is_scalar

    def __add__(self, other: "Traced") -> "Traced":
        return self.graph.node("Add", self, other)

    def __sub__(self, other: "Traced") -> "Traced":
        return self.graph.node("Sub", self, other)

    def __mul__(self, other: "Traced") -> "Traced":
        return self.graph.node("Mul", self, other)

    def __truediv__(self, other: "Traced") -> "Traced":
        return self.graph.node("Div", self, other)

    def __matmul__(self, other: "Traced") -> "Traced":
        return self.graph.node("MatMul", self, other)

    def __gt__(self, other: "Traced") -> "Traced":
        return self.graph.node("Greater", self, other)

    def __neg__(self) -> "Traced":
        return self.graph.node("Neg", self)


class Graph:
    """Nodes and constants in the making; the operations of :mod:`nearcal.compiled.program`.

    Parameters
    ----------
    purpose : str
        What the package onnx is needed for, if it is missing.
    """

    def __init__(self, purpose: str) -> None:
        self.onnx = import_extra("onnx", "onnx", purpose)
        import_extra("onnx.compose", "onnx", purpose)
        self.nodes: list[Any] = []
        self.constants: dict[tuple[bytes, str, tuple[int, ...]], tuple[str, Any]] = {}
        self.absorbed: list[Any] = []  # constants of models that were taken over
        self.domains: dict[str, int] = {}

    def node(self, operator: str, *inputs: Traced, **attributes: Any) -> Traced:
        """Note a node, and return its output."""
        name = f"v{len(self.nodes)}"
        names = [one.name for one in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [name], **attributes))
        return Traced(self, name)

    def numbers(self, values: Any, dtype: Any) -> Traced:
        """Return a constant, once for equal ones."""
        array = np.ascontiguousarray(values, dtype=dtype)
        array = array.reshape(np.shape(values))
        key = array.tobytes(), str(array.dtype), array.shape
        if key not in self.constants:
            name = f"c{len(self.constants)}"
            self.constants[key] = name, self.onnx.numpy_helper.from_array(array, name)
        return Traced(self, self.constants[key][0], is_scalar=array.ndim == 0)

    # ---- operations --------------------------------------------------------------------------------------------------

    def constant(self, values: Any, single: bool = False) -> Traced:
        """See :class:`Operations`, here and below."""
        return self.numbers(values, np.float32 if single else np.float64)

    def single(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Cast", x, to=self.onnx.TensorProto.FLOAT)

    def double(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Cast", x, to=self.onnx.TensorProto.DOUBLE)

    def clip(self, x: Traced, low: Traced, high: Traced) -> Traced:  # noqa: D102
        if low.is_scalar and high.is_scalar:  # faster, and of scalars alone
            return self.node("Clip", x, low, high)
        return self.node("Min", self.node("Max", x, low), high)

    def where(self, condition: Traced, x: Traced, y: Traced) -> Traced:  # noqa: D102
        return self.node("Where", condition, x, y)

    def exp(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Exp", x)

    def log(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Log", x)

    def sqrt(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Sqrt", x)

    def sign(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Sign", x)

    def concat(self, parts: Sequence[Traced]) -> Traced:  # noqa: D102
        return self.node("Concat", *parts, axis=1)

    def expand(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Unsqueeze", x, self.numbers([-1], np.int64))

    def squeeze(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("Squeeze", x, self.numbers([-1], np.int64))

    def total(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("ReduceSum", x, self.numbers([-1], np.int64), keepdims=1)

    def largest(self, x: Traced) -> Traced:  # noqa: D102
        return self.node("ReduceMax", x, self.numbers([-1], np.int64), keepdims=1)

    def columns(self, x: Traced, start: int, stop: int) -> Traced:  # noqa: D102
        return self.node("Slice", x, *(self.numbers([place], np.int64) for place in (start, stop, 1)))  # of axis 1

    def sort(self, x: Traced, width: int) -> Traced:  # noqa: D102
        return self.smallest(x, width)[0]

    def smallest(self, x: Traced, count: int) -> tuple[Traced, Traced]:  # noqa: D102
        values = self.node("TopK", x, self.numbers([count], np.int64), axis=1, largest=0, sorted=1)
        places = Traced(self, f"{values.name}_places")
        self.nodes[-1].output.append(places.name)
        return values, places

    def weighed(self, weights: Traced, table: Traced, places: Traced) -> Traced:  # noqa: D102
        middle = self.numbers([1], np.int64)
        lines = self.node("Gather", table, places, axis=0)
        return self.node("Squeeze", self.node("Unsqueeze", weights, middle) @ lines, middle)

    # ---- the whole ---------------------------------------------------------------------------------------------------

    def input(self, name: str) -> Traced:
        """Return an input of the graph."""
        return Traced(self, name)

    def absorb(self, model: Any, prefix: str, given: Mapping[str, Traced]) -> list[Traced]:
        """Take over the nodes of another model, fed with what is given for its inputs; return its outputs."""
        renamed = self.onnx.compose.add_prefix(model, prefix)
        for name, value in given.items():
            self.nodes.append(self.onnx.helper.make_node("Identity", [value.name], [f"{prefix}{name}"]))
        self.nodes.extend(renamed.graph.node)
        self.absorbed.extend(renamed.graph.initializer)
        self.domains |= {one.domain: one.version for one in model.opset_import if one.domain not in ("", "ai.onnx")}
        return [Traced(self, output.name) for output in renamed.graph.output]

    def model(
        self,
        inputs: Mapping[str, tuple[int, ...]],
        outputs: Mapping[str, tuple[Traced, int]],
        metadata: Mapping[str, str],
        *,
        single: bool = False,
    ) -> Any:
        """Return the model: inputs of some shape a row, in double precision unless they are ``single``; any batch."""
        make, types = self.onnx.helper, self.onnx.TensorProto
        for name, (value, _) in outputs.items():
            self.nodes.append(make.make_node("Identity", [value.name], [name]))
        kind = types.FLOAT if single else types.DOUBLE
        tables = [make.make_tensor_value_info(name, kind, ["batch", *shape]) for name, shape in inputs.items()]
        kinds = {name: types.BOOL if name == "out_of_distribution" else types.DOUBLE for name in outputs}
        answers = [make.make_tensor_value_info(name, kinds[name], ["batch", d]) for name, (_, d) in outputs.items()]
        numbers = [*(one for _, one in self.constants.values()), *self.absorbed]
        graph = make.make_graph(self.nodes, "nearcal", tables, answers, numbers)
        domains = [make.make_opsetid(domain, version) for domain, version in {"": OPSET, **self.domains}.items()]
        model = make.make_model(graph, opset_imports=domains, ir_version=IR_VERSION, producer_name="nearcal")
        make.set_model_props(model, dict(metadata))
        return model
