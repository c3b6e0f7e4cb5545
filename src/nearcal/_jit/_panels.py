"""Quantile functions known by Chebyshev series on panels, at scores whose Chebyshev polynomials are tabulated."""

from nearcal._jit._compile import inner, kernel, reduction


@kernel
def evaluate_panels(series, panels, polynomials, indices, values):
    """Write the value of each row's function at the scores of its neighbours.

    ``series[row, panel]`` are coefficients; score i lies in ``panels[i]`` and has the polynomials ``polynomials[i]``.
    """
    for row in range(len(indices)):
        _evaluate_row(series[row], panels, polynomials, indices[row], values[row])


@inner
def _evaluate_row(series, panels, polynomials, indices, values):
    for j in range(len(indices)):
        i = indices[j]
        values[j] = _dot(series[panels[i]], polynomials[i])


@reduction
def _dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
