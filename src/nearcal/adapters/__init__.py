"""Trained models as nearcal sees them: ``distribution(X)``, ``layers()``, ``represent(X, layer)``."""

from nearcal.adapters._adapt import adapt
from nearcal.adapters._heads import FunctionHead, Head, NormalHead, PointHead, QuantileHead
from nearcal.adapters._protocol import ModelAdapter

__all__ = ["FunctionHead", "Head", "ModelAdapter", "NormalHead", "PointHead", "QuantileHead", "adapt"]
