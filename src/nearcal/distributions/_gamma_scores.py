"""Normal scores of Gamma distributions of large shape, to which every other formula loses its digits.

With λ = x/a and η²/2 = λ - 1 - log λ (η of the sign of λ - 1), Temme's uniform expansion says that the score of x is
√a (η + δ₁(η)/a + δ₂(η)/a² + …), far into both tails. The δ follow from the density: with η₀ = η + δ₁/a + …,

    exp(-a (η₀² - η²)/2) dη₀/dη = η / ((λ - 1) Γ*(a)),   log Γ*(a) = 1/(12 a) - …,

order by order in 1/a. Cut after δ₂, the score is off by 0.004 a^(-5/2): 1e-15 where this is used.

N. M. Temme, *Asymptotic inversion of incomplete gamma functions*, Mathematics of Computation 58 (1992).
"""

import numpy as np

from nearcal._arrays import FloatArray, IntArray
from nearcal.distributions._inversion import invert_increasing

LARGE_SHAPE = 1e5

# Taylor coefficients of δ₁ and δ₂ at 0, in sympy from the equation above and (λ - 1) dλ/dη = λ η
_DELTA_1 = (
    1 / 3, -1 / 36, -1 / 1620, 7 / 6480, -5 / 18144, 11 / 382725, 101 / 16329600, -37 / 9797760,
    454973 / 498845952000, -1231 / 15913705500, -2745493 / 84737299046400,
)  # fmt: skip
_DELTA_2 = (
    13 / 1620, 119 / 38880, -151 / 102060, 19501 / 73483200, 3019 / 146966400, -50177 / 1763596800,
    263129 / 29099347200,
)  # fmt: skip
_NEAR = 0.1  # of η: closer to 0 the closed forms of δ are differences of nearly equal numbers
_LOWEST, _HIGHEST = -800.0, 709.0  # logarithms between which all floating-point numbers lie


def score(shape: FloatArray, x: FloatArray, log_x: FloatArray) -> FloatArray:
    """Return the normal score of x, not negative, under Gamma distributions of large shape and scale 1.

    ``log_x`` is finite where x is too small for a number, but not 0.
    """
    inside = np.isfinite(log_x) & np.isfinite(x)
    excess, log_ratio = (x - shape) / shape, log_x - np.log(shape)
    z = _score(shape, np.where(inside, excess, 0.0), np.where(inside, log_ratio, 0.0))
    return np.where(inside, z, np.where(x > 0, np.inf, -np.inf))


def quantile(shape: FloatArray, z: FloatArray) -> FloatArray:
    """Return x of scores of shape (n,), the inverse of :func:`score`, by a search for log(x / shape)."""
    result = np.where(z < 0, 0.0, np.inf)
    finite = np.flatnonzero(np.isfinite(z))
    a, target = shape[finite], z[finite]

    def ask(u: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
        excess = np.expm1(u)
        eta = eta_of(excess, u)
        slope = np.divide(excess, eta, out=np.ones_like(u), where=eta != 0)
        return _score(a[which], excess, u), np.sqrt(a[which]) * slope

    relative = target / np.sqrt(a)
    start = np.where(relative > -1, 3 * np.log1p(np.maximum(relative, -1) / 3), -1 - relative**2 / 2)
    highest = _HIGHEST - np.log(a)
    ends = np.full(len(a), _LOWEST), highest
    u = invert_increasing(ask, target, np.clip(start, *ends), *ends)
    result[finite] = np.where(u < highest, a + a * np.expm1(np.minimum(u, highest)), np.inf)
    return result


def eta_of(excess: FloatArray, log_ratio: FloatArray) -> FloatArray:
    """Return η of λ = 1 + excess, given log λ as well."""
    r = np.where(np.abs(excess) < 0.5, excess / (2 + excess), 0.0)
    square, power, total = r * r, np.ones_like(r), np.zeros_like(r)
    for k in range(3, 37, 2):  # excess - log λ = r excess - 2 (r³/3 + r⁵/5 + …), without cancellation
        total += power / k
        power = power * square
    half = np.where(np.abs(excess) < 0.5, r * excess - 2 * r * square * total, excess - log_ratio)
    return np.copysign(np.sqrt(2 * np.maximum(half, 0.0)), excess)


def _score(a: FloatArray, excess: FloatArray, log_ratio: FloatArray) -> FloatArray:
    eta = eta_of(excess, log_ratio)
    near = np.abs(eta) < _NEAR
    small, large = np.where(near, eta, 0.0), np.where(near, -1.0, eta)
    lam_1, lam = np.where(near, -1.0, excess), np.where(near, 1.0, np.exp(log_ratio))
    first = np.log(lam_1 / large) / large
    slope = (lam / lam_1 * (large / lam_1) - 1 / large - first) / large
    second = (slope - first**2 / 2 + 1 / 12) / large
    first = np.where(near, np.polynomial.polynomial.polyval(small, _DELTA_1), first)
    second = np.where(near, np.polynomial.polynomial.polyval(small, _DELTA_2), second)
    return np.sqrt(a) * (eta + (first + second / a) / a)
