"""Batches joined one below the other, as when a model predicts in batches."""

from collections.abc import Sequence

import numpy as np

from nearcal._errors import InvalidInputError
from nearcal.distributions._base import Distribution, ParametricDistribution
from nearcal.distributions._mixture import Mixture


def concatenate(parts: Sequence[Distribution]) -> Distribution:
    """Return the rows of all parts as one batch; the parts are of one parametric family, or mixtures of such."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if len({type(part) for part in parts}) == 1:
        if isinstance(first, ParametricDistribution):
            names = first._parameter_names
            return type(first)(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
        mixtures = [part for part in parts if isinstance(part, Mixture)]
        if mixtures and len({len(part.components) for part in mixtures}) == 1:
            columns = zip(*(part.components for part in mixtures), strict=True)
            return Mixture(np.concatenate([part.weights for part in mixtures]), [concatenate(c) for c in columns])
    raise InvalidInputError(
        "parts must be batches of one parametric family, or mixtures of as many components, got "
        f"{', '.join(sorted({repr(part) for part in parts}))}"
    )
