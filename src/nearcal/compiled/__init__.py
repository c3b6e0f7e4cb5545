"""Compiled recalibration: what neighbourhoods say, learnt once as a small function of the position."""

from nearcal.compiled.compiling import TOLERANCE, Study, compile, loss_of, study
from nearcal.compiled.loss import CompilationLoss
from nearcal.compiled.recalibrator import CompiledRecalibrator

__all__ = ["TOLERANCE", "CompilationLoss", "CompiledRecalibrator", "Study", "compile", "loss_of", "study"]
