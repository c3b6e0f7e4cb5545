"""Tests of the uniformity of PIT values."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from nearcal._arrays import FloatArray, as_float_array, check_choice, check_count, require_finite
from nearcal._errors import InvalidInputError
from nearcal._table import Table
from nearcal.diagnostics._null_distributions import anderson_darling_sf, cramer_von_mises_sf, frosini_sf

UniformityTest = Literal["kolmogorov-smirnov", "cramer-von-mises", "anderson-darling", "frosini"]
UNIFORMITY_TESTS: tuple[UniformityTest, ...] = get_args(UniformityTest)


class Outcome(NamedTuple):
    """Result of one test."""

    statistic: float
    p_value: float


def uniformity_tests(p: Any, tests: Sequence[UniformityTest] = UNIFORMITY_TESTS, *, n_cal: int | None = None) -> Table:
    """Test whether PIT values are uniform on (0, 1).

    With U_(i) the sorted values, i = 1, …, n:

    - Kolmogorov-Smirnov: D = max over i of max(i/n - U_(i), U_(i) - (i - 1)/n);
    - Cramér-von Mises: W² = 1/(12n) + Σ (U_(i) - (i - ½)/n)²;
    - Anderson-Darling: A² = -n - 1/n Σ (2i - 1) (log U_(i) + log(1 - U_(n+1-i))), which looks hardest at the tails;
    - Frosini, the paper's choice: ``B = n^(-½) Σ |U_(i) - (i - ½)/n|``.

    Parameters
    ----------
    p : array_like of shape (n,)
        PIT values of independent observations, in [0, 1].
    tests : sequence of str
        Names of the tests.
    n_cal : int, optional
        Number m of calibration observations the predictive distributions were recalibrated on; p-values then allow
        for their sampling error. None takes the distributions as known.

    Returns
    -------
    Table
        ``test``, ``statistic``, ``p_value`` and ``method``, the way the p-value was found. A value of exactly 0 or 1
        makes A² infinite and its p-value 0.

    Notes
    -----
    The Kolmogorov-Smirnov p-value is exact, that of Cramér and von Mises has a correction of order 1/n (Csörgő and
    Faraway, 1996), both by scipy. The other two are limits, good from some twenty values on: critical values at 5% are
    2.492 and 0.582.

    A recalibrated distribution carries the sampling error of its m calibration observations, and a test of its PIT
    values on n others is one of two samples: the variance of their empirical cdf is 1 + n/m times that of uniform
    values. Without ``n_cal`` such a test rejects too often: at n = m, a perfect model after global or local
    recalibration is rejected at 5% in 17% (Frosini), 22% (Anderson-Darling) to 29% (Kolmogorov-Smirnov) of cases, at
    n = m/4 still in 10%, at n = 4m in 50% to 80%. With it, n is replaced by n m / (n + m), as in the limit law of two
    samples, and those rates are 2% to 6%. That is for calibration and test rows from one population, and for
    neighbourhoods that tell no more about one row than about another. The smoothing bias of a too wide neighbourhood
    is not allowed for: that is what the test is to find.

    References
    ----------
    B. V. Frosini, *On the distribution and power of a goodness-of-fit statistic with parametric and nonparametric
    applications*, in Goodness-of-fit (1987), 133-154; as in the R package uniftest, ``frosini.unif.test``.

    Examples
    --------
    >>> import numpy as np, nearcal as nc
    >>> p = np.random.default_rng(1).uniform(size=200) ** 1.5
    >>> print(nc.diagnostics.uniformity_tests(p, ["kolmogorov-smirnov", "frosini"]))
    test                statistic    p_value  method
    kolmogorov-smirnov     0.1657  2.879e-05  exact
    frosini                 1.344  3.305e-06  asymptotic
    """
    values = as_pit(p)
    for name in tests:
        check_choice(name, UNIFORMITY_TESTS, "tests")
    share = independent_share(len(values), n_cal)
    outcomes = [run_test(name, values, share) for name in tests]
    return Table(
        {
            "test": list(tests),
            "statistic": [outcome.statistic for outcome in outcomes],
            "p_value": [outcome.p_value for outcome in outcomes],
            "method": [_METHODS[name] if n_cal is None else "asymptotic, two samples" for name in tests],
        }
    )


def independent_share(n: int, n_cal: int | None) -> float:
    """Return the share m / (n + m) of n observations that a comparison with m calibration observations is worth."""
    return 1.0 if n_cal is None else check_count(n_cal, "n_cal") / (n + n_cal)


def as_pit(p: Any) -> FloatArray:
    """Validate PIT values and sort them."""
    array = as_float_array(p, "p")
    if array.ndim != 1 or len(array) == 0:
        raise InvalidInputError(f"p must have shape (n,) with n >= 1, got {array.shape}; use nearcal.diagnostics.pit")
    require_finite(array, "p")
    if array.min() < 0 or array.max() > 1:
        raise InvalidInputError(
            f"p must hold PIT values in [0, 1], got {array.min()!r} to {array.max()!r}; use nearcal.diagnostics.pit"
        )
    return np.sort(array)


def run_test(name: str, p: FloatArray, share: float = 1.0) -> Outcome:
    """Run one test on sorted PIT values that are worth only a share of as many independent uniform ones."""
    return _RUNNERS[name](p, share)


def _midpoints(n: int) -> FloatArray:
    return (np.arange(n) + 0.5) / n


def _kolmogorov_smirnov(p: FloatArray, share: float) -> Outcome:
    from scipy.stats import kstwo

    statistic = float(np.max(np.abs(p - _midpoints(len(p)))) + 0.5 / len(p))
    return Outcome(statistic, float(kstwo.sf(statistic, max(1, round(len(p) * share)))))


def _cramer_von_mises(p: FloatArray, share: float) -> Outcome:
    from scipy.stats import cramervonmises, uniform

    if len(p) == 1:  # scipy wants two; W² = 1/12 + (U - ½)²
        return Outcome(float(1 / 12 + (p[0] - 0.5) ** 2), float(1 - 2 * abs(p[0] - 0.5)))
    found = cramervonmises(p, uniform.cdf)
    p_value = found.pvalue if share == 1 else cramer_von_mises_sf(found.statistic * share)
    return Outcome(float(found.statistic), float(p_value))


def _anderson_darling(p: FloatArray, share: float) -> Outcome:
    n = len(p)
    with np.errstate(divide="ignore"):
        logs = np.log(p) + np.log1p(-p[::-1])
    statistic = float(-n - np.mean((2 * np.arange(n) + 1) * logs))
    return Outcome(statistic, anderson_darling_sf(statistic * share))


def _frosini(p: FloatArray, share: float) -> Outcome:
    statistic = float(np.abs(p - _midpoints(len(p))).sum() / np.sqrt(len(p)))
    return Outcome(statistic, frosini_sf(statistic * np.sqrt(share)))


_RUNNERS: dict[str, Callable[[FloatArray, float], Outcome]] = {
    "kolmogorov-smirnov": _kolmogorov_smirnov,
    "cramer-von-mises": _cramer_von_mises,
    "anderson-darling": _anderson_darling,
    "frosini": _frosini,
}
_METHODS = {
    "kolmogorov-smirnov": "exact",
    "cramer-von-mises": "asymptotic, corrected for n",
    "anderson-darling": "asymptotic",
    "frosini": "asymptotic",
}
