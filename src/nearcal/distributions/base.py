"""What every predictive distribution can do, derived from the few things a family must provide."""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self, TypeAlias

import numpy as np
from scipy.special import log_ndtr, ndtri

from nearcal._arrays import (
    FloatArray,
    IntArray,
    as_float_array,
    as_generator,
    as_rows,
    check_count,
    require_no_nan,
)
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._normal_scores import log_normal_density, z_from_log_tails
from nearcal.distributions.interpolation import Interpolated

_FAR = 1e4  # of scores, the squares of which leave eight digits behind the point
_STEP = 1e-5  # relatively, for which differences of scores and straight lines are as exact

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None


class Distribution(ABC):
    """A frozen batch of n univariate predictive distributions, one a row.

    A family provides ``__len__``, ``_rows``, ``_logcdf``, ``_logsf``, ``_logpdf``, ``_from_z``, ``mean`` and ``std``.
    The underscored functions take and return arrays of shape (n, q): column j holds one value for every row. They are
    called with numpy's warnings of overflow off: what is too large for a floating-point number is infinite.
    """

    #: False where the distribution has atoms, so that ``cdf(ppf(p))`` may exceed ``p``.
    is_continuous: bool = True

    #: False where all probability lies on atoms, so that there is no density to ask for.
    has_density: bool = True

    #: True where a quantile takes a search and is a smooth function of its score: worth interpolating.
    _quantiles_are_costly: bool = False

    #: True where tails fall faster than any power of the response, so that all moments exist.
    _tails_are_light: bool = False

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
    def std(self) -> FloatArray:
        """Return the standard deviation of every row, shape (n,)."""

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

    def _log_slope(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Return log dz/dy at values y of scores z."""
        log_slope = self._logpdf(y) - log_normal_density(z)
        far = (np.abs(z) > _FAR) & np.isfinite(y)
        if far.any():  # the logarithms grow like z² and lose all digits of their difference; z itself keeps its own
            step = _STEP * np.abs(y - self._from_z(np.zeros((len(self), 1))))
            rise = self._z(y + step) - self._z(y - step)
            is_known = far & (rise > 0) & np.isfinite(rise)
            ratio = np.log(np.where(is_known, rise, 1.0)) - np.log(np.where(is_known, 2 * step, 1.0))
            log_slope = np.where(is_known, ratio, log_slope)
        return log_slope

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

    def _moments_at(self, scores: Interpolated) -> tuple[FloatArray, FloatArray] | None:
        """Return mean and standard deviation of F⁻¹(Φ(Z)) with Z given by curves of n rows; None if it takes nodes."""
        return None

    def _tail_powers(self) -> FloatArray:
        """Return the powers a of both tails, (n, 2): P(|Y| > y) falls like y^(-a), or faster than any power, a = inf.

        E |Y|^m exists where m < a. Here a is estimated from quantiles, to some per cent.
        """
        if self._tails_are_light:
            return np.full((len(self), 2), np.inf)
        far = np.array([4.0, 5.5, 7.5])  # some families tell no score beyond 8: they have 1 - cdf for a tail
        log_tail = log_ndtr(-far)
        _, _, shapes = self._standard_shapes()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_size = np.log(np.abs(shapes._from_z(np.tile(np.append(-far, far), (len(self), 1)))))
            falls = -np.diff(log_tail) / np.diff(log_size.reshape(-1, 2, 3), axis=2)
        near, farther = falls[:, :, 0], falls[:, :, 1]
        # a power law has the same power again farther out; of lighter tails it grows, for lognormal ones by 6.5 / 4.75
        return np.where((farther > 0) & (farther < 1.2 * near), farther, np.inf)

    # ---- evaluation at values of the response -----------------------------------------------------------------------

    def cdf(self, y: Any) -> FloatArray:
        """Return P(Y <= y).

        Parameters
        ----------
        y : array_like
            A scalar for all rows, (n,) one a row, (n, q) several a row, or (1, q) the same for all rows: a vector v of
            values common to all rows is ``v[np.newaxis]``.

        Returns
        -------
        ndarray
            Shape (n,) for a scalar or (n,), else (n, q).

        Examples
        --------
        >>> import nearcal as nc
        >>> nc.Normal([0.0, 1.0, 2.0], 1.0).cdf([[0.0, 1.0]]).round(2)
        array([[0.5 , 0.84],
               [0.16, 0.5 ],
               [0.02, 0.16]])
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
        with overflow_is_infinite():
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
        return self._evaluate(lambda z: in_order(self._from_z(z), z), z, "z")

    # ---- quantiles, moments, draws ----------------------------------------------------------------------------------

    def ppf(self, p: Any) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        p : array_like
            Probabilities: a scalar, (q,) or (1, q) the same levels for all rows, or (n, q).

        Returns
        -------
        ndarray
            Shape (n,) for a scalar, else (n, q).
        """
        array = as_levels(p)
        n = len(self)
        if array.ndim > 2 or (array.ndim == 2 and len(array) not in (1, n)):
            raise InvalidInputError(f"p must be a scalar or have shape (q,), (1, q) or ({n}, q), got {array.shape}")
        with overflow_is_infinite():
            quantiles = self._ppf(np.broadcast_to(array, (n, array.shape[-1] if array.ndim else 1)))
        return quantiles[:, 0] if array.ndim == 0 else in_order(quantiles, array)

    def median(self) -> FloatArray:
        """Return the median of every row, shape (n,)."""
        return self.ppf(0.5)

    def var(self) -> FloatArray:
        """Return the variance of every row, shape (n,)."""
        with overflow_is_infinite():
            return self.std() ** 2

    def interval(self, coverage: Any = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the central interval that holds ``coverage`` of the probability.

        Parameters
        ----------
        coverage : array_like
            Coverages strictly between 0 and 1: a scalar or (q,).

        Returns
        -------
        lower, upper : ndarray
            Each (n,) for a scalar, else (n, q).

        Examples
        --------
        >>> import nearcal as nc
        >>> lower, upper = nc.Normal([0.0, 1.0], 1.0).interval([0.5, 0.9])
        >>> upper.round(2)
        array([[0.67, 1.64],
               [1.67, 2.64]])
        """
        lower, upper = central_levels(coverage)
        quantiles = self.ppf(np.append(lower, upper))
        if lower.ndim == 0:
            return quantiles[:, 0], quantiles[:, 1]
        return quantiles[:, : lower.size], quantiles[:, lower.size :]

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
        with overflow_is_infinite():
            return self._from_z(as_generator(rng).standard_normal((len(self), size)))

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
        with overflow_is_infinite():
            if array.ndim == 0:
                result = function(np.broadcast_to(array, (n, 1)))[:, 0]
            elif array.shape == (n,):
                result = function(array[:, np.newaxis])[:, 0]
            elif array.ndim == 2 and len(array) in (1, n):
                result = function(np.broadcast_to(array, (n, array.shape[1])))
            else:
                raise InvalidInputError(
                    f"{name} must be a scalar or have shape ({n},), one value a row, ({n}, q), or (1, q), the same "
                    f"values for every row, got {array.shape}; give a vector of values common to all {n} rows as "
                    f"np.reshape({name}, (1, -1))"
                )
        return result


def overflow_is_infinite() -> np.errstate:
    """Return a context without numpy's warnings of overflow: what is too large for a number is infinite."""
    return np.errstate(over="ignore", under="ignore")


def in_order(quantiles: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of shape (n, q) that do not decrease in their levels, of shape (q,), (1, q) or (n, q).

    Series and searches round each quantile by itself: those of levels next to each other may come out in either order.
    """
    n, q = quantiles.shape
    levels = np.broadcast_to(levels, (n, q))
    is_common = levels.strides[0] == 0
    order = np.argsort(levels[:1] if is_common else levels, axis=1, kind="stable")
    ranked = quantiles[:, order[0]] if is_common else np.take_along_axis(quantiles, order, axis=1)
    if (ranked[:, 1:] >= ranked[:, :-1]).all():
        return quantiles
    ordered = np.empty_like(quantiles)
    np.put_along_axis(ordered, np.broadcast_to(order, (n, q)), np.maximum.accumulate(ranked, axis=1), axis=1)
    return ordered


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


def as_level_row(p: Any) -> FloatArray:
    """Validate probabilities that are the same for all rows: a scalar or (q,)."""
    levels = as_levels(p)
    if levels.ndim > 1:
        raise InvalidInputError(f"p must be a scalar or have shape (q,), got {levels.shape}")
    return levels


def central_levels(coverage: Any) -> FloatArray:
    """Return the lower and the upper level of central intervals: (2,) for a scalar, (2, q) for coverages (q,)."""
    level = as_float_array(coverage, "coverage")
    if level.ndim > 1 or not ((level > 0) & (level < 1)).all():
        raise InvalidParameterError(
            f"coverage must lie strictly between 0 and 1, a scalar or of shape (q,), got {coverage!r}; give 95% as 0.95"
        )
    return np.array([0.5 - level / 2, 0.5 + level / 2])


def interval_levels(coverage: float) -> FloatArray:
    """Return the two levels of one central interval."""
    return central_levels(check_coverage(coverage))


def check_coverage(coverage: float) -> float:
    """Validate one coverage, where several make no sense."""
    level = as_float_array(coverage, "coverage")
    if level.ndim or not 0 < level < 1:
        raise InvalidParameterError(
            f"coverage must be one number strictly between 0 and 1, got {coverage!r}; give 95% as 0.95"
        )
    return coverage


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
