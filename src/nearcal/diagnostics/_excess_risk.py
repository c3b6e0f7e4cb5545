"""Excess risk of the target coverage: what a classifier gains by telling where the intervals miss."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtr

from nearcal._arrays import FloatArray, IntArray, as_generator, as_space, check_count
from nearcal._errors import InvalidParameterError
from nearcal._optional import import_extra
from nearcal._table import Table
from nearcal.diagnostics.pit_values import is_covered
from nearcal.distributions import Distribution, Seed

_FOLDS = 5
_FEWEST = 5  # rows covered, or missed, that a classifier can learn from: it holds some of them out itself
_MOST_ROWS = 10_000  # that a classifier of a table or a page learns from
_CLIP = 1e-3  # predicted probabilities stay this far from 0 and 1, for the logarithmic loss


def excess_risk(
    dist: Distribution,
    y: Any,
    space: Any,
    *,
    coverage: float = 0.95,
    classifier: Any = None,
    folds: int = _FOLDS,
    rng: Seed = 0,
) -> Table:
    """Return how much better a cross-fitted classifier predicts "covered" than the nominal coverage does.

    If coverage is nominal everywhere no function of the position beats the constant ``coverage``; what a classifier
    gains, in a proper loss, estimates from below the mean divergence of the local coverage from nominal.

    Parameters
    ----------
    dist : Distribution
        Predictive distributions of n rows.
    y : array_like of shape (n,) or (n, 1)
        What was observed.
    space : array_like of shape (n, d)
        What the classifier sees.
    coverage : float
        Nominal coverage of the central intervals.
    classifier : scikit-learn classifier, optional
        With ``fit`` and ``predict_proba``; cloned for every fold. None takes small, early stopped gradient boosting.
    folds : int
        Number of folds, at least 2; each row is predicted by a classifier that did not see it.
    rng : int, numpy.random.Generator or None
        Seed or generator of folds and classifier.

    Returns
    -------
    Table
        ``loss`` ("brier", "log", "l1"), ``excess_risk``, its standard error ``se`` and the one-sided ``p_value`` of
        nominal coverage everywhere. Negative values mean that the classifier found nothing. That of "l1" estimates from
        below by how much local coverage is off nominal, on average: it is in units of coverage.

    Notes
    -----
    A classifier that finds nothing still pays for its own noise, so that where coverage is right the excess is negative
    on average, and being positive would be too strict a test. The p-value takes that cost out: with w the classifier's
    probability less ``coverage`` (Brier loss) or the difference of their logits (logarithmic loss), the excess less
    its mean given w is proportional to Σ w (covered - coverage). Each fold but the first is predicted by a classifier
    trained on the folds before it alone. Under the null hypothesis its sum, divided by the standard deviation
    √(coverage (1 - coverage) Σ w²), is then asymptotically standard Normal whatever the classifier and whatever came
    before; these ratios are added with the roots of the numbers of training rows as weights. With every other fold in
    the training set rows would predict each other, and the test reject too often.

    Needs scikit-learn: ``pip install "nearcal[sklearn]"``.

    References
    ----------
    S. Braun, D. Holzmüller, M. I. Jordan and F. Bach, *Conditional coverage diagnostics for conformal prediction*,
    2025, arXiv:2512.11779.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(size=2000)
    >>> y = rng.normal(0.0, np.where(x < 0.3, 3.0, 1.0))
    >>> table = nc.diagnostics.excess_risk(nc.Normal(np.zeros(2000), 1.5), y, x)
    >>> bool(table["p_value"][0] < 0.001)
    True
    """
    covered = is_covered(dist, y, coverage)
    points = as_space(space, "space", len(covered))
    if check_count(folds, "folds", 2) > len(points):
        raise InvalidParameterError(f"folds must be at most the number of rows, {len(points)}, got {folds}")
    generator = as_generator(rng)
    classifier = _boosting(generator) if classifier is None else classifier
    parts = np.array_split(generator.permutation(len(points)), folds)
    predicted = _predict(points, covered, classifier, parts, _everyone_else(parts))
    constant = np.full(len(points), coverage)
    gains = [_brier(constant, covered) - _brier(predicted, covered)]
    gains.append(_log_loss(constant, covered) - _log_loss(predicted, covered))
    gains.append(_surprise(predicted, covered, coverage))

    earlier = [np.concatenate(parts[:i]) for i in range(1, folds)]
    foretold = _predict(points, covered, classifier, parts[1:], earlier)
    off = foretold - coverage
    weights = np.stack([off, logit(foretold) - logit(coverage), np.sign(off)])
    return Table(
        {
            "loss": ["brier", "log", "l1"],
            "excess_risk": [gain.mean() for gain in gains],
            "se": [gain.std() / np.sqrt(len(gain)) for gain in gains],
            "p_value": _p_values(weights, covered.astype(np.float64) - coverage, coverage, parts[1:], earlier),
        }
    )


def surprises(covered: NDArray[np.bool_], points: FloatArray, coverage: float, rng: Seed = 0) -> FloatArray:
    """Return what every row adds to the excess risk in the L1 loss: its mean is the risk."""
    generator = as_generator(rng)
    parts = np.array_split(generator.permutation(len(points)), min(_FOLDS, len(points)))
    training = [rows[:_MOST_ROWS] for rows in _everyone_else(parts)]
    predicted = _predict(points, covered, _boosting(generator), parts, training)
    return _surprise(predicted, covered, coverage)


def _everyone_else(parts: Sequence[IntArray]) -> list[IntArray]:
    return [np.concatenate([*parts[:i], *parts[i + 1 :]]) for i in range(len(parts))]


def _predict(
    points: FloatArray,
    covered: NDArray[np.bool_],
    classifier: Any,
    parts: Sequence[IntArray],
    training: Sequence[IntArray],
) -> FloatArray:
    """Return the probability of being covered in every part, from a classifier trained on its own training rows."""
    base = import_extra("sklearn.base", "sklearn", "excess_risk")
    predicted = np.full(len(points), np.nan)
    for part, train in zip(parts, training, strict=True):
        if min(covered[train].sum(), (~covered[train]).sum()) < _FEWEST:  # nothing to learn from
            predicted[part] = covered[train].mean()
            continue
        fitted = base.clone(classifier).fit(points[train], covered[train])
        predicted[part] = fitted.predict_proba(points[part])[:, 1]
    return np.clip(predicted, _CLIP, 1 - _CLIP)


def _p_values(
    weights: FloatArray, surprise: FloatArray, coverage: float, parts: Sequence[IntArray], earlier: Sequence[IntArray]
) -> FloatArray:
    """Return the p-value of each row of weights: how likely they go along with the surprises as much by chance."""
    sums = np.stack([(weights[:, part] * surprise[part]).sum(axis=1) for part in parts])
    squares = np.stack([(weights[:, part] ** 2).sum(axis=1) for part in parts])
    ratios = sums / np.sqrt(coverage * (1 - coverage) * np.where(squares > 0, squares, np.inf))
    trust = np.sqrt([len(train) for train in earlier])
    return ndtr(-(trust @ ratios) / np.linalg.norm(trust))


def _boosting(rng: np.random.Generator) -> Any:
    ensemble = import_extra("sklearn.ensemble", "sklearn", "excess_risk")
    return ensemble.HistGradientBoostingClassifier(
        max_depth=3, learning_rate=0.05, min_samples_leaf=50, early_stopping=True, random_state=int(rng.integers(2**31))
    )


def _surprise(probability: FloatArray, covered: NDArray[np.bool_], coverage: float) -> FloatArray:
    """Return covered less nominal, in the direction that was predicted: on average |p - coverage| where p is right."""
    return np.sign(probability - coverage) * (covered - coverage)


def _brier(probability: FloatArray, covered: NDArray[np.bool_]) -> FloatArray:
    return (probability - covered) ** 2


def _log_loss(probability: FloatArray, covered: NDArray[np.bool_]) -> FloatArray:
    return -np.log(np.where(covered, probability, 1 - probability))
