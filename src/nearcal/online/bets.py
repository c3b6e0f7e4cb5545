"""Bets against calibration: what scores look like when it is lost, and the wealth made by betting on it.

The scores of calibrated predictions are standard Normal, each given those before it. A bet on another distribution
multiplies a stake by the ratio of its density to the standard Normal, which is 1 on average while calibration holds: no
strategy makes money, and by Ville's inequality a wealth that began as 1 ever reaches 1 / a with probability at most a.

The strategy: the wealth is spread over the bets, and over the times at which calibration may be lost. The share of time
t is w_t = 1 / log2(t + 1) - 1 / log2(t + 2), which adds up to 1, and falls so slowly that a late loss costs little. A
bet that begins at t stays in until the end, so that the wealth in one bet follows S <- (S + w_t) · ratio(z_t).
"""

from typing import NamedTuple

import numpy as np

from nearcal._arrays import FloatArray

FARTHEST = 38.0  # Φ(-38) = 3e-316: beyond, scores count as that


class Bet(NamedTuple):
    """A distribution of scores, (1 - share) N(0, 1) + share N(mean, std²), and what it means in plain words."""

    mean: float
    std: float
    share: float
    diagnosis: str

    def log_ratio(self, z: FloatArray) -> FloatArray:
        """Return the logarithm of its density divided by the standard Normal's."""
        other = 0.5 * z * z - 0.5 * ((z - self.mean) / self.std) ** 2 - np.log(self.std)
        return other if self.share == 1 else np.logaddexp(np.log1p(-self.share), np.log(self.share) + other)


TOO_LOW, TOO_HIGH = "predictions are too low", "predictions are too high"
TOO_NARROW, TOO_WIDE = "predictions are too narrow", "predictions are too wide"
OUTLIERS = "tails are too light: some responses lie far outside"

BETS = (
    *(Bet(shift, 1.0, 1.0, TOO_LOW) for shift in (0.25, 0.5, 1.0, 2.0)),
    *(Bet(-shift, 1.0, 1.0, TOO_HIGH) for shift in (0.25, 0.5, 1.0, 2.0)),
    *(Bet(0.0, std, 1.0, TOO_NARROW) for std in (1.25, 1.5, 2.0, 4.0)),
    *(Bet(0.0, std, 1.0, TOO_WIDE) for std in (0.8, 0.65, 0.5, 0.25)),
    *(Bet(0.0, std, 0.05, OUTLIERS) for std in (3.0, 6.0)),
)
_DIAGNOSES = [bet.diagnosis for bet in BETS]
#: The share of wealth in each bet at the start: the diagnoses alike, and the bets of a diagnosis alike.
LOG_STAKES: FloatArray = -np.log([len(set(_DIAGNOSES)) * _DIAGNOSES.count(name) for name in _DIAGNOSES])


def log_ratios(z: FloatArray) -> FloatArray:
    """Return the logarithms of all ratios, (n, bets), of scores of shape (n,)."""
    near = np.clip(z, -FARTHEST, FARTHEST)
    return np.stack([bet.log_ratio(near) for bet in BETS], axis=-1)


def log_shares(first: int, n: int) -> FloatArray:
    """Return log w_t for the n times from ``first`` on, the first time of all being 1."""
    times = np.arange(first, first + n, dtype=np.float64)
    # 1 / log2(t + 1) - 1 / log2(t + 2), without the difference of nearly equal numbers
    return np.log(np.log1p(1 / (times + 1)) * np.log(2.0) / (np.log(times + 1) * np.log(times + 2)))


def grow(log_wealth: FloatArray, log_share: float, log_ratio: FloatArray) -> FloatArray:
    """Return the wealth in each bet after one more score, (..., bets): what was in and what comes in, times ratios."""
    return np.logaddexp(log_wealth, log_share) + log_ratio


def log_total(log_wealth: FloatArray, times: int) -> FloatArray:
    """Return the logarithm of all wealth after so many scores, also what is kept for bets that begin later."""
    rest = -np.log(np.log2(times + 2))
    return np.logaddexp(np.logaddexp.reduce(log_wealth + LOG_STAKES, axis=-1), rest)
