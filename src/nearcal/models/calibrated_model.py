"""A model together with what was learnt from its errors, and the latter alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._saved import anything, having, instance, mapping_of, optional, savable, text
from nearcal.distributions import Distribution
from nearcal.models.adapters import ColumnsModel, ModelAdapter, adapt
from nearcal.recalibration import Recalibrated, Reliability
from nearcal.tuning import Tuning

_JOINT = " + "


class AnyRecalibrator(Protocol):
    """What every recalibrator can do."""

    def fit(self, dist_cal: Any, y_cal: Any, space_cal: Any) -> Any:
        """Learn from a calibration set."""
        ...

    def recalibrate(self, dist_new: Any, space_new: Any) -> Recalibrated:
        """Return the recalibrated distributions of new rows."""
        ...


@savable(
    model=instance(ColumnsModel),
    recalibrator=having("recalibrate", "n_cal_"),
    layer=optional(text),
    reason=text,
    tuning=optional(instance(Tuning)),
)
@dataclass(frozen=True, repr=False)
class CalibratedModel:
    """A trained model whose predictions are recalibrated; made by :func:`nearcal.calibrate`.

    Attributes
    ----------
    model : ModelAdapter
        The model as nearcal sees it.
    recalibrator : recalibrator
        Fitted on the calibration set.
    layer : str or None
        The space in which neighbours are looked for, several layers joined by " + "; None where recalibration asks for
        none.
    reason : str
        Why these settings were taken.
    tuning : Tuning or None
        All candidates with their scores; None where nothing was left to choose.
    """

    model: ModelAdapter
    recalibrator: AnyRecalibrator
    layer: str | None
    reason: str
    tuning: Tuning | None = None

    def predict(self, X: Any) -> Recalibrated:
        """Return the recalibrated predictive distributions of n inputs.

        Parameters
        ----------
        X : array_like
            Inputs, as the model takes them.

        Returns
        -------
        Recalibrated
        """
        if self.layer is None:
            return self.recalibrator.recalibrate(self.base(X), None)
        dist, spaces = run_layers(self.model, X, [self.layer])
        return self.recalibrator.recalibrate(dist, spaces[self.layer])

    def base(self, X: Any) -> Distribution:
        """Return the model's own predictive distributions, before recalibration."""
        return self.model.distribution(X)

    def represent(self, X: Any) -> FloatArray | None:
        """Return where inputs lie in the space of the layer, shape (n, d); None where no layer is used."""
        if self.layer is None:
            return None
        return _side_by_side([self.model.represent(X, part) for part in layer_parts(self.model, self.layer)])

    def reliability(self, X: Any, false_alarm: float = 0.01) -> Reliability:
        """Tell how far predictions can be trusted: effective size, radius, and whether inputs are out of distribution.

        Parameters
        ----------
        X : array_like
            Inputs, as the model takes them.
        false_alarm : float
            The share of inputs like those of the calibration set that may be flagged as out of distribution.

        Returns
        -------
        Reliability
            As :meth:`Recalibrated.reliability`. Where recalibration looks at no neighbourhood (tuning may leave a good
            model alone) nothing is known of the inputs: NaN, and no flags.
        """
        return self.predict(X).reliability(false_alarm)

    @property
    def recalibration(self) -> "Recalibration":
        """All but the model: what :func:`nearcal.save` keeps."""
        learnt = self.model.learnt()
        return Recalibration(self.recalibrator, self.layer, self.reason, self.tuning, learnt, repr(self.model))

    def _to_artefact(self) -> "CalibratedModel | Recalibration":
        # a model of columns is names and numbers; any other is saved by its own framework
        return self if isinstance(self.model, ColumnsModel) else self.recalibration

    def __repr__(self) -> str:
        return f"CalibratedModel of {self.model!r}\n{_description(self)}"


@savable(
    recalibrator=having("recalibrate", "n_cal_"),
    layer=optional(text),
    reason=text,
    tuning=optional(instance(Tuning)),
    learnt=mapping_of(anything),
    model=text,
)
@dataclass(frozen=True, repr=False)
class Recalibration:
    """What a calibrated model has learnt, without the model: what :func:`nearcal.load` returns of a saved one.

    Attributes
    ----------
    recalibrator, layer, reason, tuning
        As in :class:`CalibratedModel`.
    learnt : dict
        What the model as nearcal sees it took from the calibration set, such as the standard deviation of a point
        prediction.
    model : str
        What the model was, in words.
    """

    recalibrator: AnyRecalibrator
    layer: str | None
    reason: str
    tuning: Tuning | None
    learnt: Mapping[str, Any]
    model: str

    def attach(self, model: Any, **adapter_options: Any) -> CalibratedModel:
        """Return the calibrated model, joined again from the model and this.

        Parameters
        ----------
        model : ModelAdapter, or a model that nearcal can adapt
            The model that was calibrated, as its own framework loads it: predictions are then the same to the last
            bit. Another model, even one retrained, makes other errors and asks for a new calibration.
        **adapter_options
            Those given to :func:`nearcal.calibrate`, such as the head of a network.

        Examples
        --------
        >>> import tempfile, pathlib, numpy as np, nearcal as nc
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(1)
        >>> X = rng.uniform(1, 3, size=(600, 1))
        >>> y = rng.normal(X[:, 0], X[:, 0])
        >>> line = LinearRegression().fit(X[:300], y[:300])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "line.nearcal"
        >>> calibrated = nc.calibrate(line, X[300:], y[300:])
        >>> nc.save(calibrated, path)
        >>> joined = nc.load(path).attach(line)
        >>> (joined.predict(X[:5]).std() == calibrated.predict(X[:5]).std()).all()
        np.True_
        """
        adapter = adapt(model, **adapter_options).with_learnt(self.learnt)
        return CalibratedModel(adapter, self.recalibrator, self.layer, self.reason, self.tuning)

    def __repr__(self) -> str:
        return f"Recalibration for {self.model}\n{_description(self)}"


def _description(calibrated: CalibratedModel | Recalibration) -> str:
    where = "" if calibrated.layer is None else f" in layer {calibrated.layer!r}"
    return f"{calibrated.recalibrator!r}{where}\n{calibrated.reason}"


# ---- names of spaces: a layer of the model, or several joined to one, as in "input + output" ------------------------


def run_layers(adapter: ModelAdapter, X: Any, names: Sequence[str]) -> tuple[Distribution, dict[str, FloatArray]]:
    """Return the distributions of inputs and their positions in spaces, joined ones included, in one pass."""
    parts = {name: layer_parts(adapter, name) for name in names}
    dist, layers = adapter.run(X, list(dict.fromkeys(part for several in parts.values() for part in several)))
    return dist, {name: _side_by_side([layers[part] for part in several]) for name, several in parts.items()}


def layer_parts(adapter: ModelAdapter, name: str) -> list[str]:
    """Return the layers that a space consists of."""
    return [name] if name in adapter.layers() else name.split(_JOINT)


def join_layers(spaces: Mapping[str, FloatArray], parts: Sequence[str]) -> dict[str, FloatArray]:
    """Return several layers as one space, by its name."""
    return {_JOINT.join(parts): _side_by_side([spaces[part] for part in parts])}


def _side_by_side(positions: Sequence[FloatArray]) -> FloatArray:
    return positions[0] if len(positions) == 1 else np.hstack(positions)
