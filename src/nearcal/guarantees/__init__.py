"""Promises of coverage in finite samples: what can be asked for, whose rows are set aside for it, what was given.

A locally recalibrated score is the conformity score of a conformal system on top: any recalibrator of continuous rule
can have a promise (:class:`GuaranteedRecalibrator`), or half of one without setting rows aside
(:class:`CrossRecalibrator`).
"""

from nearcal.guarantees.bent_scores import GuaranteedDistribution, PromisedReading
from nearcal.guarantees.cross_conformal import CrossDistribution, CrossRecalibrator
from nearcal.guarantees.guaranteed import GuaranteedRecalibrator
from nearcal.guarantees.promises import PAC, Cross, Guarantee, Marginal, as_promise, is_names
from nearcal.guarantees.set_aside import Aside

__all__ = [
    "PAC",
    "Aside",
    "Cross",
    "CrossDistribution",
    "CrossRecalibrator",
    "Guarantee",
    "GuaranteedDistribution",
    "GuaranteedRecalibrator",
    "Marginal",
    "PromisedReading",
    "as_promise",
    "is_names",
]
