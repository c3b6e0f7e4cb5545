"""A model together with what was learnt from its errors, and the latter alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from nearcal._arrays import FloatArray
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import anything, having, instance, mapping_of, number, optional, savable, text, tuple_of
from nearcal.distributions import Distribution
from nearcal.guarantees import Guarantee, GuaranteedRecalibrator
from nearcal.models.adapters import ColumnsModel, ModelAdapter, adapt
from nearcal.models.adapters.targets import refuse_several_responses
from nearcal.models.fingerprint import Fingerprint
from nearcal.models.promised_groups import groups_of_rows
from nearcal.recalibration import Fade, Recalibrated, Reliability
from nearcal.recalibration.base import is_empty
from nearcal.recalibration.members import all_within
from nearcal.space import Ranges
from nearcal.tuning import Combination, Tuning

_JOINT = " + "


class AnyRecalibrator(Protocol):
    """What every recalibrator can do."""

    def fit(self, dist_cal: Any, y_cal: Any, space_cal: Any) -> Any:
        """Learn from a calibration set."""
        ...

    def recalibrate(self, dist_new: Any, space_new: Any) -> Recalibrated:
        """Return the recalibrated distributions of new rows."""
        ...


@savable(layer=text, ranges=instance(Ranges), false_alarm=number(0.0))
@dataclass(frozen=True)
class Look:
    """A second look at new rows: whether they lie in the ranges of the calibration set, in a layer near the inputs.

    A layer deep in a model, or its leaves, may not show that inputs have left what the model was calibrated on, and
    global recalibration does not look at all.
    """

    layer: str
    ranges: Ranges
    false_alarm: float

    def trust(self, space: FloatArray) -> FloatArray:
        """Return the trust in rows of an (n, d) space; a gap compares as inside, whatever the range."""
        if space.shape[1] != self.ranges.width:
            raise InvalidInputError(
                f"the layer {self.layer!r} must have {self.ranges.width} columns as in the calibration set, got "
                f"{space.shape[1]}; calibrate anew"
            )
        return self.ranges.trust(np.asarray(space, dtype=np.float64))


@savable(
    model=instance(ColumnsModel),
    recalibrator=having("recalibrate", "n_cal_"),
    layer=optional(text),
    reason=text,
    tuning=optional(instance(Tuning, Combination)),
    columns=tuple_of(text),
    fingerprint=optional(instance(Fingerprint)),
    look=optional(instance(Look)),
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
    tuning : Tuning, Combination or None
        All candidates with their scores, of several models and their combinations; None where nothing was left to
        choose.
    columns : tuple of str
        The names of the columns of the calibration inputs, where they were a data frame. Frames of new inputs are
        brought into their order; one without some of them is refused.
    fingerprint : Fingerprint or None
        By what :meth:`Recalibration.attach` knows the model again.
    look : Look or None
        The ranges of the inputs in the calibration set, beyond which rows fade (:class:`nearcal.Fade`); None where
        nothing fades, or where the recalibrator looks at the inputs itself.
    """

    model: ModelAdapter
    recalibrator: AnyRecalibrator
    layer: str | None
    reason: str
    tuning: Tuning | Combination | None = None
    columns: tuple[str, ...] = ()
    fingerprint: Fingerprint | None = None
    look: Look | None = None

    def predict(self, X: Any, *, groups: Any = None) -> Recalibrated:
        """Return the recalibrated predictive distributions of n inputs.

        Parameters
        ----------
        X : array_like
            Inputs, as the model takes them.
        groups : array_like, optional
            Where a promise is made to groups (``guarantee``): those of the inputs, as they were given to
            :class:`nearcal.Marginal`. A promise that was given a function of X, or names of columns, finds them itself.

        Returns
        -------
        Recalibrated
        """
        dist, space, trust = self.rows(X)
        if isinstance(self.recalibrator, GuaranteedRecalibrator):  # what fades does so before the promise is made
            known = groups_of_rows(self.recalibrator.promise, X) if groups is None else groups
            rate = {} if self.look is None else {"false_alarm": self.look.false_alarm}
            return self.recalibrator.recalibrate(dist, space, groups=known, trust=trust, **rate)
        if groups is not None:
            raise InvalidParameterError(f"groups are for a promise to groups, got {groups!r} with {self.guarantee}")
        out = self.recalibrator.recalibrate(dist, space)
        return out if trust is None or self.look is None else out.faded(trust, self.look.false_alarm)

    def rows(self, X: Any) -> tuple[Distribution, FloatArray | None, FloatArray | None]:
        """Return the model's distributions of inputs, where they are, and how far a second look trusts them."""
        X = align(X, self.columns)
        if self.look is None:
            return *run_layer(self.model, X, self.layer), None
        names = [name for name in (self.layer, self.look.layer) if name is not None]
        dist, spaces = run_layers(self.model, X, names)
        space = None if self.layer is None else spaces[self.layer]
        return dist, space, self.look.trust(spaces[self.look.layer])

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised of intervals, in words and numbers; None where nothing is."""
        return getattr(self.recalibrator, "guarantee_", None)

    @property
    def fade(self) -> Fade | None:
        """How rows unlike the calibration set fade; None where none does."""
        corrections = (one for member in all_within(self.recalibrator) for one in getattr(member, "corrections", ()))
        given = [one for one in corrections if isinstance(one, Fade)]
        by_look = None if self.look is None else Fade(self.look.false_alarm)
        return given[0] if given else by_look

    def base(self, X: Any) -> Distribution:
        """Return the model's own predictive distributions, before recalibration."""
        return self.model.distribution(align(X, self.columns))

    def represent(self, X: Any) -> FloatArray | None:
        """Return where inputs lie in the space of the layer, shape (n, d); None where no layer is used."""
        if self.layer is None:
            return None
        X = align(X, self.columns)
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

    # ---- a calibration set that changes ------------------------------------------------------------------------------

    def update(self, X: Any, y: Any) -> Self:
        """Append points to the calibration set: what was predicted, and what happened.

        The model stays as it is, and what was chosen and learnt from the calibration set as a whole: settings, scaling,
        corrections, and the spread of a point prediction. See ``LocalRecalibrator.update``; how the
        recalibrator was tuned (``tuning``) is not looked at again. Predictions made before stay as they were.

        Parameters
        ----------
        X : array_like
            Inputs, as the model takes them; the model must not have been trained on them.
        y : array_like of shape (n,) or (n, 1)
            What was observed. No rows are no error, and change nothing.

        Returns
        -------
        self
            Its ``recalibrator`` has changed; if it fails, nothing has.

        Examples
        --------
        >>> import numpy as np, nearcal as nc
        >>> rng = np.random.default_rng(1)
        >>> X, spread = rng.uniform(size=(2000, 1)), np.repeat([1.0, 3.0], 1000)
        >>> y = rng.normal(X[:, 0], spread)
        >>> line = nc.calibrate(lambda X: X[:, 0], X[:1000], y[:1000], recalibrator=nc.LocalRecalibrator(k=200))
        >>> line.update(X[1000:], y[1000:]).forget(keep_last=500).predict(X[:1]).std().round()
        array([3.])
        """
        refuse_several_responses(y, "y")
        update = self._changing("update")
        if is_empty(y):
            return self
        dist, space = run_layer(self.model, align(X, self.columns), self.layer)
        update(dist, y, space)
        return self

    def forget(self, rows: Any = None, *, keep_last: int | None = None) -> Self:
        """Take points out of the calibration set: some by their place in it, or all but the last.

        Parameters
        ----------
        rows, keep_last
            As in ``LocalRecalibrator.forget``.
        """
        self._changing("forget")(rows, keep_last=keep_last)
        return self

    def relearn(self, *, groups: Any = None, time: Any = None, gap: Any = None) -> Self:
        """Learn scaling and corrections again, with the settings that were chosen; to choose anew, calibrate anew.

        Parameters
        ----------
        groups, time, gap
            As in :func:`nearcal.calibrate`, of the points that the calibration set has now.
        """
        self._changing("relearn")(groups=groups, time=time, gap=gap)
        return self

    def _changing(self, name: str) -> Callable[..., Any]:
        method = getattr(self.recalibrator, name, None)
        if method is None:
            raise InvalidParameterError(
                f"recalibrator must have the method {name}, got {type(self.recalibrator).__name__}; calibrate anew on "
                "the rows that it should know"
            )
        return method

    def compiled(self, recalibrator: AnyRecalibrator, how: str) -> Self:
        """Return the same with its recalibrator compiled; :func:`nearcal.compile` does that.

        How it was tuned holds the exact recalibrator, with all calibration rows, and the fingerprint may hold some
        inputs: neither is kept.

        Parameters
        ----------
        recalibrator : recalibrator
            What was compiled.
        how : str
            What was lost, in words.
        """
        return _compiled(self, recalibrator, how)

    def to_onnx(self, path: Any, X: Any, **options: Any) -> Any:
        """Write model and recalibration to one ONNX file; the model must have been compiled (:func:`nearcal.compile`).

        The file takes inputs ``X`` of shape (n, ...) in single precision, and gives mean, std, lower, upper, quantiles,
        trust and out_of_distribution. Networks of PyTorch can be exported, whatever their layer; models of scikit-learn
        and LightGBM where neighbours were looked for in their inputs and outputs. Needs the extra ``onnx``.

        Parameters
        ----------
        path : str or Path
            Of the file.
        X : array_like
            Some inputs of the model, one or more, to trace it by.
        **options
            ``levels``, ``coverage`` and ``false_alarm``, as in :meth:`nearcal.CompiledRecalibrator.to_onnx`.
        """
        export = getattr(self.recalibrator, "to_onnx", None)
        if export is None:
            raise InvalidParameterError(
                f"recalibrator must be compiled to be exported, got {type(self.recalibrator).__name__}; give the model "
                "to nearcal.compile first"
            )
        from nearcal.models.whole_onnx import whole_model  # which is of models as well

        inputs = align(X, self.columns)
        return export(path, of_model=lambda compiled, wanted: whole_model(compiled, self, inputs, wanted), **options)

    @property
    def recalibration(self) -> "Recalibration":
        """All but the model: what :func:`nearcal.save` keeps."""
        return Recalibration(
            self.recalibrator,
            self.layer,
            self.reason,
            self.tuning,
            self.model.learnt(),
            repr(self.model),
            self.columns,
            self.fingerprint,
            self.look,
        )

    def _to_artefact(self) -> "CalibratedModel | Recalibration":
        # a model of columns is names and numbers; any other is saved by its own framework
        return self if isinstance(self.model, ColumnsModel) else self.recalibration

    def __repr__(self) -> str:
        return f"CalibratedModel of {self.model!r}\n{_description(self)}"


