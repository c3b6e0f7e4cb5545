"""Predictions in order of time: a level that is followed online, and a monitor that tells when calibration is lost.

By the one equation a correction of the level is one increasing map of scores, common to all rows. Here it is learnt
from each response as it becomes known, and comes with a promise that needs no assumption about the responses.
"""

from nearcal.online.monitor import Alarm, CalibrationMonitor
from nearcal.online.prediction import OnlinePrediction
from nearcal.online.recalibrator import OnlineRecalibrator

__all__ = ["Alarm", "CalibrationMonitor", "OnlinePrediction", "OnlineRecalibrator"]
