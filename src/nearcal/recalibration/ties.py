"""Many equal responses, or equal scores: what no recalibration of a continuous prediction can keep, told at the fit.

Rows that share a response have scores of their own, one a prediction, so that a recalibrated distribution spreads the
response's probability around it. ``P(Y <= value)`` is off by up to the share of the value.
"""

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray
from nearcal._errors import TiesWarning, warn_user

# A twentieth is all that a 95% interval leaves out. Rounding alone stays below: of twelve public data sets the most
# frequent response holds 0.02 to 3.2% of the rows (prices in whole dollars 0.2%), and 43% where responses are grades.
MANY = 0.05
_LEAST = 10  # equal rows: of fewer a share says little


def warn_of_ties(y: FloatArray, z: FloatArray | None = None, *, is_continuous: bool = True) -> None:
    """Warn of a response, or a score under continuous predictions, that many rows share.

    Responses whose rows share one score too are an atom of the scores, which is kept.
    """
    value, rows = _most_frequent(y)
    if _are_many(rows) and (z is None or len(np.unique(z[rows])) > 1):
        warn_user(
            f"y_cal has {_share(rows)} responses equal to {value:g}: a recalibrated distribution spreads them around "
            f"{value:g}, and its P(Y <= {value:g}) may be off by as much. No quantile rule mends that. To keep such a "
            'value, take the responses of neighbours as they are, recalibrator=nearcal.KNNRegressor(k, quantile_rule="'
            f'step"), or predict by a classifier whether Y is {value:g}, and calibrate on the other rows alone',
            TiesWarning,
        )
    elif z is not None and is_continuous:
        value, rows = _most_frequent(z)
        if _are_many(rows) and len(np.unique(y[rows])) > 1:
            warn_user(
                f"y_cal has {_share(rows)} responses of the same normal score, {value:g}, under a continuous dist_cal: "
                "predictions that meet their responses so exactly were made with them. Calibrate on rows that the "
                "model was not trained on",
                TiesWarning,
            )


def _most_frequent(values: FloatArray) -> tuple[float, NDArray[np.bool_]]:
    """Return the most frequent value, and where it stands."""
    ordered, counts = np.unique(values, return_counts=True)
    value = float(ordered[np.argmax(counts)])
    return value, values == value


def _are_many(rows: NDArray[np.bool_]) -> bool:
    return bool(rows.sum() >= max(_LEAST, MANY * len(rows)))


def _share(rows: NDArray[np.bool_]) -> str:
    return f"{int(rows.sum())} of {len(rows)} ({rows.mean():.0%})"
