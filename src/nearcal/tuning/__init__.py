"""Tuning: which space, how many neighbours, which weights, by leave-one-out CRPS on the calibration set."""

from nearcal.tuning.candidates import Candidate
from nearcal.tuning.choosing import tune
from nearcal.tuning.combining import Combination, combine
from nearcal.tuning.evidence import Tuning

__all__ = ["Candidate", "Combination", "Tuning", "combine", "tune"]
