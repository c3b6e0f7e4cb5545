"""Tuning: which space, how many neighbours, which weights, by leave-one-out CRPS on the calibration set."""

from nearcal.tuning._candidates import Candidate
from nearcal.tuning._tune import tune
from nearcal.tuning._tuning import Tuning

__all__ = ["Candidate", "Tuning", "tune"]
