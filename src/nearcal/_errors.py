"""The exceptions nearcal raises, and its warnings.

::

    NearcalError
      InvalidInputError (ValueError)       an array has the wrong shape, type or values
      InvalidParameterError (ValueError)   an option is outside its range or contradicts another
      ThinNeighborhoodError (ValueError)   too few calibration points near a row, and it was to be an error
      OverlapError (ValueError)            calibration and new points hardly meet: no weights make up for a shift
      NotFittedError (ValueError, AttributeError)   recalibrate before fit
      MissingExtraError (ImportError)      an optional package is not installed
      CompilationError (ValueError)        compiling a recalibrator would lose more than it may
      ArtefactError (OSError)              a file is damaged, foreign or of a newer format, or cannot be written

    TiesWarning (UserWarning)              many calibration rows share a response
    DependenceWarning (UserWarning)        calibration rows that follow each other err alike
    OutOfDistributionWarning (UserWarning)   many new rows are unlike the calibration set
    OverlapWarning (UserWarning)           weights for a shift leave few calibration points to learn from

Every message names the argument, the rule, the value received and, where there is one, the remedy.
"""

import sys
import warnings


class NearcalError(Exception):
    """Base class of all exceptions raised on purpose by nearcal."""


class InvalidInputError(NearcalError, ValueError):
    """An array argument has the wrong shape, type or values."""


class InvalidParameterError(NearcalError, ValueError):
    """An option is outside its range, unknown, or contradicts another option."""


class ThinNeighborhoodError(NearcalError, ValueError):
    """A row has fewer calibration points near it than asked for, or lies too far from all of them."""


class OverlapError(NearcalError, ValueError):
    """New points lie where there are hardly any calibration points, so that no weights make up for the shift."""


class NotFittedError(NearcalError, ValueError, AttributeError):
    """A recalibrator was used before it was fitted."""


class MissingExtraError(NearcalError, ImportError):
    """A feature needs an optional package that is not installed."""


class CompilationError(NearcalError, ValueError):
    """Compiling a recalibrator would lose more than it may; ``loss`` tells what."""

    def __init__(self, message: str, loss: object = None) -> None:
        super().__init__(message)
        self.loss = loss


class ArtefactError(NearcalError, OSError):
    """A file is not an intact artefact of a format known to this version, or cannot be written where asked."""


class TiesWarning(UserWarning):
    """Many rows of a calibration set share a response, whose probability no continuous prediction can keep."""


class DependenceWarning(UserWarning):
    """Rows of a calibration set that follow each other err alike, as in order of time, and nobody said why."""


class OutOfDistributionWarning(UserWarning):
    """Many new rows are unlike the calibration set; they keep their base distribution, in part or whole."""


class OverlapWarning(UserWarning):
    """Weights that make up for a shift rest on few calibration points."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user that led here."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "nearcal":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
