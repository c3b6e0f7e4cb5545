"""A scikit-learn regressor that predicts recalibrated distributions."""

from nearcal._optional import import_extra

import_extra("sklearn", "sklearn", "nearcal.RecalibratedRegressor")

from nearcal.estimator._recalibrated_regressor import RecalibratedRegressor  # noqa: E402

__all__ = ["RecalibratedRegressor"]
