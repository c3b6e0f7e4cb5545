"""By what a model is known again: a recalibration belongs to the errors of one model, and to no other's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, NearcalError
from nearcal._saved import float_array, having, optional, require, savable, text, tuple_of
from nearcal.distributions import Distribution, QuantileAverage
from nearcal.models.adapters import ModelAdapter
from nearcal.models.kept_rows import keep_rows

_LEVELS = (0.1, 0.5, 0.9)
# Of the width between the outer quantiles, or of the range of a column: a thousandth of it changes no recalibrated
# prediction that anyone would notice, and another seed of the same training moves predictions by far more.
TOLERANCE = 1e-3
_ROUNDING = 1e-5  # of the numbers themselves: some hundred roundings of single precision

Run = Callable[[Any], tuple[Distribution, FloatArray | None]]


@savable(
    model=text,
    layers=tuple_of(text),
    rows=optional(having("restore", "nbytes")),
    quantiles=optional(float_array(2)),
    positions=optional(float_array(2)),
)
@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What was seen of a model when it was calibrated.

    Attributes
    ----------
    model : str
        Its class.
    layers : tuple of str
        The names of its layers.
    rows : object or None
        A few inputs of the calibration set, if they were kept.
    quantiles : ndarray of shape (m, 3) or None
        Quantiles of their predictive distributions, at the levels 0.1, 0.5 and 0.9; of several models each
        one's, side by side.
    positions : ndarray of shape (m, d) or None
        Where they lie in the space of the calibration.
    """

    model: str
    layers: tuple[str, ...]
    rows: Any = None
    quantiles: FloatArray | None = None
    positions: FloatArray | None = None

    def __post_init__(self) -> None:
        whole = self.quantiles is None or self.quantiles.shape[1] % len(_LEVELS) == 0
        require(whole, f"quantiles must have {len(_LEVELS)} columns a model")
        require((self.rows is None) == (self.quantiles is None), "rows and quantiles must go together")
        for values in (self.quantiles, self.positions):
            require(values is None or len(values) == len(self.rows), "each row that is kept must have its outputs")

    @classmethod
    def of(cls, adapter: ModelAdapter, X_cal: Any, run: Run, probes: int) -> "Fingerprint":
        """Return the fingerprint of a model, by at most ``probes`` rows; ``run`` is how the calibrated model asks it.

        The model sees the rows as a file gives them back, so that what differs later is the model.
        """
        model, layers = adapter.identity()
        rows = keep_rows(adapter.plain_inputs(X_cal), probes) if probes else None
        if rows is not None:
            try:
                quantiles, positions = _ask(run, rows)
            except NearcalError:  # inputs of a kind that loses something in a file
                return cls(model, layers)
            if np.isfinite(quantiles).all():
                return cls(model, layers, rows, quantiles, positions)
        return cls(model, layers)

    def without_rows(self) -> "Fingerprint":
        """Return what is known of the model itself, without any input of the calibration set."""
        return Fingerprint(self.model, self.layers)

    def require(self, adapter: ModelAdapter, run: Run) -> None:
        """Refuse a model that is not the one that was calibrated.

        Where rows were kept, what it makes of them decides: the same model may come back as another class, such as a
        booster without its scikit-learn interface. Otherwise class and layers do.
        """
        model, layers = adapter.identity()
        differences = [] if self.rows is None else self._differences(run)
        if differences or self.rows is None:
            if model != self.model:
                differences.append(f"it was a {self.model}, and is a {model}")
            if layers != self.layers:
                differences.append(f"its layers were {', '.join(self.layers)}, and are {', '.join(layers)}")
        if differences:
            raise InvalidInputError(
                "model must be the one that was calibrated, with the same options of its adapter, got one that "
                f"differs: {'; '.join(differences)}. Give that model; or calibrate this one anew by nearcal.calibrate; "
                "or, if you know why it may differ, attach(model, check=False)"
            )

    def _differences(self, run: Run) -> list[str]:
        try:
            quantiles, positions = _ask(run, self.rows)
        except NearcalError as error:
            return [f"it cannot take the inputs that were kept ({error})"]
        assert self.quantiles is not None
        found = []
        each = self.quantiles.reshape(len(self.quantiles), -1, len(_LEVELS))
        width = np.repeat(each[:, :, -1] - each[:, :, 0], len(_LEVELS), axis=1)
        off = _excess(quantiles, self.quantiles, TOLERANCE * width)
        if off is not None:
            row, _ = off
            found.append(
                f"of an input that was kept it predicted the quantiles {_words(self.quantiles[row])} at the levels "
                f"{', '.join(map(str, _LEVELS))}, and predicts {_words(quantiles[row])}"
                if row >= 0
                else f"it predicted {len(self.quantiles)} distributions, and predicts {len(quantiles)}"
            )
        if self.positions is not None and positions is not None:
            off = _excess(positions, self.positions, TOLERANCE * np.ptp(self.positions, axis=0))
            if off is not None:
                row, column = off
                found.append(
                    f"in the space of the calibration column {column} of an input was "
                    f"{self.positions[row, column]:.6g}, and is {positions[row, column]:.6g}"
                    if row >= 0
                    else f"positions had the shape {self.positions.shape}, and have {positions.shape}"
                )
        return found


def _ask(run: Run, rows: Any) -> tuple[FloatArray, FloatArray | None]:
    dist, positions = run(rows.restore())
    models = dist.components if isinstance(dist, QuantileAverage) else (dist,)
    return np.hstack([model.ppf(_LEVELS) for model in models]), None if positions is None else np.array(positions)


def _excess(now: FloatArray, then: FloatArray, allowed: FloatArray) -> tuple[int, int] | None:
    """Return the first row and column where two tables differ by more than is allowed; (-1, -1) if their shapes do."""
    if now.shape != then.shape:
        return -1, -1
    rounding = _ROUNDING * np.maximum(np.abs(then), np.abs(then).max(axis=0))
    is_off = ~(np.abs(now - then) <= allowed + rounding)
    if not is_off.any():
        return None
    row, column = np.argwhere(is_off)[0]
    return int(row), int(column)


def _words(quantiles: FloatArray) -> str:
    return ", ".join(f"{value:.6g}" for value in quantiles)