@savable(
    recalibrator=having("recalibrate", "n_cal_"),
    layer=optional(text),
    reason=text,
    tuning=optional(instance(Tuning, Combination)),
    learnt=mapping_of(anything),
    model=text,
    columns=tuple_of(text),
    fingerprint=optional(instance(Fingerprint)),
    look=optional(instance(Look)),
)
@dataclass(frozen=True, repr=False)
class Recalibration:
    """What a calibrated model has learnt, without the model: what :func:`nearcal.load` returns of a saved one.

    Attributes
    ----------
    recalibrator, layer, reason, tuning, columns, fingerprint, look
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
    tuning: Tuning | Combination | None
    learnt: Mapping[str, Any]
    model: str
    columns: tuple[str, ...] = ()
    fingerprint: Fingerprint | None = None
    look: Look | None = None

    def attach(self, model: Any, *, check: bool = True, **adapter_options: Any) -> CalibratedModel:
        """Return the calibrated model, joined again from the model and this.

        Parameters
        ----------
        model : ModelAdapter, or a model that nearcal can adapt
            The model that was calibrated, as its own framework loads it: predictions are then the same to the last
            bit. Another model, even one retrained, makes other errors and asks for a new calibration.
        check : bool
            Whether to refuse a model that is not the one that was calibrated. It is known by what it makes of a few
            inputs that were kept (the ``probes`` of :func:`nearcal.calibrate`): quantiles must agree to a thousandth of
            the distance between the 0.1 and the 0.9 quantile, and positions to a thousandth of the range of their
            column, beside some hundred roundings in single precision: so the same model passes on another machine.
            Without such inputs its class and its layers must be the same.
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
        fresh = adapt(model, **adapter_options)
        try:
            adapter = fresh.with_learnt(self.learnt)
        except (LookupError, TypeError) as error:
            raise InvalidInputError(
                f"model must be the one that was calibrated, {self.model}, got {fresh!r}, which has no use for what "
                f"that one learnt from the calibration set, {', '.join(self.learnt)}; give that model, or calibrate "
                "this one anew"
            ) from error
        if check and self.fingerprint is not None:
            self.fingerprint.require(fresh, lambda X: run_layer(adapter, X, self.layer))
        return CalibratedModel(
            adapter, self.recalibrator, self.layer, self.reason, self.tuning, self.columns, self.fingerprint, self.look
        )

    def compiled(self, recalibrator: AnyRecalibrator, how: str) -> Self:
        """Return the same with its recalibrator compiled, as :meth:`CalibratedModel.compiled`."""
        return _compiled(self, recalibrator, how)

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised of intervals, in words and numbers; None where nothing is."""
        return getattr(self.recalibrator, "guarantee_", None)

    def __repr__(self) -> str:
        return f"Recalibration for {self.model}\n{_description(self)}"


def _compiled(calibrated: Any, recalibrator: AnyRecalibrator, how: str) -> Any:
    is_new = recalibrator is not calibrated.recalibrator
    fingerprint = None if calibrated.fingerprint is None else calibrated.fingerprint.without_rows()
    reason = f"{calibrated.reason}\n{how}" if is_new else calibrated.reason
    return replace(calibrated, recalibrator=recalibrator, reason=reason, tuning=None, fingerprint=fingerprint)


def _description(calibrated: CalibratedModel | Recalibration) -> str:
    where = "" if calibrated.layer is None else f" in layer {calibrated.layer!r}"
    promised = "" if calibrated.guarantee is None else f"\n{calibrated.guarantee}"
    return f"{calibrated.recalibrator!r}{where}\n{calibrated.reason}{promised}"


# ---- names of spaces: a layer of the model, or several joined to one, as in "input + output" ------------------------


def run_layer(adapter: ModelAdapter, X: Any, name: str | None) -> tuple[Distribution, FloatArray | None]:
    """Return the distributions of inputs and their positions in one space; None where there is none."""
    if name is None:
        return adapter.distribution(X), None
    dist, spaces = run_layers(adapter, X, [name])
    return dist, spaces[name]


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


def join_names(spaces: Sequence[str]) -> str | None:
    """Return the name of several spaces side by side; None of none."""
    return _JOINT.join(spaces) or None


def _side_by_side(positions: Sequence[FloatArray]) -> FloatArray:
    return positions[0] if len(positions) == 1 else np.hstack(positions)


# ---- names of columns: a frame in another order is the same frame ---------------------------------------------------


def column_names(X: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame, of pandas or polars; none of what is no frame."""
    names = getattr(X, "columns", None)
    if names is None or isinstance(X, Mapping) or not hasattr(X, "__getitem__"):
        return ()
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else ()


def align(X: Any, columns: tuple[str, ...]) -> Any:
    """Return a frame with the columns of the calibration inputs in their order; what is no frame, as it is."""
    if not columns or getattr(X, "columns", None) is None or column_names(X) == columns:
        return X
    names = list(X.columns)
    missing = [name for name in columns if names.count(name) != 1]
    if missing:
        raise InvalidInputError(
            f"X must have the columns of the calibration inputs, each once, {', '.join(columns)}, got "
            f"{', '.join(map(str, names))}: rename or add {', '.join(missing)}"
        )
    return X[list(columns)]
