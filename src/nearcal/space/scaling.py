"""Scaling of the space before distances are taken: none, standard deviations, whitening, relevance; components."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from nearcal._arrays import FloatArray, check_choice, check_count
from nearcal._errors import InvalidInputError, InvalidParameterError
from nearcal._saved import check_fields, count, declared_checks, float_array, one_of, optional, require, savable, text
from nearcal.space._relevance import learn_relevance

ScalingName = Literal["none", "standard", "whiten", "relevance"]
SCALINGS: tuple[ScalingName, ...] = get_args(ScalingName)

_LARGEST = 1e150  # squared distances must not overflow
_SMALLEST = 1e-150  # nor vanish
_LEAST_DEVIATION = 1e-300  # has an inverse
_NARROW = 256  # columns, or rows: up to so many a full decomposition costs next to nothing
_FEW_OF = 4  # times as many directions as are wanted, from which a partial decomposition is the cheaper one
_ROUNDINGS = 10  # a unit of a network is a sum, with more than one rounding in it


@savable(name=one_of(*SCALINGS), components=optional(count()))
@dataclass(frozen=True)
class Scaling:
    """How to scale a space before distances are taken.

    Parameters
    ----------
    name : {"none", "standard", "whiten", "relevance"}
        "none" leaves the space as it is. "standard" divides every column by its standard deviation; a constant column
        is left as it is. "whiten" rotates to principal components and divides each by its standard deviation
        (Mahalanobis distance); directions in which the calibration set does not vary are dropped, and those in which
        nothing varies but the rounding of float32, where columns hold such numbers. "relevance" multiplies
        standardised columns by the square root of what each tells about the errors of the model, which trees learn
        from the scores; a column that tells nothing is left out. It cannot help where all columns matter alike, and
        with a hundred calibration points or fewer it may leave out a column that matters.
    components : int, optional
        Keep that many principal components of the scaled space, the widest; of a whitened space, whose directions are
        all equally wide, those that were widest before. Asked for more than there are, it keeps all.
    """

    name: ScalingName
    components: int | None = None

    @classmethod
    def of(cls, scaling: "Scaling | str") -> "Scaling":
        """Return a scaling, validated, given one or its name."""
        scaling = scaling if isinstance(scaling, Scaling) else cls(scaling)  # type: ignore[arg-type]
        check_choice(scaling.name, SCALINGS, "scaling")
        if scaling.components is not None:
            check_count(scaling.components, "components")
        return scaling

    def learn(
        self,
        space: FloatArray,
        z: FloatArray | None = None,
        weights: FloatArray | None = None,
        relevance: FloatArray | None = None,
    ) -> "SpaceMap":
        """Learn the map from calibration positions of shape (n, d) and, for relevance, their normal scores.

        Points count by their weights, of mean 1, if there are any. A ``relevance`` of each column is taken as it is.
        """
        _require_moderate(space, "space_cal")
        _require_differences(space)
        center = np.average(space, axis=0, weights=weights)
        matrix: FloatArray | None = None
        if self.name == "standard":
            matrix = _inverse_deviation(space, weights)
        elif self.name == "whiten":
            matrix = _whitening(space, center, weights, self.components)
        elif self.name == "relevance":
            if z is None and relevance is None:
                raise InvalidParameterError(
                    'scaling="relevance" is learnt from the scores of a calibration set, which recalibration has and '
                    'this function has not; use scaling="standard"'
                )
            units = _inverse_deviation(space, weights)
            if relevance is None:
                assert z is not None
                relevance = learn_relevance((space - center) * units, z, weights)
            matrix = units * np.sqrt(relevance)
        if self.components is not None and self.name != "whiten":
            units = np.ones(space.shape[1]) if matrix is None else matrix
            matrix = _reduced(space, center, units, weights, self.components)
        return SpaceMap(center, matrix, "space_new")


@savable(center=float_array(1), matrix=optional(float_array(1, 2)), name=text)
@dataclass(frozen=True)
class SpaceMap:
    """The affine map x -> (x - center) @ matrix learnt from the calibration space."""

    center: FloatArray
    matrix: FloatArray | None
    name: str

    @classmethod
    def _from_saved(cls, saved: Mapping[str, Any]) -> Self:
        space_map = cls(**check_fields(saved, declared_checks(cls)))
        d, matrix = len(space_map.center), space_map.matrix
        if matrix is not None:
            require(len(matrix) == d, f"matrix must have {d} rows, one a column of center, got shape {matrix.shape}")
        return space_map

    @property
    def width(self) -> int:
        """The number of columns after scaling."""
        return len(self.center) if self.matrix is None else self.matrix.shape[-1]

    def __call__(self, space: FloatArray) -> FloatArray:
        """Map positions of shape (n, d) into the space where distances are taken."""
        _require_moderate(space, self.name)
        if self.matrix is None:
            return space
        moved = space - self.center
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            # einsum, not BLAS: a row's result must not depend on the rows beside it
            scaled = np.einsum("nd,d->nd" if self.matrix.ndim == 1 else "nd,de->ne", moved, self.matrix)
        _require_moderate(scaled, f"{self.name} after scaling")
        return np.ascontiguousarray(scaled)


def _reduced(
    space: FloatArray, center: FloatArray, units: FloatArray, weights: FloatArray | None, components: int
) -> FloatArray:
    """Return the matrix to the widest directions of a space whose columns have these units, of which some may be 0."""
    counts = units != 0
    moved = (space[:, counts] - center[counts]) * units[counts]
    matrix = np.zeros((len(units), min(components, *moved.shape)))
    matrix[counts] = units[counts, np.newaxis] * principal_axes(moved, weights, components)[0]
    return matrix


def _inverse_deviation(space: FloatArray, weights: FloatArray | None) -> FloatArray:
    deviation = _deviation(space, weights)
    return 1 / np.where(_vanishes(deviation, space), 1.0, deviation)


def _deviation(space: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the standard deviation of each column, of whatever size: squares are taken in units of a power of two."""
    exponent = np.frexp(np.abs(space).max(axis=0))[1]
    scaled = np.ldexp(space, -exponent)
    if weights is None:
        return np.ldexp(scaled.std(axis=0), exponent)
    moved = scaled - np.average(scaled, axis=0, weights=weights)
    return np.ldexp(np.sqrt(np.average(moved * moved, axis=0, weights=weights)), exponent)


