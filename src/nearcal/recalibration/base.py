"""What recalibrators share: validation of a fit, and scikit-learn's manners for parameters."""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from nearcal._arrays import FloatArray, IntArray, as_response, as_rows, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError, NotFittedError
from nearcal._saved import check_fields, declared_checks, saved_value
from nearcal.distributions import Distribution
from nearcal.recalibration.ties import warn_of_ties
from nearcal.recalibration.workers import Workers

_LARGEST_SCORE = 1e100  # squares of scores are summed


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

    # ---- a calibration set that changes ------------------------------------------------------------------------------

    _not_updated: ClassVar[str] = "it keeps no calibration points"  # why it cannot be, unless a subclass can

    def update(self, dist_cal: Any, y_cal: Any, space_cal: Any = None) -> Self:
        """Refuse: this recalibrator cannot be updated."""
        raise self._refuse_change("updated")

    def forget(self, rows: Any = None, *, keep_last: int | None = None) -> Self:
        """Take points out of the calibration set; those that remain keep their order.

        Parameters
        ----------
        rows : int, slice, mask or index array, optional
            Which points to forget, by their place in the calibration set: 0 is the one that came first.
        keep_last : int, optional
            Forget all but this many, those that came last; where there are no more, nothing. Give this or ``rows``.

        Returns
        -------
        self
            If it fails, nothing has changed.
        """
        self._require_fitted()
        kept = _rows_kept(self.n_cal_, rows, keep_last)
        if len(kept) < self.n_cal_:
            self._keep(kept)
        return self

    def relearn(self) -> Self:
        """Learn again from the calibration set as it is now all that ``update`` and ``forget`` leave as it was.

        The result is, to the last bit, that of ``fit`` on the points that it has, in their order.
        """
        self._require_fitted()
        return self

    def _keep(self, rows: IntArray) -> None:
        """Keep some calibration points, given their numbers in increasing order; at least one."""
        raise self._refuse_change("made to forget")

    def _refuse_change(self, verb: str) -> Exception:
        return InvalidParameterError(
            f"{type(self).__name__} cannot be {verb}, since {self._not_updated}; fit it again on the rows that it "
            "should know"
        )

    def _require_fitted(self) -> None:
        if not hasattr(self, "n_cal_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(dist_cal, y_cal, ...) first")


def _rows_kept(n: int, rows: Any, keep_last: int | None) -> IntArray:
    """Return the numbers of the calibration points that remain."""
    if (rows is None) == (keep_last is None):
        raise InvalidParameterError(
            f"give exactly one of rows and keep_last, got rows={rows!r} and keep_last={keep_last!r}; rows are those to "
            "forget"
        )
    if keep_last is not None:
        return np.arange(max(n - check_count(keep_last, "keep_last"), 0), n)
    is_kept = np.ones(n, dtype=np.bool_)
    is_kept[as_rows(rows, n)] = False
    if not is_kept.any():
        raise InvalidInputError(
            f"rows must leave at least one calibration point, got all {n}; update with newer points first, or fit again"
        )
    return np.flatnonzero(is_kept)


def is_empty(y_cal: Any) -> bool:
    """Tell whether there are no responses, so that there is nothing to learn; distributions have one row at least."""
    return hasattr(y_cal, "__len__") and len(y_cal) == 0


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
    too_far = np.abs(z) > _LARGEST_SCORE
    if too_far.any():
        first = int(np.argmax(too_far))
        raise InvalidInputError(
            f"y_cal must have normal scores below {_LARGEST_SCORE:g} under dist_cal, got {int(too_far.sum())} beyond, "
            f"the first at index {first}: response {float(y[first])!r} with score {float(z[first])!r}; drop those rows"
        )
    warn_of_ties(y, z, is_continuous=dist_cal.is_continuous)
    return z
