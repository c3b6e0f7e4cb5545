"""What nearcal asks of a model: a predictive distribution, and places to look for neighbours."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal.distributions import Distribution


class ModelAdapter(ABC):
    """A trained model as nearcal sees it. Write a subclass to bring a model of your own.

    Subclasses say what their layers are called, what a layer makes of inputs, and which distribution they predict.
    The rest follows.
    """

    @abstractmethod
    def layers(self) -> tuple[str, ...]:
        """Return the names of the spaces the model offers, in the order data flows through them."""

    @abstractmethod
    def distribution(self, X: Any) -> Distribution:
        """Return the predictive distributions of n inputs."""

    @abstractmethod
    def represent(self, X: Any, layer: str) -> FloatArray:
        """Return where n inputs lie in the space of a layer, shape (n, d)."""

    def prepared(self, X_cal: Any, y_cal: Any) -> Self:
        """Return the model with everything learnt that it leaves to the calibration set, itself if that is nothing.

        A network trained on squared error, for instance, takes its standard deviation from calibration residuals.
        """
        return self

    def learnt(self) -> dict[str, Any]:
        """Return what :meth:`prepared` has learnt, in numbers, strings, and tuples and dictionaries of them.

        This is what :func:`nearcal.save` keeps of the model. A subclass with a ``prepared`` of its own that wants to be
        saved defines this method, and :meth:`with_learnt`.
        """
        if type(self).prepared is not ModelAdapter.prepared:
            kind = type(self).__name__
            raise InvalidInputError(
                f"{kind} must say what prepared() has learnt, to be saved: define {kind}.learnt(), which returns "
                f"numbers and strings by name, and {kind}.with_learnt(learnt), which returns the model with them again"
            )
        return {}

    def with_learnt(self, learnt: Mapping[str, Any]) -> Self:
        """Return the model with what :meth:`learnt` has told, as after :meth:`prepared`."""
        return self

    def run(self, X: Any, layers: Sequence[str]) -> tuple[Distribution, Mapping[str, FloatArray]]:
        """Return distributions and positions in several layers; a model that can do so passes its inputs once."""
        return self.distribution(X), {layer: self.represent(X, layer) for layer in layers}

    def _require_layer(self, layer: str) -> None:
        if layer not in self.layers():
            raise InvalidParameterError(f"layer must be one of {', '.join(self.layers())}, got {layer!r}")
