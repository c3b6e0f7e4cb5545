"""Trained models as nearcal sees them: ``distribution(X)``, ``layers()``, ``represent(X, layer)``."""

from typing import TYPE_CHECKING, Any

from nearcal.models.adapters.base import ModelAdapter, adapt, adapter_class, adapter_names
from nearcal.models.adapters.columns import ColumnsModel
from nearcal.models.adapters.heads import DistributionHead, FunctionHead, Head, NormalHead, PointHead, QuantileHead

if TYPE_CHECKING:
    from nearcal.models.adapters._boosting import LightGBMModel, NGBoostModel, XGBoostModel
    from nearcal.models.adapters._keras import KerasModel
    from nearcal.models.adapters._sklearn import SklearnModel
    from nearcal.models.adapters._skpro import SkproModel
    from nearcal.models.adapters._torch import TorchModel
    from nearcal.models.adapters.function import FunctionModel
    from nearcal.models.adapters.several import SeveralModels

__all__ = [
    "ColumnsModel",
    "DistributionHead",
    "FunctionHead",
    "FunctionModel",
    "Head",
    "KerasModel",
    "LightGBMModel",
    "ModelAdapter",
    "NGBoostModel",
    "NormalHead",
    "PointHead",
    "QuantileHead",
    "SeveralModels",
    "SklearnModel",
    "SkproModel",
    "TorchModel",
    "XGBoostModel",
    "adapt",
]


def __getattr__(name: str) -> Any:
    # adapters load when first asked for
    if name not in adapter_names():
        raise AttributeError(f"module 'nearcal.adapters' has no attribute {name!r}")
    return adapter_class(adapter_names()[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *adapter_names()})
