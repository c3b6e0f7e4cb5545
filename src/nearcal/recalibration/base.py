"""What recalibrators share: validation of a fit, and scikit-learn's manners for parameters."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from nearcal._arrays import FloatArray, as_response
from nearcal._errors import InvalidInputError, InvalidParameterError, NotFittedError
from nearcal._saved import check_fields, declared_checks, saved_value
from nearcal.distributions import Distribution
from nearcal.recalibration.calibration_scores import LARGEST_SCORE
from nearcal.recalibration.ties import warn_of_ties
from nearcal.recalibration.workers import Workers


class Recalibrator:
    """Base class: ``__init__`` only stores its arguments, ``fit`` validates them and returns self."""

    n_cal_: int  # set last by every fit
    _arguments: ClassVar[Mapping[str, inspect.Parameter]]

    def __init_subclass__(cls) -> None:
        # once a class: looked up in every call, they took a third of the time of a single row
        super().__init_subclass__()
        cls._arguments = inspect.signature(cls).parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; ``deep`` is there for scikit-learn's sake."""
        return {name: getattr(self, name) for name in self._arguments}

    def set_params(self, **parameters: Any) -> Self:
        """Change constructor arguments by name; they take effect at the next ``fit``, ``workers`` at once."""
        known = self.get_params()
        unknown = [name for name in parameters if name not in known]
        if unknown:
            raise InvalidParameterError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}"
            )
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._arguments
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _to_saved(self) -> dict[str, Any]:
        """Return constructor arguments and what ``fit`` has set, as far as the class declares it to be saved.

        Functions (progress) and random generators have no place in a file: the default takes theirs.
        """
        self._require_fitted()
        parameters = self.get_params()
        for name, value in parameters.items():
            if isinstance(value, np.random.Generator | np.random.SeedSequence):
                parameters[name] = self._arguments[name].default
            elif isinstance(value, Workers) and callable(value.progress):
                parameters[name] = value.silent()
        return {"parameters": parameters, "learnt": {name: getattr(self, name) for name in declared_checks(type(self))}}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        recalibrator = cls(**saved_value(saved, "parameters"))
        for name, value in check_fields(saved_value(saved, "learnt"), declared_checks(cls)).items():
            setattr(recalibrator, name, value)
        recalibrator._check_learnt()
        return recalibrator

    def _check_learnt(self) -> None:
        """Refuse fitted attributes from a file that do not go together."""

    def _require_fitted(self) -> None:
        if not hasattr(self, "n_cal_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(dist_cal, y_cal, ...) first")


def calibration_scores(dist_cal: Distribution, y_cal: Any) -> FloatArray:
    """Return the normal scores of the calibration responses, refusing responses the model calls impossible.

    Every fit comes through here once, so this is where it warns of ties.
    """
    y = as_response(y_cal, len(dist_cal), "y_cal")
    z = dist_cal.z(y)
    impossible = ~np.isfinite(z)
    if impossible.any():
        first = int(np.argmax(impossible))
        raise InvalidInputError(
            f"y_cal must lie inside the support of dist_cal, got {int(impossible.sum())} of {len(y)} responses with "
            f"probability zero under the model, the first at index {first}: {float(y[first])!r}; drop those rows or "
            "use a distribution that allows them"
        )
    too_far = np.abs(z) > LARGEST_SCORE
    if too_far.any():
        first = int(np.argmax(too_far))
        raise InvalidInputError(
            f"y_cal must have normal scores below {LARGEST_SCORE:g} under dist_cal, got {int(too_far.sum())} beyond, "
            f"the first at index {first}: response {float(y[first])!r} with score {float(z[first])!r}; drop those rows"
        )
    warn_of_ties(y, z, is_continuous=dist_cal.is_continuous)
    return z
