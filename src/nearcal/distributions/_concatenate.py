"""Batches joined one below the other, as when a model predicts in batches."""

from collections.abc import Sequence

import numpy as np

from nearcal._errors import InvalidInputError
from nearcal.distributions._mixture import Mixture
from nearcal.distributions._quantile_average import QuantileAverage
from nearcal.distributions._quantiles import Quantiles
from nearcal.distributions._samples import Samples
from nearcal.distributions._wrap import ScipyDistribution
from nearcal.distributions.base import Distribution, ParametricDistribution


def concatenate(parts: Sequence[Distribution]) -> Distribution:
    """Return the rows of all parts, which are of one kind, as one batch."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joined = _join(list(parts)) if len({type(part) for part in parts}) == 1 else None
    if joined is None:
        raise InvalidInputError(
            "parts must be batches of one kind: one family, samples of one size, quantiles of the same levels, or "
            f"mixtures and averages of as many components, got {', '.join(sorted({repr(part) for part in parts}))}"
        )
    return joined


def _join(parts: list[Distribution]) -> Distribution | None:
    match parts[0]:
        case ParametricDistribution() as first:
            names = first._parameter_names
            return type(first)(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
        case Mixture() | QuantileAverage():
            return _join_weighted([part for part in parts if isinstance(part, Mixture | QuantileAverage)])
        case Samples():
            return _join_samples([part for part in parts if isinstance(part, Samples)])
        case Quantiles():
            return _join_quantiles([part for part in parts if isinstance(part, Quantiles)])
        case ScipyDistribution():
            return _join_scipy([part for part in parts if isinstance(part, ScipyDistribution)])
    return None


def _join_weighted(parts: "list[Mixture | QuantileAverage]") -> Distribution | None:
    if len({len(part.components) for part in parts}) > 1:
        return None
    columns = zip(*(part.components for part in parts), strict=True)
    weights = np.concatenate([part.weights for part in parts])
    return type(parts[0])(weights, [concatenate(column) for column in columns])


def _join_samples(parts: list[Samples]) -> Samples | None:
    if len({(part.draws.shape[1], part.tails) for part in parts}) > 1:
        return None
    draws = np.concatenate([part.draws for part in parts])
    weights = np.concatenate([np.broadcast_to(part.weights, part.draws.shape) for part in parts])
    return Samples(draws, weights, parts[0].tails)


def _join_quantiles(parts: list[Quantiles]) -> Quantiles | None:
    if len({(tuple(part.levels), part.tails) for part in parts}) > 1:
        return None
    return Quantiles(parts[0].levels, np.concatenate([part.values for part in parts]), parts[0].tails)


def _join_scipy(parts: list[ScipyDistribution]) -> ScipyDistribution | None:
    if len({part.family.name for part in parts}) > 1:
        return None
    parameters = tuple(np.concatenate(column) for column in zip(*(part.parameters for part in parts), strict=True))
    loc, scale = np.concatenate([part.loc for part in parts]), np.concatenate([part.scale for part in parts])
    return ScipyDistribution(parts[0].family, parameters, loc, scale)
