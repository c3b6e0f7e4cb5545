"""Scores of predictive distributions: one number an observation, lower is better; the mean is left to the caller."""

from nearcal.scores._crps import crps
from nearcal.scores._divergence import kl_divergence
from nearcal.scores._pointwise import log_score, squared_error
from nearcal.scores._quantile_scores import interval_score, pinball, smis

from nearcal.scores._crps_sample import sorted_sample_crps as sorted_sample_crps

__all__ = ["crps", "interval_score", "kl_divergence", "log_score", "pinball", "smis", "squared_error"]
