"""Comparison of predictive distributions before and after recalibration."""

from nearcal.evaluation._evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
