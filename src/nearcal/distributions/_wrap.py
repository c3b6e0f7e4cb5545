"""Distributions of other libraries as nearcal batches: ``from_scipy`` and ``from_torch``."""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray, as_float_array, require_sized
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import log_normal_density, z_from_log_tails
from nearcal.distributions._gamma import Gamma
from nearcal.distributions._inversion import invert_increasing
from nearcal.distributions._mixture import Mixture
from nearcal.distributions._parametric import Laplace, LogNormal, Normal
from nearcal.distributions._student_t import StudentT
from nearcal.distributions.base import Distribution

_AGREE = 1e-7  # relatively: scipy's quantiles are off by less where they are right
_MOST_STEPS = 45  # growing twofold more with every step, they span all floating-point numbers
_LARGEST = np.finfo(np.float64).max
_ONE_AT_A_TIME = threading.Lock()
_Z_REACH = 37.0  # Φ(-37) = 6e-300: beyond it scipy's probabilities underflow


class ScipyDistribution(Distribution):
    """Any continuous scipy distribution, built by :func:`from_scipy`.

    Inside the support normal scores are held within ±37, where the probabilities of scipy end. Quantiles of scipy are
    checked by its distribution function, and searched by it where the two disagree; scores farther out than a family's
    ``logcdf`` and ``logsf`` can tell have the quantile where these end.
    """

    _quantiles_are_costly = True
    family: Any
    parameters: tuple[FloatArray, ...]
    loc: FloatArray
    scale: FloatArray

    def __init__(self, family: Any, parameters: tuple[FloatArray, ...], loc: FloatArray, scale: FloatArray) -> None:
        self._store(family=family, parameters=parameters, loc=loc, scale=scale)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.loc)

    def __repr__(self) -> str:
        return f"ScipyDistribution({self.family.name}, n={len(self)})"

    def _rows(self, rows: IntArray) -> Self:
        parameters = tuple(parameter[rows] for parameter in self.parameters)
        return self._with(parameters=parameters, loc=self.loc[rows], scale=self.scale[rows])

    def _call(self, method: str, values: FloatArray) -> FloatArray:
        columns = [parameter[:, np.newaxis] for parameter in (*self.parameters, self.loc, self.scale)]
        try:
            with _scipy_is_silent():
                return getattr(self.family, method)(values, *columns)
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:
            raise InvalidInputError(
                f"scipy.stats.{self.family.name}.{method} must take arrays of values and parameters, got "
                f"{type(error).__name__}: {error}; use another family, or draws of this one with nearcal.Samples"
            ) from error

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._log_tail("logcdf", "logsf", y)

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._log_tail("logsf", "logcdf", y)

    def _log_tail(self, method: str, other: str, y: FloatArray) -> FloatArray:
        """Return a log-probability, from that of the other tail where scipy does not know it."""
        found = self._call(method, y)
        if not np.isnan(found).any():
            return found
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.isnan(found), np.log1p(-np.exp(np.minimum(self._call(other, y), 0.0))), found)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._call("logpdf", y)

    def _z(self, y: FloatArray) -> FloatArray:
        z = np.clip(self._free_z(y), -_Z_REACH, _Z_REACH)
        lowest, highest = (end[:, np.newaxis] for end in self._support())
        return np.where(y <= lowest, -np.inf, np.where(y >= highest, np.inf, z))

    def _free_z(self, y: FloatArray) -> FloatArray:
        """Return scores as scipy's probabilities give them."""
        return z_from_log_tails(self._logcdf(y), self._logsf(y))

    def _support(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the support of every row, each (n,)."""
        lowest, highest = self.family.support(*self.parameters, loc=self.loc, scale=self.scale)
        return np.broadcast_to(lowest, len(self)), np.broadcast_to(highest, len(self))

    def _from_z(self, z: FloatArray) -> FloatArray:
        z = np.broadcast_to(z, (len(self), z.shape[1]))
        z = np.where(np.isinf(z), z, np.clip(z, -_Z_REACH, _Z_REACH))
        p = ndtr(-np.abs(z))
        values = np.where(z < 0, self._quantiles("ppf", p), self._quantiles("isf", p))
        with np.errstate(invalid="ignore"):
            is_off = ~(np.abs(self._free_z(values) - z) <= _AGREE * np.maximum(np.abs(z), 1.0)) & np.isfinite(z)
        rows, columns = np.nonzero(is_off)
        if len(rows):
            values[rows, columns] = self._rows(rows)._search(z[rows, columns], rows)
        return values

    def _quantiles(self, method: str, p: FloatArray) -> FloatArray:
        """Return what scipy gives as quantiles, NaN where it gives nothing."""
        try:
            return self._call(method, p)
        except InvalidInputError:
            return np.full(p.shape, np.nan)

    def _search(self, z: FloatArray, rows: IntArray) -> FloatArray:
        """Return the values of scores of shape (n,), one a row, by scipy's distribution function alone."""

        def score(y: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
            part = self._rows(which)
            value = part._free_z(y[:, np.newaxis])[:, 0]
            value = np.where(np.isnan(value), np.copysign(np.inf, z[which]), value)  # beyond what scipy can tell
            with np.errstate(over="ignore", invalid="ignore"):
                return value, np.exp(part._logpdf(y[:, np.newaxis])[:, 0] - log_normal_density(value))

        near, far = self._bracket(z, lambda y: score(y, np.arange(len(z)))[0], rows)
        lower, upper = np.minimum(near, far), np.maximum(near, far)
        return invert_increasing(score, z, near, lower, upper)

    def _bracket(
        self, z: FloatArray, score: Callable[[FloatArray], FloatArray], rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Go outwards from the median, ever faster, until the score is passed: where scipy fails it may be so again."""
        quarter, median, three_quarters = self._call("ppf", np.tile([0.25, 0.5, 0.75], (len(self), 1))).T
        if np.isnan(median).any():
            row = int(rows[np.argmax(np.isnan(median))])
            raise InvalidInputError(
                f"scipy.stats.{self.family.name} must tell probabilities of its values, got NaN as the median of row "
                f"{row}; use another family, or draws of this one with nearcal.Samples"
            )
        lowest, highest = self._support()
        is_below = z < score(median)
        end = np.where(is_below, lowest, highest)
        ends = np.isfinite(end)
        width = np.where(is_below, -1.0, 1.0) * np.maximum(three_quarters - quarter, np.spacing(np.abs(median)))
        near, far, is_passed = median.copy(), median.copy(), np.zeros(len(z), dtype=bool)
        for step in range(_MOST_STEPS):
            growth = 2.0 ** (step * (step + 1) / 2)
            with np.errstate(over="ignore"):
                outwards = np.where(ends, end - (np.where(ends, end, 0.0) - median) / growth, median + width * growth)
            ahead = np.where(is_passed, far, np.clip(outwards, -_LARGEST, _LARGEST))
            near, far = np.where(is_passed, near, far), ahead
            at = score(far)
            is_passed |= np.where(is_below, at <= z, at >= z)
            if is_passed.all():
                break
        return near, np.where(is_passed, far, end)

    def mean(self) -> FloatArray:
        """Return the mean of every row."""
        with _scipy_is_silent():
            return np.asarray(self.family.mean(*self.parameters, loc=self.loc, scale=self.scale), dtype=np.float64)

    def std(self) -> FloatArray:
        """Return the standard deviation of every row."""
        with _scipy_is_silent():
            standard = np.asarray(self.family.std(*self.parameters), dtype=np.float64)
            return np.broadcast_to(standard, len(self)) * self.scale

    def _tail_powers(self) -> FloatArray:
        # the moments that scipy knows not to exist bound what is estimated; of lighter tails they may but overflow
        powers = super()._tail_powers()
        with _scipy_is_silent():
            mean, variance = self.family.stats(*self.parameters, moments="mv")
        most = np.where(np.isfinite(mean), np.where(np.isfinite(variance), np.inf, 2.0), 1.0)
        most = np.broadcast_to(most, len(self))[:, np.newaxis]
        return np.where(np.isfinite(powers), np.minimum(powers, most), np.inf)

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, self._with(loc=np.zeros(len(self)), scale=np.ones(len(self)))

    def _unique_rows(self) -> tuple[Distribution, IntArray]:
        table = np.stack([*self.parameters, self.loc, self.scale], axis=1)
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return self._rows(first), which.reshape(-1)


@contextmanager
def _scipy_is_silent() -> Iterator[None]:
    """Let scipy take logarithms of zero, and warn of what is checked afterwards; warnings are no thread's own."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def from_scipy(frozen: Any) -> Distribution:
    """Turn a frozen continuous scipy distribution into a batch.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        Such as ``scipy.stats.gamma(a, scale=s)``; parameters are scalars or have shape (n,).

    Returns
    -------
    Distribution
        The native family for norm, lognorm, gamma, t and laplace (whose scores are exact in the far tails),
        otherwise a :class:`ScipyDistribution`.

    Examples
    --------
    >>> import nearcal as nc
    >>> from scipy import stats
    >>> nc.from_scipy(stats.norm([0.0, 1.0], 2.0))
    Normal(n=2)
    >>> nc.from_scipy(stats.gumbel_r(loc=[0.0, 1.0]))
    ScipyDistribution(gumbel_r, n=2)
    """
    family = getattr(frozen, "dist", None)
    if family is None or not hasattr(family, "logpdf"):
        raise InvalidInputError(
            "frozen must be a frozen continuous scipy.stats distribution such as stats.gamma(2.0), "
            f"got {type(frozen).__name__}"
        )
    shapes, loc, scale = family._parse_args(*frozen.args, **frozen.kwds)
    arrays = [_scipy_parameter(value) for value in (*shapes, loc, scale)]
    *parameters, loc, scale = np.broadcast_arrays(*arrays)
    if not np.all(family._argcheck(*parameters) & (scale > 0)):
        raise InvalidInputError(f"frozen has parameters outside the domain of scipy.stats.{family.name}")
    native = _native_from_scipy(family.name, parameters, loc, scale)
    return native if native is not None else ScipyDistribution(family, tuple(parameters), loc, scale)


def _scipy_parameter(value: Any) -> FloatArray:
    array = np.array(as_float_array(value, "a parameter of frozen"), ndmin=1)  # a copy, to be frozen
    if array.ndim > 1:
        raise InvalidInputError(f"parameters of frozen must be scalars or have shape (n,), got {array.shape}")
    require_sized(array, "a parameter of frozen")
    return array


def _native_from_scipy(
    name: str, parameters: list[FloatArray], loc: FloatArray, scale: FloatArray
) -> Distribution | None:
    unshifted = bool((loc == 0).all())
    if name == "norm":
        return Normal(loc, scale)
    if name == "laplace":
        return Laplace(loc, scale)
    if name == "t":
        return StudentT(parameters[0], loc, scale)
    if name == "gamma" and unshifted:
        return Gamma(parameters[0], scale)
    if name == "lognorm" and unshifted:
        return LogNormal(np.log(scale), parameters[0])
    return None


def from_torch(distribution: Any) -> Distribution:
    """Turn a ``torch.distributions`` object into a batch.

    Parameters
    ----------
    distribution : torch.distributions.Distribution
        Normal, LogNormal, Gamma, Exponential, Chi2, StudentT, Cauchy, Laplace, or a MixtureSameFamily or Independent
        of these, with batch shape (), (n,) or (n, 1).

    Returns
    -------
    Distribution
        The native family. Parameters are detached and copied.

    Examples
    --------
    >>> import nearcal as nc
    >>> import torch
    >>> nc.from_torch(torch.distributions.Normal(torch.zeros(3), 1.0))
    Normal(n=3)
    """
    torch = sys.modules.get("torch")  # whoever holds a torch object has imported torch
    if torch is None or not isinstance(distribution, torch.distributions.Distribution):
        raise InvalidInputError(
            f"distribution must be a torch.distributions.Distribution, got {type(distribution).__name__}"
        )
    if isinstance(distribution, torch.distributions.Independent):
        return from_torch(distribution.base_dist)
    if isinstance(distribution, torch.distributions.MixtureSameFamily):
        return _mixture_from_torch(distribution)
    return _native_from_torch(distribution)


def _native_from_torch(distribution: Any) -> Distribution:
    d = distribution
    match type(d).__name__:
        case "Normal":
            return Normal(d.loc, d.scale)
        case "LogNormal":
            return LogNormal(d.loc, d.scale)
        case "Laplace":
            return Laplace(d.loc, d.scale)
        case "StudentT":
            return StudentT(d.df, d.loc, d.scale)
        case "Cauchy":
            return StudentT(1.0, d.loc, d.scale)
        case "Gamma" | "Chi2":
            return Gamma(d.concentration, 1.0 / d.rate)
        case "Exponential":
            return Gamma(1.0, 1.0 / d.rate)
    raise InvalidInputError(
        f"distribution of type {type(d).__name__} has no nearcal family; draw from it with "
        ".sample((s,)) and pass the transposed draws to nearcal.Samples"
    )


def _mixture_from_torch(distribution: Any) -> Mixture:
    """Split a MixtureSameFamily, whose last batch dimension counts the components."""
    component = _last_event_dropped(distribution.component_distribution)
    count = component.batch_shape[-1]
    names = component.arg_constraints
    if any("logits" in name or "probs" in name for name in names):
        raise InvalidInputError(f"a mixture of {type(component).__name__} has no continuous nearcal family")
    parameters = {name: getattr(component, name).expand(component.batch_shape) for name in names}
    parts = [
        from_torch(type(component)(**{name: value[..., c] for name, value in parameters.items()})) for c in range(count)
    ]
    return Mixture(distribution.mixture_distribution.probs, parts)


def _last_event_dropped(component: Any) -> Any:
    """Unwrap an Independent of events of shape (1,), as mixture density networks often have."""
    if type(component).__name__ != "Independent":
        return component
    if component.event_shape != (1,):
        raise InvalidInputError(
            f"a mixture of Independent must have events of shape (1,), got {tuple(component.event_shape)}"
        )
    base = component.base_dist
    return type(base)(**{name: getattr(base, name).expand(base.batch_shape)[..., 0] for name in base.arg_constraints})
