"""What every predictive distribution can do, derived from the few things a family must provide."""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import (
    FloatArray,
    IntArray,
    as_float_array,
    as_rows,
    check_count,
    require_no_nan,
)
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._normal_scores import z_from_log_tails

Seed: TypeAlias = int | np.random.Generator | None


class Distribution(ABC):
    """A frozen batch of n univariate predictive distributions, one a row.

    A family provides ``__len__``, ``_rows``, ``_logcdf``, ``_logsf``, ``_logpdf``, ``_from_z``, ``mean`` and ``var``.
    The underscored functions take and return arrays of shape (n, q): column j holds one value for every row.
    """

    #: False where the distribution has atoms, so that ``cdf(ppf(p))`` may exceed ``p``.
    is_continuous: bool = True

    #: False where all probability lies on atoms, so that there is no density to ask for.
    has_density: bool = True

    #: True where a quantile takes a search and is a smooth function of its score: worth interpolating.
    _quantiles_are_costly: bool = False

    # ---- what a family provides -------------------------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _rows(self, rows: IntArray) -> Self: ...

    @abstractmethod
    def _logcdf(self, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _logsf(self, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _logpdf(self, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _from_z(self, z: FloatArray) -> FloatArray: ...

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the mean of every row, shape (n,)."""

    @abstractmethod
    def var(self) -> FloatArray:
        """Return the variance of every row, shape (n,)."""

    # ---- what a family may do better --------------------------------------------------------------------------------

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.exp(self._logcdf(y))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.exp(self._logsf(y))

    def _cdf_left(self, y: FloatArray) -> FloatArray:
        # atoms lie on floating-point numbers, so what is below y is what is at or below the number before it
        return self._cdf(y if self.is_continuous else np.nextafter(y, -np.inf))

    def _resolution(self) -> FloatArray:
        return np.zeros(len(self))

    def _z(self, y: FloatArray) -> FloatArray:
        return z_from_log_tails(self._logcdf(y), self._logsf(y))

    def _unbounded_z(self, y: FloatArray) -> FloatArray:
        """Return Φ⁻¹(cdf) even where it is infinite; ``_z`` of a distribution with atoms is held finite."""
        return self._z(y)

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._from_z(ndtri(p))

    @property
    def _values_per_row(self) -> int:
        """The numbers that describe a row, for planning memory."""
        return 1

    def _location_scale(self) -> "tuple[FloatArray, FloatArray, Distribution] | None":
        """Return (loc, scale, standard) if in this family row j is loc_j + scale_j * standard, whatever the rows.

        ``standard`` has one row. It must not depend on which rows are in the batch: they would decide the rounding.
        """
        return None

    def _standard_shapes(self) -> "tuple[FloatArray, FloatArray, Distribution]":
        """Return (loc, scale, shapes): row j is loc_j + scale_j times row j of ``shapes``, whose rows may be alike."""
        return np.zeros(len(self)), np.ones(len(self)), self

    def _unique_rows(self) -> "tuple[Distribution, IntArray]":
        """Return the different rows of a batch and, for every row, which of them it is; all where none may be alike."""
        return self, np.arange(len(self))

    # ---- evaluation at values of the response -----------------------------------------------------------------------

    def cdf(self, y: Any) -> FloatArray:
        """Return P(Y <= y).

        Parameters
        ----------
        y : array_like
            A scalar for all rows, (n,) one a row, or (n, q).

        Returns
        -------
        ndarray
            Shape (n,) for a scalar or (n,), else (n, q).
        """
        return self._evaluate(self._cdf, y, "y")

    def cdf_left(self, y: Any) -> FloatArray:
        """Return P(Y < y), which differs from :meth:`cdf` at an atom; shapes as there."""
        return self._evaluate(self._cdf_left, y, "y")

    def sf(self, y: Any) -> FloatArray:
        """Return P(Y > y), accurate where it is small; shapes as in :meth:`cdf`."""
        return self._evaluate(self._sf, y, "y")

    def logcdf(self, y: Any) -> FloatArray:
        """Return log P(Y <= y); shapes as in :meth:`cdf`."""
        return self._evaluate(self._logcdf, y, "y")

    def logsf(self, y: Any) -> FloatArray:
        """Return log P(Y > y); shapes as in :meth:`cdf`."""
        return self._evaluate(self._logsf, y, "y")

    def pdf(self, y: Any) -> FloatArray:
        """Return the density at y, the derivative of :meth:`cdf`; shapes as there.

        A distribution of atoms alone (``has_density`` is False) has none and says so; where there are atoms among
        other values, it is the density of the rest.
        """
        return np.exp(self.logpdf(y))

    def logpdf(self, y: Any) -> FloatArray:
        """Return the log-density at y; see :meth:`pdf`."""
        if not self.has_density:
            raise InvalidInputError(
                f"{self!r} has no density: all its probability lies on single values; ask for cdf or ppf, or make it "
                'continuous, by quantile_rule="predictive" for a recalibrator or tails="normal" for draws and quantiles'
            )
        return self._evaluate(self._logpdf, y, "y")

    def z(self, y: Any) -> FloatArray:
        """Return the normal score Φ⁻¹(P(Y <= y)), exact in both tails; shapes as in :meth:`cdf`."""
        return self._evaluate(self._z, y, "y")

    def from_z(self, z: Any) -> FloatArray:
        """Return the response whose normal score is z, the inverse of :meth:`z`; shapes as in :meth:`cdf`."""
        return self._evaluate(self._from_z, z, "z")

    # ---- quantiles, moments, draws ----------------------------------------------------------------------------------

    def ppf(self, p: Any) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        p : array_like
            Probabilities: a scalar, (q,) the same levels for all rows, or (n, q).

        Returns
        -------
        ndarray
            Shape (n,) for a scalar, else (n, q).
        """
        array = as_levels(p)
        n = len(self)
        if array.ndim == 2 and len(array) == n:
            return self._ppf(array)
        if array.ndim > 1:
            raise InvalidInputError(f"p must be a scalar or have shape (q,) or ({n}, q), got {array.shape}")
        quantiles = self._ppf(np.broadcast_to(array, (n, array.size)))
        return quantiles[:, 0] if array.ndim == 0 else quantiles

    def median(self) -> FloatArray:
        """Return the median of every row, shape (n,)."""
        return self.ppf(0.5)

    def std(self) -> FloatArray:
        """Return the standard deviation of every row, shape (n,)."""
        return np.sqrt(self.var())

    def interval(self, coverage: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the central interval that holds ``coverage`` of the probability: (lower, upper), each (n,)."""
        lower, upper = self.ppf(interval_levels(coverage)).T
        return lower, upper

    def sample(self, size: int, rng: Seed = None) -> FloatArray:
        """Draw ``size`` values from every row.

        Parameters
        ----------
        size : int
            Number of draws a row.
        rng : int, numpy.random.Generator or None
            Seed or generator; None draws fresh entropy.

        Returns
        -------
        ndarray of shape (n, size)
        """
        size = check_count(size, "size")
        return self._from_z(np.random.default_rng(rng).standard_normal((len(self), size)))

    def resolution(self) -> FloatArray:
        """Return the probability one draw stands for, shape (n,); 0 for a distribution not known through draws."""
        return self._resolution()

    # ---- a frozen sequence of rows ----------------------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> Self:
        """Return the batch of the chosen rows: an int, a slice, a boolean mask or an index array."""
        chosen = as_rows(rows, len(self))
        if len(chosen) == 0:
            raise InvalidInputError("rows must select at least one row, got none: a batch is never empty")
        return self._rows(chosen)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}; build a new batch instead")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Freeze again what pickle and copy bring back."""
        self._store(**state)

    def _store(self, **fields: Any) -> None:
        """Set fields once, in ``__init__``; arrays, also in tuples, become read-only."""
        for name, value in fields.items():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
            object.__setattr__(self, name, value)

    def _with(self, **fields: Any) -> Self:
        """Return a batch with these fields in place of its own, already validated: how rows are taken."""
        twin = object.__new__(type(self))
        twin._store(**{**vars(self), **fields})
        return twin

    def _evaluate(self, function: Any, values: Any, name: str) -> FloatArray:
        """Bring values to (n, q), evaluate, and give the result the shape of the question."""
        array = as_float_array(values, name)
        require_no_nan(array, name)
        n = len(self)
        result: FloatArray
        if array.ndim == 0:
            result = function(np.broadcast_to(array, (n, 1)))[:, 0]
        elif array.shape == (n,):
            result = function(array[:, np.newaxis])[:, 0]
        elif array.ndim == 2 and len(array) == n:
            result = function(array)
        else:
            raise InvalidInputError(
                f"{name} must be a scalar or have shape ({n},) or ({n}, q), one row a distribution, got {array.shape}; "
                f"for the same values in every row use np.tile({name}, ({n}, 1))"
            )
        return result


def require_distribution(value: Any, name: str) -> Distribution:
    """Refuse what is not a nearcal distribution, with a hint for the usual mistakes."""
    if isinstance(value, Distribution):
        return value
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise InvalidInputError(
        f"{name} must be a nearcal distribution, got {kind}; wrap predictions, for example "
        "nearcal.Normal(mean, std), nearcal.from_scipy(...) or nearcal.from_torch(...)"
    )


def as_levels(p: Any) -> FloatArray:
    """Validate probabilities: numbers in [0, 1]."""
    array = as_float_array(p, "p")
    require_no_nan(array, "p")
    outside = (array < 0) | (array > 1)
    if outside.any():
        raise InvalidInputError(f"p must lie in [0, 1], got {float(array[outside][0])!r}; give 95% as 0.95")
    return array


def interval_levels(coverage: float) -> FloatArray:
    """Return the two probability levels of a central interval."""
    level = as_float_array(coverage, "coverage")
    if level.ndim or not 0 < level < 1:
        raise InvalidParameterError(
            f"coverage must be one number strictly between 0 and 1, got {coverage!r}; give 95% as 0.95"
        )
    return np.array([0.5 - level / 2, 0.5 + level / 2])


class ParametricDistribution(Distribution):
    """A family given by parameters of shape (n,) stored under the names in ``_parameter_names``."""

    _parameter_names: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(getattr(self, self._parameter_names[0]))

    def _rows(self, rows: IntArray) -> Self:
        return self._with(**{name: _take(getattr(self, name), rows) for name in self._parameter_names})

    def _unique_rows(self) -> tuple[Distribution, IntArray]:
        table = np.stack([getattr(self, name) for name in self._parameter_names], axis=1)
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return self._rows(first), which.reshape(-1)

    def _columns(self) -> tuple[FloatArray, ...]:
        """Return the parameters as (n, 1) columns."""
        columns = []
        for name in self._parameter_names:
            columns.append(getattr(self, name)[:, np.newaxis])
        return tuple(columns)


def _take(parameter: FloatArray, rows: IntArray) -> FloatArray:
    """Take rows of a parameter, keeping one that is shared by the whole batch a stride-0 view."""
    if parameter.strides == (0,):
        return np.broadcast_to(parameter[:1], len(rows))
    return parameter[rows]
