"""Tests of the uniformity of PIT values."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ai_zeros, airye, ndtr

from nearcal._arrays import FloatArray, as_float_array, check_choice, check_count
from nearcal._table import Table
from nearcal.diagnostics.dependence import effective_share
from nearcal.diagnostics.pit_values import as_pit
from nearcal.space import as_units

UniformityTest = Literal["kolmogorov-smirnov", "cramer-von-mises", "anderson-darling", "frosini"]
UNIFORMITY_TESTS: tuple[UniformityTest, ...] = get_args(UniformityTest)


class Outcome(NamedTuple):
    """Result of one test."""

    statistic: float
    p_value: float


def uniformity_tests(
    p: Any,
    tests: Sequence[UniformityTest] = UNIFORMITY_TESTS,
    *,
    n_cal: int | None = None,
    groups: Any = None,
    time: Any = None,
) -> Table:
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
    groups, time
        Which observations may depend on each other, as in :func:`nearcal.evaluate`; p-values then allow for it.

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

    With ``groups`` or ``time``, n is divided by the design effect, after Rao and Scott (1981): the variance of the mean
    or of the empirical cdf, whichever gives more, by sums over groups or over thirty stretches of time, over that of
    independent values. Tests are then asymptotic in the number of groups.

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
    units = as_units(groups, time, len(values))
    share = independent_share(len(values), n_cal) * effective_share(as_float_array(p, "p").ravel(), units)
    outcomes = [run_test(name, values, share) for name in tests]
    return Table(
        {
            "test": list(tests),
            "statistic": [outcome.statistic for outcome in outcomes],
            "p_value": [outcome.p_value for outcome in outcomes],
            "method": [_method(name, n_cal is not None, units is not None) for name in tests],
        }
    )


def _method(name: str, has_two_samples: bool, has_units: bool) -> str:
    words = ["asymptotic, two samples"] if has_two_samples else ["asymptotic"] if has_units else [_METHODS[name]]
    return ", ".join([*words, "design effect"] if has_units else words)


def independent_share(n: int, n_cal: int | None) -> float:
    """Return the share m / (n + m) of n observations that a comparison with m calibration observations is worth."""
    return 1.0 if n_cal is None else check_count(n_cal, "n_cal") / (n + n_cal)


def run_test(name: str, p: FloatArray, share: float = 1.0) -> Outcome:
    """Run one test on sorted PIT values that are worth only a share of as many independent uniform ones."""
    return _RUNNERS[name](p, share)


def _midpoints(n: int) -> FloatArray:
    return (np.arange(n) + 0.5) / n


def _kolmogorov_smirnov(p: FloatArray, share: float) -> Outcome:
    from scipy.stats import kstwo  # kstest takes 3 times as long and knows of no share

    statistic = float(np.max(np.abs(p - _midpoints(len(p)))) + 0.5 / len(p))
    return Outcome(statistic, float(kstwo.sf(statistic, max(1, round(len(p) * share)))))


def _cramer_von_mises(p: FloatArray, share: float) -> Outcome:
    from scipy.stats import cramervonmises, uniform

    if len(p) == 1:  # scipy wants two; W² = 1/12 + (U - ½)²
        return Outcome(float(1 / 12 + (p[0] - 0.5) ** 2), float(1 - 2 * abs(p[0] - 0.5)))
    result = cramervonmises(p, uniform.cdf)
    p_value = result.pvalue if share == 1 else cramer_von_mises_sf(result.statistic * share)
    return Outcome(float(result.statistic), float(p_value))


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


# ---- null distributions that scipy does not have: limits for large samples ------------------------------------------
# (its anderson has no uniform distribution, its cramervonmises no p-value for two samples, goodness_of_fit simulates)

_PAIRS = 25  # of eigenvalues; enough for statistics above 0.05, below which the probability is 1 to ten digits
_NODES = 64
_AIRY_ZEROS = 60
_ROUNDING = 1e-12


def anderson_darling_sf(statistic: float) -> float:
    """Return P(A² > statistic) in the limit of large n, accurate far into the tail.

    The limit is Σ χ²_j / (j (j + 1)). Smirnov's formula for a weighted sum of χ² variables integrates
    exp(-u x / 2) / (u √|D(u)|) between the zeros j (j + 1) of D(u) = -cos(½ π √(1 + 4u)) / (π u), pair by pair.

    References
    ----------
    T. W. Anderson and D. A. Darling, *Asymptotic theory of certain goodness of fit criteria*, Ann. Math. Stat. 23
    (1952), doi:10.1214/aoms/1177729437. J. Durbin, *Distribution theory for tests based on the sample distribution
    function* (1973), section 4.4.
    """
    if statistic < 0.05:
        return 1.0
    j = np.arange(1.0, 2 * _PAIRS + 1)
    return _smirnov_sf(statistic, j * (j + 1), lambda u: np.cos(np.pi / 2 * np.sqrt(1 + 4 * u)) / (np.pi * u))


def cramer_von_mises_sf(statistic: float) -> float:
    """Return P(W² > statistic) in the limit of large n, accurate far into the tail.

    The limit is Σ χ²_j / (j π)², whose determinant is D(u) = sin(√u) / √u; see :func:`anderson_darling_sf`.
    """
    if statistic < 0.01:
        return 1.0
    j = np.arange(1.0, 2 * _PAIRS + 1)
    return _smirnov_sf(statistic, (j * np.pi) ** 2, lambda u: np.sin(np.sqrt(u)) / np.sqrt(u))


def _smirnov_sf(statistic: float, zeros: FloatArray, determinant: Callable[[FloatArray], FloatArray]) -> float:
    """Return the tail of Σ χ²_j / zeros_j by Smirnov's formula."""
    first, last, k = zeros[::2], zeros[1::2], np.arange(1, len(zeros) // 2 + 1)
    angle, weights = _right_angle_rule()
    # u = middle + half · sin(angle) takes the inverse square roots at both ends away
    half = ((last - first) / 2)[:, np.newaxis]
    u = ((first + last) / 2)[:, np.newaxis] + half * np.sin(angle)
    integrals = (np.exp(-u * statistic / 2) * half * np.cos(angle) / (u * np.sqrt(np.abs(determinant(u))))) @ weights
    return float(np.clip(np.sum(np.where(k % 2 == 1, integrals, -integrals)) / np.pi, 0.0, 1.0))


@cache
def _right_angle_rule() -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights on (-π/2, π/2)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes * np.pi / 2, weights * np.pi / 2


def frosini_sf(statistic: float) -> float:
    """Return P(B > statistic) in the limit of large n, where B is the integral of |Brownian bridge|.

    P(B <= b) = √π Σ δ^(-3/2) ψ(√2 b δ^(-3/2)), over the zeros -δ of Ai', with
    ψ(x) = 3^(2/3) x^(-1/3) exp(-2 / (27 x²)) Ai((3x)^(-4/3)).

    References
    ----------
    B. McK. Johnson and T. Killeen, *An explicit formula for the C.D.F. of the L1 norm of the Brownian bridge*,
    Ann. Probab. 11 (1983), doi:10.1214/aop/1176993528.
    """
    if statistic < 0.02:
        return 1.0
    power = _airy_powers()
    cdf = np.sqrt(np.pi) * np.sum(power * _psi(np.sqrt(2) * statistic * power))
    # the bridge's integral is Normal with variance 1/12, and |∫ bridge| <= ∫ |bridge|: a lower bound, of the right
    # order far out, where 1 - cdf is all rounding
    bound = 2 * ndtr(-np.sqrt(12) * statistic)
    return float(np.clip(1 - cdf, bound, 1.0) if 1 - cdf > _ROUNDING else bound)


@cache
def _airy_powers() -> FloatArray:
    return (-ai_zeros(_AIRY_ZEROS)[1]) ** -1.5


def _psi(x: FloatArray) -> FloatArray:
    argument = (3 * x) ** (-4 / 3)
    # airye is Ai times exp(⅔ argument^(3/2)), and ⅔ argument^(3/2) = 2 / (27 x²)
    return 3 ** (2 / 3) * x ** (-1 / 3) * np.exp(-4 / (27 * x * x)) * airye(argument)[0]
