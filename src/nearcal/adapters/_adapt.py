"""Trained models of any kind as adapters."""

from typing import Any

from nearcal._errors import InvalidInputError
from nearcal.adapters._protocol import ModelAdapter


def adapt(model: Any, **options: Any) -> ModelAdapter:
    """Return the adapter of a model; an adapter is returned as it is."""
    if isinstance(model, ModelAdapter):
        return model
    raise InvalidInputError(f"model must be a ModelAdapter, got {type(model).__qualname__}; write a subclass for it")
