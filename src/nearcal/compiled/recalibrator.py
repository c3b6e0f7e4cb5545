"""A compiled recalibrator: a small function of the position in place of neighbours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, as_space
from nearcal._errors import InvalidParameterError
from nearcal._saved import count, instance, optional, require, savable, text
from nearcal.compiled.bases import LEVELS
from nearcal.compiled.loss import CompilationLoss
from nearcal.compiled.network import LEVEL_SCORES
from nearcal.compiled.student import Reading, Student
from nearcal.compiled.surroundings import CompiledScores, Surroundings
from nearcal.distributions import Distribution, require_distribution
from nearcal.distributions.interpolation import Interpolated
from nearcal.guarantees.bent_scores import PromisedReading
from nearcal.recalibration import Fade, Recalibrated, Recalibrator
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.scores_of_rows import OneLaw


@savable(
    n_cal_=count(),
    student_=instance(Student, Curve),
    surroundings_=optional(instance(Surroundings)),
    loss_=instance(CompilationLoss),
    source_=text,
)
class CompiledRecalibrator(Recalibrator):
    """What :func:`nearcal.compile` makes of a fitted recalibrator: a small function of the position, learnt once.

    It holds no calibration row: weights of a network, centres between rows, and of every column the range and a few
    quantiles. Results are tables of 31 score quantiles a row, at scores from -3 to 3, with straight lines between them
    and Normal tails beyond, whose slope is that of the line from the middle to the outermost node: finite at any score.

    Attributes
    ----------
    student_ : Student or Curve
        The function; or one law of all rows.
    surroundings_ : Surroundings or None
        What tells rows unlike the calibration set; None where rows are treated alike.
    loss_ : CompilationLoss
        What was lost, by cross-fitting.
    source_ : str
        What was compiled, in words.
    n_cal_ : int
        The number of calibration points that it was learnt from.
    """

    student_: Student | Curve
    surroundings_: Surroundings | None
    loss_: CompilationLoss
    source_: str

    _not_updated = "it was compiled"

    @classmethod
    def of(
        cls,
        student: Student | Curve,
        surroundings: Surroundings | None,
        loss: CompilationLoss,
        source: Any,
        n_cal: int,
    ) -> Self:
        """Put one together."""
        compiled = cls()
        compiled.student_, compiled.surroundings_, compiled.loss_ = student, surroundings, loss
        compiled.source_, compiled.n_cal_ = repr(source), n_cal
        return compiled

    @property
    def width(self) -> int | None:
        """The number of columns of positions; None where rows are treated alike."""
        return None if isinstance(self.student_, Curve) else len(self.student_.features.space_map.center)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of positions, where they are looked at."""
        if self.width is None:
            raise AttributeError("rows are treated alike: their positions have no columns that matter")
        return self.width

    @property
    def corrections(self) -> tuple[Fade, ...]:
        """How rows fade, as it was asked of the exact recalibrator; other corrections are part of the function."""
        fade = None if self.surroundings_ is None else self.surroundings_.fade
        return () if fade is None else (Fade(fade.false_alarm, fade.to),)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.source_}" if hasattr(self, "source_") else super().__repr__()

    def fit(self, dist_cal: Any, y_cal: Any, space_cal: Any = None, **options: Any) -> Self:
        """Refuse: it is made of a fitted recalibrator."""
        raise InvalidParameterError(
            "CompiledRecalibrator cannot be fitted: fit the recalibrator that it stands for, and give that to "
            "nearcal.compile"
        )

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows.

        Parameters
        ----------
        dist_new : Distribution
            Predictive distributions of the m new rows, of any family.
        space_new : array_like of shape (m, d)
            Where they are, in the space given to ``fit``.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        if isinstance(self.student_, Curve):
            return Recalibrated(base, OneLaw(self.student_, self.n_cal_))
        assert self.surroundings_ is not None
        space = as_space(space_new, "space_new", len(base), self.width)
        reading = self.read(space)
        trust = self.surroundings_.trust(space, reading.log_isolation)
        curve = Curve(Interpolated(LEVEL_SCORES[np.newaxis], reading.tables, normal_tails=True))
        return Recalibrated(base, CompiledScores(curve, reading, self.surroundings_, trust, self.n_cal_))

    def read(self, space: FloatArray) -> Reading:
        """Return the table of score quantiles of every row, before any fading, with isolation and effective size."""
        assert isinstance(self.student_, Student)
        assert self.surroundings_ is not None
        reading = self.student_.read(space)
        return reading._replace(log_isolation=self.surroundings_.log_isolation(self.student_, space, reading))

    # ---- export ------------------------------------------------------------------------------------------------------

    def to_onnx(
        self,
        path: str | Path,
        base: Any = None,
        *,
        levels: Any = LEVELS,
        coverage: float = 0.95,
        false_alarm: float = 0.01,
        of_model: Callable[[Self, Any], Any] | None = None,
        promised: PromisedReading | None = None,
    ) -> Path:
        """Write the recalibration to an ONNX file, alone or, from a calibrated model, with the model.

        Standard operators of opset 18, any number of rows; needs the extra ``onnx``. Inputs are in double precision, of
        shape (n, columns): the parameters of the predictive distributions, by the names that their class gives them,
        and ``position``. Outputs are ``mean``, ``std``, ``lower``, ``upper``, ``trust`` and ``out_of_distribution`` of
        shape (n, 1), and ``quantiles`` of shape (n, q).

        Parameters
        ----------
        path : str or Path
            Of the file; what is there is replaced as a whole.
        base : {"normal", "lognormal", "gamma"} or Distribution
            What is recalibrated: a family, or some distributions of it, as for Quantiles and Samples.
        levels : array_like of shape (q,)
            Of the quantiles.
        coverage : float
            Of the central interval (lower, upper).
        false_alarm : float
            The share of rows like the calibration set that may be flagged as out of distribution.
        of_model
            What :meth:`nearcal.CalibratedModel.to_onnx` gives: how this one stands behind its model in one graph.
        promised
            What :meth:`nearcal.GuaranteedRecalibrator.to_onnx` gives: how a promise bends predictions.

        Returns
        -------
        Path
            Of the file.
        """
        from nearcal.compiled import export

        self._require_fitted()
        wanted = export.as_wanted(levels, coverage, false_alarm, promised)
        if of_model is not None:
            return export.write(of_model(self, wanted), path)
        return export.write(export.recalibration_model(self, export.as_family(base), wanted), path)

    def to_torch(
        self,
        base: Any,
        *,
        levels: Any = LEVELS,
        coverage: float = 0.95,
        false_alarm: float = 0.01,
        promised: PromisedReading | None = None,
    ) -> Any:
        """Return the recalibration as a ``torch.nn.Module``, through which gradients pass; needs the extra ``torch``.

        Parameters
        ----------
        base, levels, coverage, false_alarm, promised
            As in :meth:`to_onnx`.

        Returns
        -------
        torch.nn.Module
            Called with the inputs of :meth:`to_onnx` by name, it returns a dictionary of its outputs.
        """
        from nearcal.compiled import export
        from nearcal.compiled.torch_module import RecalibrationModule

        self._require_fitted()
        wanted = export.as_wanted(levels, coverage, false_alarm, promised)
        return RecalibrationModule(self, export.as_family(base), wanted)

    def _refuse_change(self, verb: str) -> Exception:
        return InvalidParameterError(
            f"{type(self).__name__} cannot be {verb}, since {self._not_updated} and keeps no calibration points; keep "
            "the exact recalibrator for that, which nearcal.tune returns with distilled=False, and compile it again"
        )

    def _check_learnt(self) -> None:
        is_shared = isinstance(self.student_, Curve)
        require(is_shared == (self.surroundings_ is None), "surroundings_ must be there unless rows are treated alike")
        if isinstance(self.student_, Student):
            known = len(self.student_.features.space_map.center)
            fade = None if self.surroundings_ is None else self.surroundings_.fade
            width = known if fade is None or fade.ranges is None else fade.ranges.width
            require(width == known, f"the ranges of a fade must be of {known} columns, got {width}")
