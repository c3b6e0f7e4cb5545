"""Regressors of tables, whatever their package: what their adapters share."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from nearcal._arrays import FloatArray, as_float_array, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution
from nearcal.models.adapters.anatomy import Anatomy, as_numbers, embed_leaves, take_apart, take_apart_levels
from nearcal.models.adapters.base import ModelAdapter
from nearcal.models.adapters.batches import positions
from nearcal.models.adapters.heads import (
    HEADS,
    RESPONSES,
    DistributionHead,
    Head,
    HeadLike,
    Response,
    choose_head,
    guess_head,
    learnt_head,
)
from nearcal.models.adapters.questions import asking, check_inputs, require_finite_output, require_one_a_row
from nearcal.models.adapters.targets import Target, check_target, several_targets


class RegressorModel(ModelAdapter):
    """A fitted regressor of tables.

    Inputs go to the model as they are given, data frames included. The space "input" is offered where they are
    numbers without gaps.
    """

    def __init__(
        self,
        model: Any,
        *,
        head: HeadLike = "auto",
        levels: Any = None,
        response: Response = "identity",
        output: Target = None,
    ) -> None:
        check_target(output)
        several = isinstance(model, Mapping | list | tuple)
        anatomy = take_apart_levels(model, levels, output) if several else self._take_apart(model, output)
        if isinstance(head, str) and head == "normal" and "normal" not in anatomy.readings and anatomy.targets > 1:
            raise InvalidParameterError(
                f'head="normal" reads two columns as μ and log σ of one target, and this {type(model).__name__} was '
                f"trained on {anatomy.targets} targets: {several_targets(anatomy.targets)}"
            )
        self.model = model
        self._response = response
        self._output, self._head = _choose_reading(anatomy, head, None if several else levels, response)
        self._fitted_head: Head | None = None
        self._spaces = {"input": as_numbers, **anatomy.all_spaces()}
        self._trees, self._is_output_read = anatomy.trees, "output" not in self._spaces
        if self._is_output_read:
            self._spaces["output"] = partial(_output_columns, self._output, anatomy.predict)
        self._gaps: Mapping[str, str] = {}  # spaces that are not offered, and why

    @staticmethod
    @abstractmethod
    def anatomy(model: Any, output: Target = None) -> Anatomy:
        """Take a fitted regressor of this framework apart; of several targets, ``output`` picks one."""

    def _take_apart(self, model: Any, output: Target) -> Anatomy:
        return take_apart(model, output)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    @property
    def _name(self) -> str:
        several = isinstance(self.model, Mapping | list | tuple)
        return f"{len(self.model)} models" if several else type(self.model).__name__

    def layers(self) -> tuple[str, ...]:
        """Return the names of the spaces the model offers, in the order data flows through them."""
        return tuple(layer for layer in self._spaces if layer not in self._gaps)

    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""
        return self.distribution_of(self.output(X))

    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""
        if layer in self._gaps:
            raise InvalidParameterError(
                f"layer {layer!r} must be numbers without gaps in the calibration set: {self._gaps[layer]}; encode and "
                f"impute them, or choose among {', '.join(self.layers())}"
            )
        self._require_layer(layer)
        check_inputs(X)
        with asking(self._name, X):
            return self._spaces[layer](X)

    def run(self, X: Any, layers: Sequence[str]) -> tuple[Distribution, Mapping[str, FloatArray]]:
        """Return distributions and positions in several layers, asking once for what some of them are made of alike."""
        output = self.output(X)
        known: dict[str, FloatArray] = {}
        if self._is_output_read and "output" in layers and not isinstance(output, Distribution):
            known["output"] = _columns_of(output)
        if self._trees is not None and self._trees.values and {"leaves", "leaf_values"} <= set(layers):
            with asking(self._name, X):
                numbers = self._trees.numbers(X)
            known |= {"leaves": embed_leaves(numbers), "leaf_values": self._trees.values_at(numbers)}
        places = {layer: known[layer] if layer in known else self.represent(X, layer) for layer in layers}
        return self.distribution_of(output), places

    def prepared(self, X_cal: Any, y_cal: Any) -> Self:
        """Return the model with its head fitted, offering only spaces in which the calibration set has positions."""
        return self.prepared_by(self.output(X_cal), X_cal, y_cal)

    def output(self, X: Any) -> Any:
        """Return what the head reads: numbers, or distributions already."""
        check_inputs(X)
        with asking(self._name, X):
            output = self._output(X)
        require_one_a_row(output, X, self._name)
        require_finite_output(output, X, self._name)
        return output

    def distribution_of(self, output: Any) -> Distribution:
        """Return the distributions that the head makes of an output."""
        return (self._fitted_head or self._resolved_head(output))(output)

    def prepared_by(self, output: Any, X_cal: Any, y_cal: Any) -> Self:
        """Return what ``prepared`` returns, by a given output for the calibration set instead of the model's own."""
        result = copy.copy(self)
        result._fitted_head = self._resolved_head(output).fit(output, y_cal)
        reasons = {layer: self._gap(X_cal, layer) for layer in ("input", "transformed") if layer in self._spaces}
        result._gaps = {layer: reason for layer, reason in reasons.items() if reason is not None}
        return result

    def learnt(self) -> dict[str, Any]:
        """Return what ``prepared`` has learnt: the head, and spaces that are not offered."""
        return {"head": learnt_head(self._fitted_head), "gaps": dict(self._gaps)}

    def with_learnt(self, learnt: Mapping[str, Any]) -> Self:
        """Return the model with what :meth:`learnt` has told."""
        result = copy.copy(self)
        result._fitted_head = learnt["head"]
        result._gaps = learnt["gaps"]
        return result

    @property
    def heads(self) -> tuple[Head, ...]:
        """The head, as it was fitted."""
        return tuple(head for head in (self._fitted_head or self._head,) if head is not None)

    def identity(self) -> tuple[str, tuple[str, ...]]:
        """Return the class of the regressor, a pipeline with its steps, and all its spaces."""
        several = self.model.values() if isinstance(self.model, Mapping) else self.model
        models = several if isinstance(self.model, Mapping | list | tuple) else [self.model]
        return ", ".join(_class_words(model) for model in models), tuple(self._spaces)

    def _gap(self, X: Any, layer: str) -> str | None:
        """Return why a space cannot be had of some inputs; None if it can."""
        try:
            self._spaces[layer](X)
        except InvalidInputError as error:
            return str(error)
        return None

    def _resolved_head(self, output: Any) -> Head:
        return guess_head(output, self._response) if self._head is None else self._head


