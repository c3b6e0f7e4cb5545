"""Numbers of several seeds, by method and measure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

Values: TypeAlias = dict[str, dict[str, list[float]]]


def collect(seeds: Sequence[Mapping[str, Mapping[str, float]]]) -> Values:
    """Return, by method and measure, one number a seed.

    Examples
    --------
    >>> collect([{"base": {"mse": 1.0}}, {"base": {"mse": 3.0}}])
    {'base': {'mse': [1.0, 3.0]}}
    """
    return {
        method: {measure: [seed[method][measure] for seed in seeds] for measure in measures}
        for method, measures in seeds[0].items()
    }


def means(values: Values) -> dict[str, dict[str, float]]:
    """Return the means over seeds."""
    return {
        method: {measure: float(np.mean(numbers)) for measure, numbers in measures.items()}
        for method, measures in values.items()
    }
