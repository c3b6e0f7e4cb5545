"""Covariate shift: weights that make calibration points stand for new ones that lie elsewhere.

If new points differ from calibration points in where they are alone, and not in how wrong the model is there, a
calibration point at x counts as much as the density of new points is higher there: w(x) = f_new(x) / f_cal(x). The
ratio is the odds of a classifier that tells the two sets apart (Bickel, Brückner and Scheffer, 2009), times
n_cal / n_new.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, IntArray, as_space, check_choice
from nearcal._errors import InvalidInputError, InvalidParameterError, OverlapError, OverlapWarning
from nearcal._optional import import_extra
from nearcal._sample_weights import effective_size
from nearcal.space.scaling import Scaling

Classifier = Literal["auto", "logistic", "boosting"]
CLASSIFIERS: tuple[Classifier, ...] = get_args(Classifier)

_FOLDS = 5
_LEAST_POINTS = 20  # of either set
_MOST_NEW = 100_000  # new points that stand for all
_CERTAIN = 1e-4  # no point is taken for calibration or new with more certainty than 1 less this
_FEW, _TOO_FEW = 100.0, 20.0  # effective sizes: of a hundred points the outermost five say where 90% lie, of twenty one
_SMALL, _TOO_SMALL = 0.25, 0.05  # shares of overlap


@dataclass(frozen=True, eq=False)
class ShiftWeights:
    """What :func:`shift_weights` returns; it can be given as ``sample_weight`` as it is.

    Attributes
    ----------
    weights : ndarray of shape (n_cal,)
        Of calibration points, with a mean of 1.
    new_weights : ndarray of shape (n_new,)
        The ratios at new points, in the same units; of at most 100,000 of them.
    effective_size : float
        Kish's (Σ w)² / Σ w²: how many equally weighted calibration points would tell as much.
    overlap : float
        The share that the two distributions have in common, ∫ min(f_cal, f_new), between 0 and 1.
    classifier : str
        What told the two sets apart; "none" if nothing did, and all weights are 1.
    """

    weights: FloatArray
    new_weights: FloatArray
    effective_size: float
    overlap: float
    classifier: str

    @property
    def verdict(self) -> str:
        """A word on the overlap: "no shift found", "ample", "small" or "too small"."""
        if self.classifier == "none":
            return "no shift found"
        if self.effective_size < _TOO_FEW or self.overlap < _TOO_SMALL:
            return "too small"
        return "small" if self.effective_size < _FEW or self.overlap < _SMALL else "ample"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.weights, dtype=dtype)

    def __len__(self) -> int:
        return len(self.weights)

    def __str__(self) -> str:
        return (
            f"Weights of {len(self)} calibration points, worth {self.effective_size:.0f}: overlap {self.overlap:.0%}, "
            f"{self.verdict} (classifier: {self.classifier})"
        )


def shift_weights(space_cal: Any, space_new: Any, *, classifier: Classifier | Any = "auto") -> ShiftWeights:
    """Estimate weights of calibration points that make them stand for new points, where these lie elsewhere.

    A classifier learns to tell new points from calibration points. With its probability p(x) that a point at x is new,
    the ratio of densities is n_cal / n_new · p(x) / (1 - p(x)). Points are cut into five folds, and each is judged by a
    classifier of the other four: none is weighed by one that has seen it.

    Parameters
    ----------
    space_cal : array_like of shape (n_cal, d)
        Where calibration points are: at least 20. The inputs, or what of them may shift.
    space_new : array_like of shape (n_new, d)
        Where new points are, of the kind that will be predicted: at least 20. Responses are not needed. Of more than
        100,000 some drawn at random stand for all.
    classifier : "auto", "logistic", "boosting", or a classifier of scikit-learn's kind
        "logistic" is a logistic regression on standardised columns, right for Normal shifts of the mean; "boosting" is
        scikit-learn's histogram gradient boosting, for any. "auto" takes the one with the smaller log loss on left-out
        points, if that is better than no classifier by more than two standard errors of the difference, and else equal
        weights. A classifier of your own has ``fit``, ``predict_proba``, and can be cloned.

    Returns
    -------
    ShiftWeights

    Warns
    -----
    OverlapWarning
        Where the effective size of the weights is below 100, or the overlap below a quarter.

    Raises
    ------
    OverlapError
        Where the effective size is below 20 or the overlap below 5%.

    Notes
    -----
    The overlap is the mean of min(1, 1 / w(x)) over new points. Weights mend what a shift of x does; where the relation
    of y to x has changed, they do not. They cost information: coverage returns to nominal on average over new points,
    with the sampling error of the effective size.

    References
    ----------
    S. Bickel, M. Brückner and T. Scheffer, *Discriminative Learning Under Covariate Shift*, JMLR 10:2137-2155, 2009.
    R. J. Tibshirani, R. F. Barber, E. J. Candès and A. Ramdas, *Conformal Prediction Under Covariate Shift*,
    NeurIPS 2019, arXiv:1904.06019.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> shift = nc.shift_weights(rng.normal(0, 1, size=2000), rng.normal(0.5, 1, size=2000))
    >>> shift.classifier, shift.verdict
    ('logistic', 'ample')
    >>> bool(shift.effective_size < 2000)
    True
    """
    cal, new = as_space(space_cal, "space_cal"), as_space(space_new, "space_new")
    if cal.shape[1] != new.shape[1]:
        raise InvalidInputError(f"space_new must have {cal.shape[1]} columns as space_cal has, got {new.shape[1]}")
    for name, points in (("space_cal", cal), ("space_new", new)):
        if len(points) < _LEAST_POINTS:
            raise InvalidInputError(
                f"{name} must have at least {_LEAST_POINTS} rows to tell the sets apart, got {len(points)}"
            )
    if len(new) > _MOST_NEW:
        new = new[np.sort(np.random.default_rng(0).permutation(len(new))[:_MOST_NEW])]
    is_new = np.repeat([0, 1], [len(cal), len(new)])
    name, p = _tell_apart(np.concatenate([cal, new]), is_new, classifier)
    p = np.clip(p, _CERTAIN, 1 - _CERTAIN)
    ratio = np.ones(len(p)) if name == "none" else p / (1 - p) * (len(cal) / len(new))
    own, others = ratio[: len(cal)], ratio[len(cal) :]
    overlap = float(np.minimum(1.0, 1 / others).mean())
    found = ShiftWeights(own / own.mean(), others / own.mean(), effective_size(own), overlap, name)
    _judge(found)
    return found


def _tell_apart(points: FloatArray, is_new: IntArray, classifier: Any) -> tuple[str, FloatArray]:
    """Return the name of the classifier that is taken, and the probabilities of points to be new."""
    points = Scaling("standard").learn(points)(points)
    base = np.full(len(points), is_new.mean())
    if not isinstance(classifier, str):
        if not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
            raise InvalidParameterError(
                f"classifier must be one of {', '.join(map(repr, CLASSIFIERS))} or have fit and predict_proba, got "
                f"{classifier!r}"
            )
        return type(classifier).__name__, _left_out(points, is_new, classifier)
    check_choice(classifier, CLASSIFIERS, "classifier")
    if classifier != "auto":
        return classifier, _left_out(points, is_new, _make(classifier))
    found = {name: _left_out(points, is_new, _make(name)) for name in ("logistic", "boosting")}
    best = min(found, key=lambda name: float(_log_loss(found[name], is_new).mean()))
    gain = _log_loss(base, is_new) - _log_loss(found[best], is_new)
    is_better = gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain))
    return (best, found[best]) if is_better else ("none", base)


def _make(name: str) -> Any:
    if name == "logistic":
        return import_extra("sklearn.linear_model", "sklearn", "shift_weights").LogisticRegression(max_iter=1000)
    ensemble = import_extra("sklearn.ensemble", "sklearn", "shift_weights")
    # few leaves and steps: odds of points that are told apart too well are worth nothing
    return ensemble.HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=100, max_leaf_nodes=8, early_stopping=False, random_state=0
    )


def _left_out(points: FloatArray, is_new: IntArray, classifier: Any) -> FloatArray:
    """Return the probability of each point to be new, from a classifier that has not seen it."""
    selection = import_extra("sklearn.model_selection", "sklearn", "shift_weights")
    clone = import_extra("sklearn.base", "sklearn", "shift_weights").clone
    p = np.empty(len(points))
    for train, test in selection.StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(points, is_new):
        p[test] = clone(classifier).fit(points[train], is_new[train]).predict_proba(points[test])[:, 1]
    return p


def _log_loss(p: FloatArray, is_new: IntArray) -> FloatArray:
    p = np.clip(p, _CERTAIN, 1 - _CERTAIN)
    return -np.where(is_new == 1, np.log(p), np.log1p(-p))


def _judge(found: ShiftWeights) -> None:
    """Refuse weights that rest on next to nothing, and warn of those that rest on little."""
    what = (
        f"the weights of {len(found)} calibration points are worth {found.effective_size:.0f} equal ones, and the "
        f"distributions of space_cal and space_new have {found.overlap:.0%} in common"
    )
    if found.verdict == "too small":
        raise OverlapError(
            f"space_new must overlap with space_cal, by {_TOO_SMALL:.0%} and an effective size of {_TOO_FEW:.0f} at "
            f"least: {what}; calibrate on points like the new ones, or leave out columns whose shift does not matter"
        )
    if found.verdict == "small":
        warnings.warn(
            f"{what}: what is learnt with these weights rests on few points (below {_FEW:.0f}, or {_SMALL:.0%}); "
            "calibrate on more points like the new ones if you can",
            OverlapWarning,
            stacklevel=3,
        )
