"""Recalibration by quantile-function regression with a small network (Kuleshov and Deshpande, 2022)."""

from typing import Any, Self

import numpy as np

from nearcal._arrays import FloatArray, as_generator, as_response, as_space, check_count, check_number
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._optional import import_extra
from nearcal._saved import count, flag, float_array, instance, require, savable
from nearcal.distributions import Distribution, Seed, require_distribution
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration._quantile_net_training import QuantileNetwork, Schedule, Standardiser, train
from nearcal.recalibration.base import Recalibrator, weighted_rows
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.scores_of_rows import CurveOfEachRow
from nearcal.recalibration.ties import warn_of_ties

_LEVEL_SCORES = np.linspace(-3.0, 3.0, 61)  # where the learnt quantile function is read
_LARGEST_SCORE = 38.0  # Φ(-38) is the last probability above zero
_LEAST_POINTS = 10


@savable(
    network_=instance(QuantileNetwork),
    losses_=float_array(1),
    features_map_=instance(Standardiser),
    response_map_=instance(Standardiser),
    n_cal_=count(),
)
class QuantileNetRecalibrator(Recalibrator):
    """Learn the quantile function of the response given features of its predictive distribution.

    A network q(τ, features) is trained on a calibration set by the check loss ρ_τ(y - q), with τ drawn afresh from
    (0, 1) for every point and step, so that q(τ, ·) becomes the τ-quantile of Y given the features for all τ at once.
    The features are quantiles of the predictive distribution at equispaced levels: predictions that look alike are
    recalibrated alike, wherever they were made. Any family will do. Needs the extra ``torch``, for ``fit`` only.

    Parameters
    ----------
    n_quantiles : int
        Number of quantiles that describe a predictive distribution, at levels i / (n_quantiles + 1).
    use_space : bool
        Whether the columns of the space are features too.
    hidden : int
        Units in each of the two hidden layers.
    epochs : int
        Most passes over the training part.
    patience : int
        Stop after so many epochs without a better validation loss, and return to the best weights.
    batch_size : int
        Points in a step.
    learning_rate : float
        Step size of Adam.
    rng : int, numpy.random.Generator or None
        Seed or generator of the split, the weights, the batches and τ; torch's own random state is not touched.

    Attributes
    ----------
    network_ : QuantileNetwork
        The trained network, in numpy.
    losses_ : ndarray of shape (epochs run,)
        Mean check loss on the validation part after each epoch, in standard deviations of y.

    Notes
    -----
    As in the authors' experiments: two hidden layers of 20 units with PReLU, each fed with the inputs and all earlier
    layers, τ uniform, Adam, 20 quantiles as features, 80% of the points to train and 20% to stop early (drawn at
    random). Stated choices of ours: quantiles enter as the median and differences from it, τ enters as its normal score
    Φ⁻¹(τ), and everything is standardised; none of it changes what the network is told. The learnt function is read at
    61 levels, equally spaced on the scale of normal scores from -3 to 3, and sorted where it crosses. Scores Z of a row
    are those of these quantiles under its base distribution, with straight lines between them and Normal tails; a
    quantile outside the support counts as its end.

    References
    ----------
    V. Kuleshov and S. Deshpande, *Calibrated and Sharp Uncertainties in Deep Learning via Density Estimation*,
    ICML 2022, arXiv:2112.07184. P. Si, A. Bishop and V. Kuleshov, *Autoregressive Quantile
    Flows for Predictive Uncertainty Estimation*, ICLR 2022, arXiv:2112.04643.

    Examples
    --------
    Predictions of standard deviation 1 are right; those of 2 should have said 6:

    >>> import numpy as np, nearcal as nc
    >>> rng = np.random.default_rng(1)
    >>> said = rng.choice([1.0, 2.0], size=1000)
    >>> y = rng.normal(0.0, np.where(said > 1, 6.0, 1.0))
    >>> rc = nc.QuantileNetRecalibrator(epochs=40, rng=1).fit(nc.Normal(np.zeros(1000), said), y)
    >>> rc.recalibrate(nc.Normal(0.0, [1.0, 2.0])).std().round()
    array([1., 6.])
    """

    network_: QuantileNetwork
    losses_: FloatArray

    _not_updated = "its network was trained on the calibration set as a whole"

    def __init__(
        self,
        *,
        n_quantiles: int = 20,
        use_space: bool = False,
        hidden: int = 20,
        epochs: int = 500,
        patience: int = 30,
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        rng: Seed = None,
    ) -> None:
        self.n_quantiles = n_quantiles
        self.use_space = use_space
        self.hidden = hidden
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.rng = rng

    def fit(self, dist_cal: Distribution, y_cal: Any, space_cal: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from a calibration set that the model was not trained on.

        Parameters
        ----------
        dist_cal : Distribution
            Predictive distributions of the n >= 10 calibration points.
        y_cal : array_like of shape (n,) or (n, 1)
            What was observed; not all equal.
        space_cal : array_like of shape (n, d), optional
            Where they are; used with ``use_space`` only.
        sample_weight : array_like of shape (n,), optional
            How much the loss of each point counts; relative, not negative. Points of weight 0 are as if absent.
        """
        self._check_options()
        rng = as_generator(self.rng)
        torch = import_extra("torch", "torch", "QuantileNetRecalibrator.fit")
        dist, y_cal, space_cal, weights, _ = weighted_rows(dist_cal, y_cal, space_cal, sample_weight)
        features = self._features(dist, space_cal, "cal")
        y = as_response(y_cal, len(dist), "y_cal")
        if len(y) < _LEAST_POINTS or np.ptp(y) == 0:
            raise InvalidInputError(
                f"y_cal must hold at least {_LEAST_POINTS} responses that are not all equal, got {len(y)} with range "
                f"{np.ptp(y):g}; use more calibration points"
            )
        warn_of_ties(y)
        features_map, response_map = Standardiser.learn(features), Standardiser.learn(y[:, np.newaxis])
        schedule = Schedule(self.epochs, self.patience, self.batch_size, float(self.learning_rate))
        inputs, target = features_map(features), response_map(y[:, np.newaxis])
        # training may be interrupted: nothing is set before it ends
        relative = None if weights is None else weights.relative[:, np.newaxis]
        self.network_, self.losses_ = train(torch, inputs, target, self.hidden, schedule, rng, relative)
        self.features_map_, self.response_map_ = features_map, response_map
        self.n_cal_ = len(y)
        return self

    def recalibrate(self, dist_new: Distribution, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows.

        Parameters
        ----------
        dist_new : Distribution
            Predictive distributions of the m new rows, of the kind given to ``fit``.
        space_new : array_like of shape (m, d), optional
            Where they are; used with ``use_space`` only.
        """
        self._require_fitted()
        base = require_distribution(dist_new, "dist_new")
        inputs = self.features_map_(self._features(base, space_new, "new"))
        columns = [self.network_(inputs, np.full((1, 1), score)) for score in _LEVEL_SCORES]
        quantiles = np.sort(self.response_map_.invert(np.concatenate(columns, axis=1)), axis=1)
        scores = np.clip(base.z(quantiles), -_LARGEST_SCORE, _LARGEST_SCORE)
        curve = Interpolated(_LEVEL_SCORES[np.newaxis], scores, normal_tails=True)
        return Recalibrated(base, CurveOfEachRow(Curve(curve)))

    def _features(self, dist: Distribution, space: Any, which: str) -> FloatArray:
        """Return the median, the other quantiles' differences from it, and the space if asked for; (n, f)."""
        median = dist.median()[:, np.newaxis]
        levels = np.arange(1, self.n_quantiles + 1) / (self.n_quantiles + 1)
        features = np.concatenate([median, dist.ppf(levels) - median], axis=1)
        if not self.use_space:
            return features
        if space is None:
            raise InvalidInputError(f"space_{which} must be given with use_space=True, got None")
        features = np.concatenate([features, as_space(space, f"space_{which}", len(dist))], axis=1)
        if which == "new" and features.shape[1] != len(self.features_map_.center):
            known = len(self.features_map_.center) - 1 - self.n_quantiles
            raise InvalidInputError(
                f"space_new must have {known} columns as space_cal had in fit, "
                f"got {features.shape[1] - 1 - self.n_quantiles}"
            )
        return features

    def _check_learnt(self) -> None:
        count()("n_quantiles", self.n_quantiles)
        flag("use_space", self.use_space)
        known = len(self.features_map_.center)
        of_space = known - 1 - self.n_quantiles
        require(
            of_space >= 1 if self.use_space else of_space == 0,
            f"n_quantiles and use_space must fit the {known} features of features_map_, "
            f"got {self.n_quantiles} and {self.use_space}",
        )
        require(
            self.network_.n_features == known,
            f"network_ must take the {known} features of features_map_, got {self.network_.n_features}",
        )
        require(
            len(self.response_map_.center) == 1,
            f"response_map_ must have one column, got {len(self.response_map_.center)}",
        )

    def _check_options(self) -> None:
        for name in ("n_quantiles", "hidden", "epochs", "patience", "batch_size"):
            check_count(getattr(self, name), name)
        check_number(self.learning_rate, "learning_rate", least=0.0, strict=True)
        if not isinstance(self.use_space, bool):
            raise InvalidParameterError(f"use_space must be True or False, got {self.use_space!r}")
