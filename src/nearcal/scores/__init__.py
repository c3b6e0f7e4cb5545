"""Scores of predictive distributions: one number an observation, lower is better; the mean is left to the caller."""

from nearcal.scores import _crps_families, _crps_recalibrated  # noqa: F401 - imported for the families they register
from nearcal.scores._crps import crps
from nearcal.scores._scores import interval_score, kl_divergence, log_score, pinball, smis, squared_error

__all__ = ["crps", "interval_score", "kl_divergence", "log_score", "pinball", "smis", "squared_error"]
