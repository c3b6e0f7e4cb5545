"""Correction of several p-values for being several."""

from typing import Literal, get_args

import numpy as np

from nearcal._arrays import FloatArray, check_choice

Correction = Literal["fdr", "holm", "none"]
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)


def adjust(p_values: FloatArray, correction: Correction) -> FloatArray:
    """Adjust p-values: by Benjamini and Hochberg ("fdr"), by Holm ("holm", family-wise), or not at all."""
    check_choice(correction, CORRECTIONS, "correction")
    if correction == "none":
        return p_values
    if correction == "fdr":
        from scipy.stats import false_discovery_control

        return false_discovery_control(p_values)
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(p_values[order] * (len(p_values) - np.arange(len(p_values))))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
