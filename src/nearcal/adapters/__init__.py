"""Trained models as nearcal sees them: ``distribution(X)``, ``layers()``, ``represent(X, layer)``."""

from typing import TYPE_CHECKING, Any

from nearcal.adapters._adapt import adapt, adapter_class, adapter_names
from nearcal.adapters._columns import FAMILIES as FAMILIES
from nearcal.adapters._columns import ColumnsModel
from nearcal.adapters._columns import Source as Source
from nearcal.adapters._columns import parameter_names as parameter_names
from nearcal.adapters._columns import positive_parameters as positive_parameters
from nearcal.adapters._heads import DistributionHead, FunctionHead, Head, NormalHead, PointHead, QuantileHead
from nearcal.adapters._protocol import ModelAdapter

if TYPE_CHECKING:
    from nearcal.adapters._keras import KerasModel
    from nearcal.adapters._lightgbm import LightGBMModel
    from nearcal.adapters._ngboost import NGBoostModel
    from nearcal.adapters._sklearn import SklearnModel
    from nearcal.adapters._skpro import SkproModel
    from nearcal.adapters._torch import TorchModel
    from nearcal.adapters._xgboost import XGBoostModel

__all__ = [
    "ColumnsModel",
    "DistributionHead",
    "FunctionHead",
    "Head",
    "KerasModel",
    "LightGBMModel",
    "ModelAdapter",
    "NGBoostModel",
    "NormalHead",
    "PointHead",
    "QuantileHead",
    "SklearnModel",
    "SkproModel",
    "TorchModel",
    "XGBoostModel",
    "adapt",
]


def __getattr__(name: str) -> Any:
    # adapters load when first asked for
    return adapter_class(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *adapter_names()})