def is_constant(space: FloatArray, weights: FloatArray | None = None) -> NDArray[np.bool_]:
    """Tell which columns do not vary."""
    return _vanishes(_deviation(space, weights), space)


def _vanishes(deviation: FloatArray, space: FloatArray) -> NDArray[np.bool_]:
    # the rounding of the mean gives a constant column a tiny deviation
    return deviation <= constant_limit(np.abs(space).max(axis=0))


def constant_limit(largest: FloatArray) -> FloatArray:
    """Return the deviation up to which a column counts as constant, given its largest magnitude."""
    return np.maximum(1e-14 * largest, _LEAST_DEVIATION)


def _whitening(space: FloatArray, center: FloatArray, weights: FloatArray | None, components: int | None) -> FloatArray:
    moved = np.where(is_constant(space, weights), 0.0, space - center)
    units = _inverse_deviation(
        moved, weights
    )  # first to common units, so that small columns are not taken for rounding
    axes, deviation = principal_axes(moved * units, weights, components)
    noise = np.sqrt(np.square(_rounding(space) * units) @ np.square(axes))
    kept = deviation > noise + deviation.max(initial=0.0) * max(moved.shape) * np.finfo(np.float64).eps
    if not kept.any():
        raise InvalidInputError(
            'space_cal must vary in at least one direction for scaling="whiten", got identical rows; use scaling="none"'
        )
    return units[:, np.newaxis] * axes[:, kept] / deviation[kept]


def _rounding(space: FloatArray) -> FloatArray:
    """Return how far rounding may have moved the numbers of each column."""
    with np.errstate(over="ignore"):
        is_single = (space.astype(np.float32) == space).all(axis=0)
    unit = np.where(is_single, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
    return _ROUNDINGS * unit * np.abs(space).max(axis=0)


def principal_axes(
    moved: FloatArray, weights: FloatArray | None = None, components: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the principal axes of centred positions as columns, widest first, and the deviation along each.

    All, or the widest alone. A few of many take time linear in the number of columns, by Lanczos iterations to the
    precision of a full decomposition.
    """
    if weights is not None:  # of mean 1
        moved = np.sqrt(weights)[:, np.newaxis] * moved
    is_few = components is not None and _FEW_OF * components <= min(moved.shape) and min(moved.shape) > _NARROW
    singular, rows = _leading(moved, components) if components is not None and is_few else _all_axes(moved)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, np.newaxis], axis=1)
    # an axis has no sign of its own: its largest entry shall be positive
    axes, deviation = (rows * np.where(largest < 0, -1.0, 1.0)).T, singular / np.sqrt(len(moved))
    return axes[:, :components], deviation[:components]


def _all_axes(moved: FloatArray) -> tuple[FloatArray, FloatArray]:
    # of the triangular factor: the same axes, without the n left singular vectors, which nobody asks for
    _, singular, rows = np.linalg.svd(np.linalg.qr(moved, mode="r"), full_matrices=False)
    return singular, rows


def _leading(moved: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    from scipy.sparse.linalg import ArpackError, svds

    start = np.random.default_rng(0).normal(size=min(moved.shape))
    try:
        _, singular, rows = svds(moved, count, v0=start)
    except ArpackError:  # iterations may fail to part directions that are equally wide
        return _all_axes(moved)
    order = np.argsort(-singular, kind="stable")
    return np.asarray(singular[order], dtype=np.float64), np.asarray(rows[order], dtype=np.float64)


def _require_differences(space: FloatArray) -> None:
    widest = np.ptp(space, axis=0).max()
    if 0 < widest < _SMALLEST:
        raise InvalidInputError(
            f"space_cal must have rows that are the same or differ by {_SMALLEST:g} and more, since distances are "
            f"squared, got differences of at most {widest:g}; rescale it"
        )


def _require_moderate(space: FloatArray, name: str) -> None:
    largest = np.maximum(space.max(), -space.min())
    if not largest <= _LARGEST:  # NaN too
        raise InvalidInputError(
            f"{name} must hold numbers of magnitude below {_LARGEST:g}, since distances are squared, got {largest:g}; "
            "rescale it"
        )
