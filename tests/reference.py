"""Slow, obvious versions that the fast code is tested against."""

import numpy as np

KERNELS = {
    "epanechnikov": lambda t: 1 - t**2,
    "uniform": lambda t: np.ones_like(t),
    "triangular": lambda t: 1 - t,
    "biweight": lambda t: (1 - t**2) ** 2,
    "gaussian": lambda t: np.exp(-(t**2) / 2),
}


def kernel_weights(distances, u, smoothing):
    """Weights K(d / u) normalised to sum 1; equal weights where all vanish."""
    t = distances / u if u > 0 else np.zeros_like(distances)
    weights = np.where(t <= 1, KERNELS[smoothing](t), 0.0)
    if weights.sum() == 0:
        weights = np.ones_like(weights)
    return weights / weights.sum()


def squares(points, queries):
    """Squared distances (queries, points), summed in the order of the columns."""
    total = np.zeros((len(queries), len(points)))
    for j in range(points.shape[1]):
        total += (points[:, j] - queries[:, j, np.newaxis]) ** 2
    return total


def nearest(points, query, k):
    """Indices and Euclidean distances of the k nearest points; ties go to the smaller index."""
    distances = np.sqrt(squares(points, query[np.newaxis])[0])
    order = np.lexsort((np.arange(len(points)), distances))[:k]
    return order, distances[order]


def nearest_of_weight(distances, weights, k):
    """Return indices, distances and shares of the nearest points of weight k; the last counts in part."""
    indices, shares, rest = [], [], k
    for i in np.lexsort((np.arange(len(distances)), distances)):
        if rest <= 1e-12 * k:
            break
        indices.append(i)
        shares.append(min(weights[i], rest))
        rest -= weights[i]
    return np.array(indices), distances[indices], np.array(shares)


def point_weights(distances, shares, u, smoothing):
    """Return weights of neighbours that count by their shares, and the weight of a point at the query beside them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = shares * KERNELS[smoothing](distances / u) if u > 0 else shares.copy()
    if not raw.sum() > 0:
        raw = shares.copy()
    typical = (raw * shares).sum() / raw.sum()
    return raw / raw.sum(), typical / raw.sum()


def weighted_quantile(values, weights, p):
    """Least value whose cumulated weight reaches p."""
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    values, weights = values[weights > 0], weights[weights > 0]
    if p == 1:
        return values[-1]
    reached = np.cumsum(weights) >= p - 1e-12
    return values[np.argmax(reached)] if reached.any() else values[-1]


def conservative_quantile(values, weights, own, p):
    """Quantile with one more point, of weight ``own``, beyond the end that p is nearer to."""
    if p < 0.5:
        return -conservative_quantile(-values, weights, own, 1 - p)
    return weighted_quantile(values, weights, min(p * (1 + own), 1.0))


def weighted_moments(values, weights):
    """Return Σ w v and Σ w (v - mean)²."""
    mean = (weights * values).sum()
    return mean, (weights * (values - mean) ** 2).sum()


def middle_shares(weights, size):
    """Return the weight below and above the middle of each weight, and the one that stands for it: see the kernel."""
    place = [
        max([j for j in range(i + 1) if weights[j] > 0], default=int(np.argmax(weights > 0)))
        for i in range(len(weights))
    ]
    below = np.array([weights[:i].sum() + weights[i] / 2 for i in place])
    above = np.array([weights[i + 1 :].sum() + weights[i] / 2 for i in place])
    if np.isnan(size):
        return below, above, place
    return (size * below + 0.5) / (size + 1), (size * above + 0.5) / (size + 1), place


def weight_below(keys, weights, threshold):
    """Return the weight of keys below a threshold, and of the rest."""
    return weights[keys < threshold].sum(), weights[~(keys < threshold)].sum()


def without_own(indices, distances, own):
    """Neighbours but for the point itself or, where it is missing, for the farthest of the largest index."""
    place = np.flatnonzero(indices == own)
    spare = place[0] if len(place) else np.lexsort((indices, distances))[-1]
    return np.delete(indices, spare), np.delete(distances, spare)


def chebyshev_series(series, panel, x):
    """Sum c_k T_k(x) with T_k(x) = cos(k arccos x), the coefficients being those of each score's panel."""
    orders = np.arange(series.shape[2])
    own = np.take_along_axis(series, panel[:, :, np.newaxis], axis=1)
    return (own * np.cos(orders * np.arccos(x)[:, :, np.newaxis])).sum(axis=2)


def sample_crps(values, weights, y):
    """CRPS of a weighted sample: Σ w |v - y| - ½ ΣΣ w w' |v - v'|."""
    spread = np.abs(values[:, np.newaxis] - values)
    return (weights * np.abs(values - y)).sum() - weights @ spread @ weights / 2


