"""Distribution calibration by GP-Beta (Song et al., 2019): a thin interface to the implementation of netcal."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from nearcal._arrays import FloatArray, as_generator, as_response, check_count
from nearcal._errors import InvalidInputError
from nearcal._optional import import_extra
from nearcal.distributions import Distribution, Normal, Seed, require_distribution
from nearcal.distributions.interpolation import Interpolated
from nearcal.recalibration._quantile_net_training import Standardiser
from nearcal.recalibration.base import Recalibrator
from nearcal.recalibration.curve import Curve
from nearcal.recalibration.result import Recalibrated
from nearcal.recalibration.scores_of_rows import CurveOfEachRow
from nearcal.recalibration.ties import warn_of_ties

_BASE_SCORES = np.linspace(-8.0, 8.0, 321)  # where the recalibrated distribution function is evaluated
_LEVEL_SCORES = np.linspace(-3.0, 3.0, 61)  # where its quantiles are read
_LARGEST = 5.0  # netcal returns probabilities in single precision: Φ(-5) is the last with three digits from 1


class GPBetaRecalibrator(Recalibrator):
    """Recalibrate Normal predictions by a Beta map that varies with their mean and standard deviation.

    The recalibrated distribution function is c(F(y)) with c(p) = σ(a log p - b log(1 - p) + c₀), σ the logistic
    function and a, b > 0. A Gaussian process over (mean, standard deviation) gives a, b and c₀ of each prediction; it
    is fitted by variational inference. All of it is done by netcal's ``GPBeta``, this class only brings the data to it:
    it needs the extra ``netcal``, for ``fit`` and ``recalibrate``, and takes Normal predictions only, as netcal does.

    Parameters
    ----------
    n_inducing_points : int
        Number of inducing points of the Gaussian process.
    n_random_samples : int
        Draws from the process in a training step and in a prediction.
    epochs : int
        Passes over the calibration set.
    rng : int, numpy.random.Generator or None
        Seed or generator. netcal draws from torch's global random state, which is put back as it was found.

    Attributes
    ----------
    model_ : netcal.regression.GPBeta
        The fitted model, in standard deviations of y_cal.

    Notes
    -----
    Slow: near a second an epoch for 500 points on two cores. With netcal 1.4 and its defaults the map hardly varied: of
    400 predictions half were one standard deviation off and half three times too narrow, and all got nearly one and
    the same map, from netcal alone as through this class.

    What netcal prints is swallowed. The recalibrated distribution function is read at 321 points; the scores of its
    quantiles at 61 levels, equally spaced on the scale of normal scores from -3 to 3, are joined by straight lines and
    continued by Normal tails. ``fit`` and ``recalibrate`` are not safe to run on several threads at once: torch's
    random state, the warning filters and the log level belong to the process.

    References
    ----------
    H. Song, T. Diethe, M. Kull and P. Flach, *Distribution Calibration for Regression*, ICML 2019, PMLR 97,
    arXiv:1905.06023. F. Küppers, J. Schneider and A. Haselhoff, *Parametric and Multivariate Uncertainty Calibration
    for Regression and Object Detection*, ECCV 2022 Workshops, doi:10.1007/978-3-031-25072-9_30 (netcal).

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=200)
    >>> rc = nc.GPBetaRecalibrator(rng=1).fit(nc.Normal(np.zeros(200), 2.0), y)  # doctest: +SKIP
    >>> rc.recalibrate(nc.Normal([0.0, 10.0], 2.0))  # doctest: +SKIP
    Recalibrated(n=2)
    """

    model_: Any

    _not_saved: ClassVar[str] = "its model belongs to netcal and could only be pickled; fit it again, with the same rng"

    _not_updated = "its Gaussian process was trained on the calibration set as a whole"

    def __init__(
        self, *, n_inducing_points: int = 12, n_random_samples: int = 128, epochs: int = 200, rng: Seed = None
    ) -> None:
        self.n_inducing_points = n_inducing_points
        self.n_random_samples = n_random_samples
        self.epochs = epochs
        self.rng = rng

    def fit(self, dist_cal: Normal, y_cal: Any, space_cal: Any = None) -> Self:
        """Learn from a calibration set; ``space_cal`` is ignored, so that recalibrators are interchangeable."""
        for name in ("n_inducing_points", "n_random_samples", "epochs"):
            check_count(getattr(self, name), name)
        dist = _require_normal(dist_cal, "dist_cal")
        y = as_response(y_cal, len(dist), "y_cal")
        least = max(2, self.n_inducing_points)
        if len(y) < least or np.ptp(y) == 0:
            raise InvalidInputError(
                f"y_cal must hold at least {least} responses that are not all equal, got {len(y)} with range "
                f"{np.ptp(y):g}; use more calibration points or fewer inducing points"
            )
        warn_of_ties(y)
        seed = int(as_generator(self.rng).integers(2**31))
        response_map = Standardiser.learn(y)
        with _quiet_and_seeded(seed):  # the import too: it changes the warning filters
            gp_beta = import_extra("netcal.regression", "netcal", "GPBetaRecalibrator").GPBeta
            model = gp_beta(self.n_inducing_points, self.n_random_samples, n_epochs=self.epochs)
            model.fit(_inputs(dist, response_map), response_map(y))
        self.model_, self.seed_, self.response_map_ = model, seed, response_map
        self.n_cal_ = len(y)
        return self

    def recalibrate(self, dist_new: Normal, space_new: Any = None) -> Recalibrated:
        """Return the recalibrated distributions of new rows; ``space_new`` is ignored."""
        self._require_fitted()
        dist = _require_normal(dist_new, "dist_new")
        mean, scale = _inputs(dist, self.response_map_)
        points = mean + scale * _BASE_SCORES[:, np.newaxis]
        with _quiet_and_seeded(self.seed_):
            cdf = self.model_.transform((mean, scale), points)[2][:, :, 0].astype(np.float64).T
        scores = np.maximum.accumulate(np.clip(ndtri(cdf), -_LARGEST, _LARGEST), axis=1)
        base_scores = np.array([np.interp(_LEVEL_SCORES, row, _BASE_SCORES) for row in scores])
        curve = Interpolated(_LEVEL_SCORES[np.newaxis], base_scores, normal_tails=True)
        return Recalibrated(dist, CurveOfEachRow(Curve(curve)))


def _inputs(dist: Normal, response_map: Standardiser) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation in units of the standardised response."""
    return response_map(dist.loc), dist.scale / response_map.scale


def _require_normal(value: Distribution, name: str) -> Normal:
    dist = require_distribution(value, name)
    if isinstance(dist, Normal):
        return dist
    raise InvalidInputError(
        f"{name} must be a nearcal.Normal, since GP-Beta is defined by mean and standard deviation, got "
        f"{type(dist).__name__}; use another recalibrator, or nearcal.Normal(dist.mean(), dist.std())"
    )


@contextmanager
def _quiet_and_seeded(seed: int) -> Iterator[None]:
    """Seed torch and put its state back; drop netcal's progress bar, log lines and warning about pinned memory."""
    torch = import_extra("torch", "netcal", "GPBetaRecalibrator")
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            yield
    finally:
        logging.disable(disabled)
