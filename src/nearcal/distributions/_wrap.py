"""Distributions of other libraries as nearcal batches: ``from_scipy`` and ``from_torch``."""

import sys
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from nearcal._arrays import FloatArray, IntArray, as_float_array, require_finite
from nearcal._errors import InvalidInputError
from nearcal._normal_scores import z_from_log_tails
from nearcal.distributions._gamma import Gamma
from nearcal.distributions._mixture import Mixture
from nearcal.distributions._parametric import Laplace, LogNormal, Normal
from nearcal.distributions._student_t import StudentT
from nearcal.distributions.base import Distribution

_Z_REACH = 37.0  # Φ(-37) = 6e-300: beyond it scipy's probabilities underflow


class ScipyDistribution(Distribution):
    """Any continuous scipy distribution, built by :func:`from_scipy`.

    Inside the support normal scores are held within ±37, where the probabilities of scipy end.
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
        with np.errstate(all="ignore"):  # scipy takes logarithms of zero probabilities
            return getattr(self.family, method)(values, *columns)

    def _logcdf(self, y: FloatArray) -> FloatArray:
        return self._call("logcdf", y)

    def _logsf(self, y: FloatArray) -> FloatArray:
        return self._call("logsf", y)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._call("logpdf", y)

    def _z(self, y: FloatArray) -> FloatArray:
        z = np.clip(z_from_log_tails(self._logcdf(y), self._logsf(y)), -_Z_REACH, _Z_REACH)
        lowest, highest = (end[:, np.newaxis] for end in self._support())
        return np.where(y <= lowest, -np.inf, np.where(y >= highest, np.inf, z))

    def _support(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the support of every row, each (n,)."""
        lowest, highest = self.family.support(*self.parameters, loc=self.loc, scale=self.scale)
        return np.broadcast_to(lowest, len(self)), np.broadcast_to(highest, len(self))

    def _from_z(self, z: FloatArray) -> FloatArray:
        tail = np.where(np.isinf(z), np.inf, np.minimum(np.abs(z), _Z_REACH))
        p = np.broadcast_to(ndtr(-tail), (len(self), z.shape[1]))
        return np.where(z < 0, self._call("ppf", p), self._call("isf", p))

    def mean(self) -> FloatArray:
        """Return the mean of every row."""
        return np.asarray(self.family.mean(*self.parameters, loc=self.loc, scale=self.scale), dtype=np.float64)

    def var(self) -> FloatArray:
        """Return the variance of every row."""
        return np.asarray(self.family.var(*self.parameters, loc=self.loc, scale=self.scale), dtype=np.float64)

    def _standard_shapes(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, self._with(loc=np.zeros(len(self)), scale=np.ones(len(self)))

    def _unique_rows(self) -> tuple[Distribution, IntArray]:
        table = np.stack([*self.parameters, self.loc, self.scale], axis=1)
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return self._rows(first), which.reshape(-1)


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
    require_finite(array, "a parameter of frozen")
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
