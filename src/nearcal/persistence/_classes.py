"""The classes that may stand in a file. A file can name no other, and nothing in it is ever executed."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from nearcal._errors import ArtefactError, InvalidInputError

_RECALIBRATORS = (
    "ConformalRecalibrator",
    "GlobalRecalibrator",
    "IdentityRecalibrator",
    "IsotonicRecalibrator",
    "KNNRegressor",
    "LocalRecalibrator",
    "QuantileNetRecalibrator",
    "VarianceScaling",
)
_PARTS = {
    "BlockedBrute": "nearcal.neighbors._exact",
    "CalibratedModel": "nearcal.models",
    "Calibration": "nearcal.recalibration._local_sample",
    "CalibrationPoints": "nearcal.recalibration._reliability",
    "Candidate": "nearcal.tuning",
    "ColumnsModel": "nearcal.models.adapters",
    "FaissIndex": "nearcal.neighbors._faiss",
    "KDTreeIndex": "nearcal.neighbors._kdtree",
    "LeafBoxes": "nearcal.neighbors._exact",
    "LinearAdjustment": "nearcal.recalibration._adjustment",
    "PointHead": "nearcal.models.adapters",
    "Polish": "nearcal.recalibration._polish",
    "QuantileNetwork": "nearcal.recalibration._quantile_net_training",
    "Recalibration": "nearcal.models",
    "ScoreMap": "nearcal.recalibration._score_map",
    "Shrinkage": "nearcal.recalibration._shrinkage",
    "SortedLine": "nearcal.neighbors._exact",
    "SpaceMap": "nearcal.scaling",
    "Standardiser": "nearcal.recalibration._quantile_net_training",
    "Table": "nearcal._table",
    "Tuning": "nearcal.tuning",
}
_MODULES = {**dict.fromkeys(_RECALIBRATORS, "nearcal.recalibration"), **_PARTS}
_REASONS = {
    "GPBetaRecalibrator": "its model belongs to netcal and could only be pickled; fit it again, with the same rng",
}


def class_name(value: Any) -> str | None:
    """Return the name under which objects of this class are saved; None if they are not."""
    name = type(value).__name__
    return name if name in _MODULES and _find(name) is type(value) else None


def take_apart(value: Any) -> dict[str, Any]:
    """Return what an object of a known class holds, by name."""
    if hasattr(value, "_to_saved"):
        return value._to_saved()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value._asdict()


def put_together(name: str, saved: Mapping[str, Any]) -> Any:
    """Build the object of a known class that ``take_apart`` had taken apart."""
    if name not in _MODULES:
        raise ArtefactError(f"it holds a {name!r}, which this version of nearcal does not know")
    cls = _find(name)
    return cls._from_saved(saved) if hasattr(cls, "_from_saved") else cls(**saved)


def require_savable(obj: Any) -> None:
    """Refuse what is of no known class, and say which classes are."""
    if class_name(obj) is not None:
        return
    kind = type(obj).__name__
    reason = f"; {_REASONS[kind]}" if kind in _REASONS else ""
    raise InvalidInputError(
        f"obj must be a fitted recalibrator of one of the classes {', '.join(_RECALIBRATORS)}, or a CalibratedModel, "
        f"got {kind}{reason}"
    )


def _find(name: str) -> Any:
    return getattr(import_module(_MODULES[name]), name)