def _class_words(model: Any) -> str:
    steps = getattr(model, "steps", None)
    inner = f"({', '.join(type(step).__name__ for _, step in steps)})" if isinstance(steps, list) else ""
    return f"{type(model).__name__}{inner}"


def _choose_reading(
    anatomy: Anatomy, head: HeadLike, levels: Any, response: Response
) -> tuple[Callable[[Any], Any], Head | None]:
    """Return the function that reads the model, and the head for what it reads."""
    check_choice(response, RESPONSES, "response")
    if isinstance(head, str):
        check_choice(head, list(dict.fromkeys([*HEADS, *anatomy.readings])), "head")
        name, levels = _resolve_auto(anatomy, head, levels)
        if name in anatomy.readings:
            chosen = choose_head(name, response, levels) if name in HEADS else _as_it_is(name, response)
            return anatomy.readings[name], chosen
        head = name
    return anatomy.predict, choose_head(head, response, levels)


def _resolve_auto(anatomy: Anatomy, head: str, levels: Any) -> tuple[str, Any]:
    """Return the head and levels that the model stands for, where the user leaves them open."""
    if head == "auto" and levels is None:
        head = anatomy.default
    if head not in ("auto", "quantiles") or levels is not None or not anatomy.levels:
        return head, levels
    if len(anatomy.levels) > 1:
        return "quantiles", anatomy.levels
    if anatomy.levels[0] == 0.5:  # a median is a point prediction
        return "point", None
    raise InvalidParameterError(
        f"the model predicts the quantile of level {anatomy.levels[0]:g} alone, which is no distribution; give models "
        "of several levels, {0.1: model, 0.5: model, 0.9: model}"
    )


def _as_it_is(head: str, response: Response) -> Head:
    if response == "log":
        raise InvalidParameterError(
            f'response="log" goes with the heads point, normal and quantiles, got head={head!r}; '
            'give head="point" if the model predicts log y'
        )
    return DistributionHead()


def _output_columns(output: Callable[[Any], Any], predict: Callable[[Any], Any], X: Any) -> FloatArray:
    """Return what the head reads, or the plain prediction where that is a distribution."""
    read = output(X)
    if isinstance(read, Distribution):
        read = predict(X)
    if isinstance(read, Distribution):
        return positions(read)
    return _columns_of(read)


def _columns_of(output: Any) -> FloatArray:
    columns = as_float_array(output, "the model's output")
    return columns.reshape(len(columns), -1)
