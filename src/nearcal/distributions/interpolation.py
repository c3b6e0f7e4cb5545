"""Distributions known at a few points, continued between and beyond them on the scale of normal scores.

Knots are pairs (score, value), both increasing along a row: value is the quantile at probability Φ(score). Between
two knots value is linear in the score, so that the points of a Normal distribution give that Normal distribution.
"""

from copy import copy

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from nearcal._arrays import FloatArray, IntArray
from nearcal._normal_scores import log_normal_density, log_tails_from_z

_LOG_HALF = -np.log(2.0)
_DRAWS_TO_TELL_SKEWNESS = 50  # then half of the difference between the tails is believed
_GRID = np.concatenate([np.arange(14) / 2, [7.25, 8.0, 9.0, 11.0, 15.0, 20.0, 27.0, 38.0]])  # Φ(-38) = 3e-316
_EDGES = np.concatenate([-_GRID[:0:-1], _GRID])  # between which a few nodes integrate smooth quantile functions
_NARROW = 1e-4  # of scores: the cube of it is no more than rounding
_NODES, _NODE_WEIGHTS = leggauss(4)
_SMALLEST = np.nextafter(0.0, 1.0)
_FEW_VALUES = 2**12  # for which no kernel need be loaded


class Interpolated:
    """Knots of n rows with straight lines between them and a tail rule beyond.

    Parameters
    ----------
    scores : ndarray of shape (1, s) or (n, s)
        Increasing normal scores; a knot may stand there several times.
    values : ndarray of shape (n, s)
        Non-decreasing values.
    normal_tails : bool
        True continues every row as a Normal tail whose slope is that of the line from the middle of the row to its
        outermost knot. False puts the probability beyond the outermost knots on their values.
    skewness : ndarray of shape (n, 1) or (1, 1), optional
        By how much, between 0 and 1, the slopes of the two tails may differ from that of the whole row: few draws do
        not tell how skewed their distribution is. None lets them differ freely.
    """

    def __init__(
        self, scores: FloatArray, values: FloatArray, *, normal_tails: bool, skewness: FloatArray | None = None
    ) -> None:
        self.scores = scores
        self.values = values
        self.normal_tails = normal_tails
        self.slope_below, self.slope_above = _tail_slopes(scores, values, skewness)
        if not normal_tails:
            self.slope_below = self.slope_above = np.zeros((len(values), 1))

    def has_atoms(self) -> bool:
        """Tell whether some row stays at one value between two different scores."""
        return bool(((np.diff(self.values, axis=1) == 0) & (np.diff(self.scores, axis=1) > 0)).any())

    def affine(self, loc: FloatArray, scale: FloatArray) -> "Interpolated":
        """Return the distributions of loc + scale · Y, for loc and scale of shape (n,)."""
        stretched = copy(self)
        stretched.values = loc[:, np.newaxis] + scale[:, np.newaxis] * self.values
        stretched.slope_below = scale[:, np.newaxis] * self.slope_below
        stretched.slope_above = scale[:, np.newaxis] * self.slope_above
        return stretched

    def take(self, rows: IntArray) -> "Interpolated":
        """Return the chosen rows."""
        taken = copy(self)
        taken.scores = self.scores if len(self.scores) == 1 else self.scores[rows]
        taken.values = self.values[rows]
        taken.slope_below, taken.slope_above = self.slope_below[rows], self.slope_above[rows]
        return taken

    def repeated(self, rows: int) -> "Interpolated":
        """Return the one row of this curve for every one of some rows, without a copy."""
        same = copy(self)
        for name in ("scores", "values", "slope_below", "slope_above"):
            one = getattr(self, name)
            setattr(same, name, np.broadcast_to(one, (rows, one.shape[1])))
        return same

    def lines(self) -> tuple[FloatArray, FloatArray]:
        """Return intercepts and slopes of the s + 1 lines, value against score, tails included; each (n, s + 1)."""
        n, s = self.values.shape
        scores = np.broadcast_to(self.scores, (n, s))
        inner = _slope(np.diff(self.values, axis=1), np.diff(scores, axis=1))
        slopes = np.concatenate([self.slope_below, inner, self.slope_above], axis=1)
        anchor = np.maximum(np.arange(s + 1) - 1, 0)  # each line starts at its left knot, the first at its right
        return self.values[:, anchor] - slopes * scores[:, anchor], slopes

    def z(self, y: FloatArray) -> FloatArray:
        """Return the normal scores of values of shape (n, q), right-continuous at ties; infinite beyond flat tails."""
        right = count_not_above(self.values, y)
        x0, x1, y0, y1 = self._segment(right)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of lines that y is not on
            inner = np.minimum(x0 + (y - y0) / (y1 - y0) * (x1 - x0), x1)
            below = self.scores[:, :1] + (y - self.values[:, :1]) / self.slope_below
            above = self.scores[:, -1:] + (y - self.values[:, -1:]) / self.slope_above
        if not self.normal_tails:
            above = np.full_like(above, np.inf)  # all probability is at or below the last value
        s = self.values.shape[1]
        return np.where(right == 0, below, np.where(right == s, above, inner))

    def log_tails(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the probabilities at or below y and above y."""
        return log_tails_from_z(self.z(y))

    def bounded_z(self, y: FloatArray) -> FloatArray:
        """Return finite normal scores: half of the probability of a flat tail counts as beyond y."""
        if self.normal_tails:
            return self.z(y)
        lowest = ndtri_exp(log_ndtr(self.scores[:, :1]) + _LOG_HALF)
        highest = -ndtri_exp(log_ndtr(-self.scores[:, -1:]) + _LOG_HALF)
        return np.clip(self.z(y), lowest, highest)

    def from_z(self, z: FloatArray) -> FloatArray:
        """Return the values at normal scores of shape (n, q)."""
        z = np.broadcast_to(z, (len(self.values), z.shape[1]))
        if z.size > _FEW_VALUES:
            return self._many_from_z(z)
        right = count_not_above(self.scores, z)
        x0, x1, y0, y1 = self._segment(right)
        inner = _between(np.clip(z, x0, x1), x0, x1, y0, y1)
        below = _extend(self.values[:, :1], z - self.scores[:, :1], self.slope_below)
        above = _extend(self.values[:, -1:], z - self.scores[:, -1:], self.slope_above)
        s = self.values.shape[1]
        return np.where(right == 0, below, np.where(right == s, above, inner))

    def _many_from_z(self, z: FloatArray) -> FloatArray:
        """Return the same, to the last bit, without tables of the knots on either side of every value."""
        from nearcal.kernels import lines

        values = np.empty(z.shape)
        tables = self.scores, self.values, self.slope_below, self.slope_above, z
        lines.read_lines(*(_read_only(_without_copies(table)) for table in tables), values)
        return values

    def logpdf(self, y: FloatArray) -> FloatArray:
        """Return log of φ(z) dz/dy, the density of the continuous part."""
        z = self.z(y)
        is_finite = np.isfinite(z)
        return np.where(is_finite, log_normal_density(np.where(is_finite, z, 0.0)), -np.inf) + self.log_slope(y)

    def log_slope(self, y: FloatArray) -> FloatArray:
        """Return log dz/dy, minus infinity where there is no density."""
        right = count_not_above(self.values, y)
        x0, x1, y0, y1 = self._segment(right)
        s = self.values.shape[1]
        # a knot that stands there twice has no slope, and none is asked for: y then lies beyond the outermost knot
        with np.errstate(divide="ignore", invalid="ignore"):
            log_inner = np.log(x1 - x0) - np.log(y1 - y0)
            log_below = -np.log(self.slope_below) if self.normal_tails else np.full_like(self.slope_below, -np.inf)
            log_above = -np.log(self.slope_above) if self.normal_tails else np.full_like(self.slope_above, -np.inf)
        return np.where(right == 0, log_below, np.where(right == s, log_above, log_inner))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation, exact: each piece is a straight line of a truncated standard Normal."""
        n, s = self.values.shape
        # moments about a central value keep their digits; the middle of the knots may be far from where they lie
        center = self.from_z(np.zeros((n, 1)))[:, 0]
        slopes = np.maximum(self.slope_below, self.slope_above)[:, 0]
        unit = power_of_two(np.maximum((self.values[:, -1] - self.values[:, 0]), slopes))
        standard = self.affine(-center / unit, 1 / unit)
        intercept, slope = standard.lines()
        infinite = np.full((n, 1), np.inf)
        edges = np.concatenate([-infinite, np.broadcast_to(self.scores, (n, s)), infinite], axis=1)
        mass, first, second = _truncated_moments(edges)
        means = intercept * mass + slope * first
        squares = intercept**2 * mass + 2 * intercept * slope * first + slope**2 * second
        # steep lines have large intercepts; where a piece is so narrow, the density hardly changes along it
        left, right = standard.values[:, :-1], standard.values[:, 1:]
        narrow = np.diff(edges[:, 1:-1], axis=1) < _NARROW
        means[:, 1:-1] = np.where(narrow, mass[:, 1:-1] * (left + right) / 2, means[:, 1:-1])
        inner = mass[:, 1:-1] * (left * left + left * right + right * right) / 3
        squares[:, 1:-1] = np.where(narrow, inner, squares[:, 1:-1])
        mean, square = add_up(means), add_up(squares)
        return center + unit * mean, unit * np.sqrt(np.maximum(square - mean**2, 0.0))

    def log_mean_exp(self, factor: FloatArray) -> FloatArray:
        """Return log E exp(factor · Y), exact, for factors of shape (n,): each piece is a shifted Normal integral."""
        n, s = self.values.shape
        infinite = np.full((n, 1), np.inf)
        edges = np.concatenate([-infinite, np.broadcast_to(self.scores, (n, s)), infinite], axis=1)
        intercept, slope = (factor[:, np.newaxis] * table for table in self.lines())
        # ∫ exp(a + b t) φ(t) dt = exp(a + b²/2) ∫ φ(t - b) dt
        lower, upper = edges[:, :-1] - slope, edges[:, 1:] - slope
        flipped = lower > 0
        near, far = np.where(flipped, -lower, upper), np.where(flipped, -upper, lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_near, log_far = log_ndtr(near), log_ndtr(far)
            log_mass = log_near + np.log1p(-np.exp(np.where(log_far < log_near, log_far - log_near, 0.0)))
            terms = np.where(log_far < log_near, intercept + slope**2 / 2 + log_mass, -np.inf)
        top = terms.max(axis=1)
        return top + np.log(add_up(np.exp(terms - top[:, np.newaxis])))

    def at_scores_of(self, scores: "Interpolated") -> "Interpolated":
        """Return the distributions of F⁻¹(Φ(Z)), with F given by these curves and Z by those: pieces stay straight."""
        n, s = self.values.shape
        own = scores.z(np.broadcast_to(self.scores, (n, s)))  # where Z passes the knots
        knots = np.sort(np.concatenate([np.broadcast_to(scores.scores, scores.values.shape), own], axis=1), axis=1)
        read = Interpolated(knots, self.from_z(scores.from_z(knots)), normal_tails=True)
        read.slope_below, read.slope_above = (
            self.slope_below * scores.slope_below,
            self.slope_above * scores.slope_above,
        )
        return read

    def rule(self, cuts: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return values and weights of a quadrature: E g(Y) = Σ weight · g(value) for smooth g, each (n or 1, q).

        A few Gauss-Legendre nodes lie in every piece, and in every cell of a grid of scores: pieces can be long. Scores
        where g has a kink may be given as ``cuts`` of shape (n, c).
        """
        rows = len(self.scores) if cuts is None else len(cuts)
        tables = [np.broadcast_to(self.scores, (rows, self.scores.shape[1])), np.tile(_EDGES, (rows, 1))]
        if cuts is not None:
            tables.append(np.clip(cuts, _EDGES[0], _EDGES[-1]))
        edges = np.sort(np.concatenate(tables, axis=1), axis=1)
        half = np.diff(edges, axis=1)[:, :, np.newaxis] / 2
        at = edges[:, :-1, np.newaxis] + half * (1 + _NODES)
        weights = half * _NODE_WEIGHTS * np.exp(log_normal_density(at))
        at, weights = at.reshape(rows, -1), weights.reshape(rows, -1)
        return self.from_z(np.broadcast_to(at, (len(self.values), at.shape[1]))), weights

    def _segment(self, right: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the ends (score, score, value, value) of the piece to the left of knot ``right``."""
        n, s = self.values.shape
        upper = np.clip(right, 1, s - 1)
        scores = np.broadcast_to(self.scores, (n, s))
        x0, y0 = (np.take_along_axis(knots, upper - 1, axis=1) for knots in (scores, self.values))
        x1, y1 = (np.take_along_axis(knots, upper, axis=1) for knots in (scores, self.values))
        return x0, x1, y0, y1


def through_draws(draws: FloatArray, weights: FloatArray, size: FloatArray | None = None) -> Interpolated:
    """Return the curve through about 2 √n of n sorted draws, evenly spaced on the scale of normal scores.

    Each stands at the middle of its share of probability, measured from the nearer end. Given the (effective) size n of
    each row's sample, the i-th of n equal draws stands at i / (n + 1), where one more draw falls below it with that
    probability, instead of at (i - ½) / n. The outermost draws are always knots, and the slopes of the tails beyond
    them differ from that of the whole row by n / (n + 50) of what they would. Between knots lie some √n / 2 draws:
    that is what makes the slope of the curve a density to look at (``docs/guide/method.md`` has figures).

    ``draws`` are (n, s), ``weights`` (n, s) or, for all rows alike, (1, s); ``size`` has one entry a row of weights.
    """
    from nearcal.kernels.sorted_rows import middle_shares

    below, above, counts = np.empty(weights.shape), np.empty(weights.shape), np.empty(weights.shape, np.int64)
    size = np.full(len(weights), np.nan) if size is None else size
    effective = 1 / middle_shares(weights, size, below, above, counts)
    knots = _pick_knots(below, above, effective)
    below, above = np.take_along_axis(below, knots, axis=1), np.take_along_axis(above, knots, axis=1)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    chosen = np.take_along_axis(counts, knots, axis=1)
    values = draws[:, chosen[0]] if len(weights) == 1 else np.take_along_axis(draws, chosen, axis=1)
    share = effective / (effective + _DRAWS_TO_TELL_SKEWNESS)
    return Interpolated(scores, values, normal_tails=True, skewness=share[:, np.newaxis])


def _pick_knots(below: FloatArray, above: FloatArray, effective: FloatArray) -> IntArray:
    """Return which draws are knots, given the probability below and above each; the last stands for missing ones."""
    first, last = ndtri(below[:, :1]), -ndtri(above[:, -1:])
    # an even number: knots then lie alike on either side of the middle, and -Y has the mirrored curve
    count = 2 * np.ceil(np.sqrt(effective))[:, np.newaxis]
    steps = np.minimum(np.arange(int(count.max())), count - 1) / (count - 1)
    wanted = first + (last - first) * steps
    s = below.shape[1]
    from_below = _nearest(below, ndtr(wanted))
    from_above = s - 1 - _nearest(np.ascontiguousarray(above[:, ::-1]), ndtr(-wanted))
    return np.where(wanted < 0, from_below, from_above)


def _nearest(shares: FloatArray, wanted: FloatArray) -> IntArray:
    """Return the place of the share nearest to each one wanted, in increasing shares."""
    s = shares.shape[1]
    right = np.clip(count_not_above(shares, wanted), 1, s - 1) if s > 1 else np.zeros(wanted.shape, dtype=np.intp)
    left = np.maximum(right - 1, 0)
    to_left = wanted - np.take_along_axis(shares, left, axis=1)
    to_right = np.take_along_axis(shares, right, axis=1) - wanted
    return np.where(to_left <= to_right, left, right)


def sort_weighted(draws: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sort draws with their weights; draws of weight zero become copies of one that counts."""
    order = np.argsort(draws, axis=1, kind="stable")
    draws, weights = np.take_along_axis(draws, order, axis=1), np.take_along_axis(weights, order, axis=1)
    return np.take_along_axis(draws, last_that_counts(weights), axis=1), weights


def last_that_counts(weights: FloatArray) -> IntArray:
    """Return for each place the last place up to it of positive weight, or the first such of the row."""
    counts = weights > 0
    last = np.maximum.accumulate(np.where(counts, np.arange(weights.shape[1]), -1), axis=1)
    return np.where(last < 0, counts.argmax(axis=1)[:, np.newaxis], last)


def power_of_two(size: FloatArray) -> FloatArray:
    """Return a power of two near each size, 1 for 0 and what is not finite: to divide by it rounds nothing."""
    is_ordinary = np.isfinite(size) & (size > 0)
    return np.exp2(np.clip(np.floor(np.log2(np.where(is_ordinary, size, 1.0))), -1000, 1000))


def weighted_moments(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of the weighted values of each row."""
    unit = power_of_two(np.abs(values).max(axis=1))[:, np.newaxis]
    mean = add_up(weights * (values / unit))
    deviation = values / unit - mean[:, np.newaxis]
    spread = power_of_two(np.abs(deviation).max(axis=1))[:, np.newaxis]  # far less, where all values are nearly alike
    return unit[:, 0] * mean, unit[:, 0] * spread[:, 0] * np.sqrt(add_up(weights * (deviation / spread) ** 2))


def add_up(terms: FloatArray) -> FloatArray:
    """Return the sums of rows, term by term: zeros at the end of a short row then change no bit."""
    return np.cumsum(terms, axis=1)[:, -1]


def _tail_slopes(scores: FloatArray, values: FloatArray, skewness: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return dy/dz of the lower and upper Normal tails, each (n, 1).

    The slope is that of the line from the row at its central score to the outermost knot, so a skewed row keeps its
    skewness; where that half of the row is a single value, the slope of the whole row serves, and 1 where the whole row
    is a single value.
    """
    first, last = scores[:, :1], scores[:, -1:]
    center = (first + last) / 2
    n, s = values.shape
    right = np.clip(count_not_above(scores, np.broadcast_to(center, (len(scores), 1))), 1, s - 1)
    full = np.broadcast_to(scores, (n, s))
    right = np.broadcast_to(right, (n, 1))
    x0, x1 = (np.take_along_axis(full, right + shift, axis=1) for shift in (-1, 0))
    y0, y1 = (np.take_along_axis(values, right + shift, axis=1) for shift in (-1, 0))
    middle = _between(center, x0, x1, y0, y1)
    whole = _slope(values[:, -1:] - values[:, :1], last - first)
    below = _slope(middle - values[:, :1], center - first)
    above = _slope(values[:, -1:] - middle, last - center)
    whole = np.where(whole > 0, whole, 1.0)
    below, above = np.where(below > 0, below, whole), np.where(above > 0, above, whole)
    if skewness is not None:
        below, above = whole + skewness * (below - whole), whole + skewness * (above - whole)
    return below, above


def count_not_above(table: FloatArray, values: FloatArray) -> IntArray:
    """Return, for every row, how many sorted entries of ``table`` are <= each value: searchsorted(side="right").

    ``table`` is (1, s), shared by all rows, or (n, s); ``values`` is (n, q).
    """
    if len(table) == 1:
        return np.searchsorted(table[0], values, side="right")
    from nearcal.kernels import sorted_rows

    # all as read-only, or each combination that comes would be compiled
    return sorted_rows.count_not_above(_read_only(table), _read_only(values))


def _read_only(values: FloatArray) -> FloatArray:
    view = values.view()
    view.flags.writeable = False
    return view


def _without_copies(table: FloatArray) -> FloatArray:
    """Return a table in the order of rows; one row, where that stands for all without a copy."""
    return np.ascontiguousarray(table[:1] if table.strides[0] == 0 else table)


def _slope(rise: FloatArray, run: FloatArray) -> FloatArray:
    """Return rise / run, 0 between two copies of one knot, and nowhere else where there is a rise."""
    with np.errstate(over="ignore"):
        slope = np.where(run > 0, rise, 0.0) / np.where(run > 0, run, 1.0)
    return np.where((run > 0) & (rise > 0), np.maximum(slope, _SMALLEST), slope)


def _between(x: FloatArray, x0: FloatArray, x1: FloatArray, y0: FloatArray, y1: FloatArray) -> FloatArray:
    """Return the value at x of the line between two knots, where rounding must not lift it above the second."""
    run = x1 - x0
    share = np.divide(x - x0, run, out=np.zeros(np.broadcast_shapes(x.shape, run.shape)), where=run > 0)
    return np.minimum(y0 + share * (y1 - y0), y1)  # a slope might overflow, where knots are close


def _extend(value: FloatArray, distance: FloatArray, slope: FloatArray) -> FloatArray:
    """Return value + distance * slope, with a flat tail flat all the way to infinity."""
    with np.errstate(invalid="ignore"):
        return value + np.where(slope > 0, distance * slope, 0.0)


def normal_masses(edges: FloatArray) -> FloatArray:
    """Return the probability of a standard Normal between consecutive edges: a difference of the lighter tails."""
    lower, upper = ndtr(edges), ndtr(-edges)
    return np.where(edges[:, :-1] > 0, upper[:, :-1] - upper[:, 1:], lower[:, 1:] - lower[:, :-1])


def _truncated_moments(edges: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ∫ zᵏ φ(z) dz, k = 0, 1, 2, between consecutive edges."""
    finite = np.where(np.isfinite(edges), edges, 0.0)
    density = np.where(np.isfinite(edges), np.exp(log_normal_density(finite)), 0.0)
    mass = normal_masses(edges)
    first = density[:, :-1] - density[:, 1:]
    second = mass + finite[:, :-1] * density[:, :-1] - finite[:, 1:] * density[:, 1:]
    return mass, first, second