def local_linear(points, query, weights, scores, ridge):
    """Scores of a neighbourhood moved to the query by weighted least squares, as the correction is documented."""
    d = points.shape[1]
    mean = weights @ scores
    x = points - weights @ points
    covariance = x.T @ (weights[:, np.newaxis] * x)
    penalty = np.sqrt(ridge * np.trace(covariance) / d) * np.eye(d)
    root = np.sqrt(weights)
    rows = np.vstack([root[:, np.newaxis] * x, penalty])
    slope = np.linalg.lstsq(rows, np.append(root * (scores - mean), np.zeros(d)), rcond=None)[0]
    fit = x @ slope
    inverse = np.linalg.pinv(rows.T @ rows)
    squares = np.einsum("na,ab,nb->n", x, inverse, x)
    leverage = weights * squares
    rest = (weights * (scores - mean - fit) ** 2).sum()
    explained = (weights * (scores - mean) ** 2).sum() - rest
    extra, freedom = weights @ leverage, 1 - weights @ weights - weights @ leverage
    share = max(1 - rest / freedom * extra / explained, 0.0) if freedom > 0 and explained > 0 else 0.0
    counts, offset = weights > 0, query - weights @ points
    if share == 0:
        return scores
    distance = offset @ inverse @ offset
    share /= share + (1 - share) * max(distance / d, 1.0)
    share *= min(1.0, 2 * squares[counts].max() / max(distance, 1e-300))
    move = np.clip(offset @ slope, fit[counts].min(), fit[counts].max())
    correction = np.minimum((1 - weights) / np.maximum(1 - weights - share * leverage, 1e-300), 3.0)
    return mean + share * move + correction * (scores - mean - share * fit)


def bump(steps, shape):
    """The height of a bump so many steps from its centre in every column."""
    return np.exp(-0.5 * (steps**2).sum(axis=-1) if shape == "gaussian" else -np.abs(steps).sum(axis=-1))


def bumps(points, centers, heights, shape):
    """A sum of bumps at some points, term by term."""
    return np.array([sum(heights * bump(x - centers, shape)) for x in points])


def lines(scores, knots, slope_below, slope_above, z):
    """Values of curves that are straight between knots, by what interpolates and the lines beyond."""
    scores, values = np.broadcast_to(scores, knots.shape), np.empty(z.shape)
    for row in range(len(z)):
        x, y, at = scores[row], knots[row], z[row]
        inner = y[-1] if len(x) == 1 else np.interp(at, x, y)
        beyond = y[0] + (at - x[0]) * slope_below[row], y[-1] + (at - x[-1]) * slope_above[row]
        values[row] = np.where(at < x[0], beyond[0], np.where(at >= x[-1], beyond[1], inner))
    return values


def kernel_ridge(points, centers, scores, weights, ridge, shape):
    """Heights of bumps that minimise Σ w (z - f)² + λ |f|², by the normal equations of the heights."""
    gram = bump(centers[:, np.newaxis] - centers, shape) + 1e-9 * len(centers) * np.eye(len(centers))
    design = bump(points[:, np.newaxis] - centers, shape)
    normal = design.T @ (weights[:, np.newaxis] * design) + ridge * gram
    return np.linalg.lstsq(normal, design.T @ (weights * scores), rcond=1e-14)[0]


def tree_relevance(columns, targets, growing, judging, draws, least):
    """What the splits of one tree explain, column by column; nodes are split in the order left side first."""
    relevance = np.zeros(len(columns))
    waiting, draws = [(growing, judging)], list(draws)
    while waiting and draws:
        grown, judged = waiting.pop()
        best, split = 0.0, None
        for place, level in draws.pop(0):
            column = columns[int(place * len(columns))]
            threshold = column[grown].min() + level * np.ptp(column[grown])
            below = column[grown] <= threshold
            if min(below.sum(), (~below).sum()) < least:
                continue
            gain = below.sum() * (~below).sum() * (_shift(targets[grown], below) ** 2).sum()
            if gain > best:
                best, split = gain, (int(place * len(columns)), threshold)
        if split is None:
            continue
        below, below_judged = columns[split[0]][grown] <= split[1], columns[split[0]][judged] <= split[1]
        if below_judged.all() or not below_judged.any():
            continue
        size = below_judged.sum() * (~below_judged).sum() / len(judged)
        relevance[split[0]] += size * _shift(targets[grown], below) @ _shift(targets[judged], below_judged)
        for side, side_judged in ((~below, ~below_judged), (below, below_judged)):
            if side.sum() >= 2 * least:
                waiting.append((grown[side], judged[side_judged]))
    return relevance


def relevance(space, z):
    """What 200 trees, each grown on half of its rows, tell of the scores and of their distance from the median."""
    n, d = space.shape
    targets = np.stack([z, np.abs(z - np.median(z))], axis=1)
    targets = np.clip(targets, np.quantile(targets, 0.01, axis=0), np.quantile(targets, 0.99, axis=0))
    targets = (targets - targets.mean(axis=0)) / targets.std(axis=0)
    rng, grown, total = np.random.default_rng(0), min(n, 1000) // 2, np.zeros(d)
    for _ in range(200):
        rows, draws = rng.permutation(n)[: 2 * grown], rng.random((max(grown // 8, 1), min(d, 24), 2))
        total += tree_relevance(space.T, targets, rows[:grown], rows[grown:], draws, 8)
    return np.maximum(total, 0.0) / total.max()


def _shift(targets, below):
    return targets[below].mean(axis=0) - targets[~below].mean(axis=0)
