"""Smoothing kernels K(d / u): how the weight of a calibration point falls with its distance.

``u`` is the distance to the k-th neighbour, or the radius. All kernels vanish beyond u, and with t = d / u they are

- ``epanechnikov``: 1 - t², the paper's choice;
- ``uniform``: 1;
- ``triangular``: 1 - t;
- ``biweight``: (1 - t²)²;
- ``gaussian``: exp(-t² / 2), cut off at t = 1, hence the flattest but for the uniform one.

Weights are normalised to sum 1. Where all vanish (k = 1, or all neighbours at the same distance under a kernel that is
zero at t = 1) the neighbours are weighted equally.
"""

from typing import Literal, get_args

from nearcal._arrays import check_choice

Smoothing = Literal["epanechnikov", "uniform", "triangular", "biweight", "gaussian"]
SMOOTHINGS: tuple[Smoothing, ...] = get_args(Smoothing)


def smoothing_code(name: str) -> int:
    """Return the number under which the compiled kernels know a smoothing kernel."""
    check_choice(name, SMOOTHINGS, "smoothing")
    from nearcal._jit import _weights

    code: int = getattr(_weights, name.upper())
    return code
