"""What recalibrators share: validation of a fit, and scikit-learn's manners for parameters."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from nearcal._arrays import FloatArray, as_response
from nearcal._errors import InvalidInputError, InvalidParameterError, NotFittedError
from nearcal._saved import check_fields, declared_checks, saved_value
from nearcal.distributions import Distribution


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
        """Change constructor arguments by name.

        What shapes the search (scaling, components, metric, search), what is tuned, and adjustment, shrinkage and
        polish take effect at the next ``fit``, all else at the next ``recalibrate``; but with these three,
        ``recalibrate`` asks for a new ``fit`` where they were learnt for other neighbourhoods.
        """
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
        """Return constructor arguments and all that ``fit`` has set.

        Functions (progress) and random generators have no place in a file: the default takes theirs.
        """
        self._require_fitted()
        defaults = self._arguments
        parameters = self.get_params()
        learnt = {name: value for name, value in vars(self).items() if name not in parameters}
        for name, value in parameters.items():
            if callable(value) or isinstance(value, np.random.Generator):
                parameters[name] = defaults[name].default
        return {"parameters": parameters, "learnt": learnt}

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        recalibrator = cls(**saved_value(saved, "parameters"))
        vars(recalibrator).update(check_fields(saved_value(saved, "learnt"), declared_checks(cls)))
        return recalibrator

    def _require_fitted(self) -> None:
        if not hasattr(self, "n_cal_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(dist_cal, y_cal, ...) first")


def require_distribution(value: Any, name: str) -> Distribution:
    """Refuse what is not a nearcal distribution, with a hint for the usual mistakes."""
    if isinstance(value, Distribution):
        return value
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise InvalidInputError(
        f"{name} must be a nearcal distribution, got {kind}; wrap predictions, for example "
        "nearcal.Normal(mean, std), nearcal.from_scipy(...) or nearcal.from_torch(...)"
    )


def calibration_scores(dist_cal: Distribution, y_cal: Any) -> FloatArray:
    """Return the normal scores of the calibration responses, refusing responses the model calls impossible."""
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
    return z
