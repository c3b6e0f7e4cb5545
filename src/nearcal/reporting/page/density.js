// A predictive density from a few quantiles: φ(z(y)) z'(y), with z(y) a monotone cubic through the known scores.
// It is exact for a Normal, whose z is a straight line, and never negative.

function densityCurve(quantiles, scores, low, high, points = 120) {
  const { y, z } = distinctKnots(quantiles, scores, high - low);
  if (y.length < 2) return null;
  const slopes = monotoneSlopes(y, z);
  const grid = [];
  for (let i = 0; i <= points; i++) {
    const at = low + ((high - low) * i) / points;
    const [score, slope] = interpolate(y, z, slopes, at);
    grid.push([at, Math.exp(-0.5 * score * score) * 0.3989422804 * slope]);
  }
  return grid;
}

// Quantiles that nearly coincide would make a spike of rounding errors: those too near to the one before are left out.
function distinctKnots(quantiles, scores, span) {
  const y = [];
  const z = [];
  for (let i = 0; i < quantiles.length; i++) {
    if (y.length === 0 || quantiles[i] - y[y.length - 1] > 0.004 * span) {
      y.push(quantiles[i]);
      z.push(scores[i]);
    }
  }
  return { y, z };
}

// Fritsch and Carlson: harmonic means of the slopes of neighbouring chords.
function monotoneSlopes(y, z) {
  const chords = y.slice(1).map((right, i) => (z[i + 1] - z[i]) / (right - y[i]));
  const inner = chords.slice(1).map((right, i) => {
    const [before, after] = [y[i + 1] - y[i], y[i + 2] - y[i + 1]];
    const [a, b] = [2 * after + before, after + 2 * before];
    return (a + b) / (a / chords[i] + b / right);
  });
  return [chords[0], ...inner, chords[chords.length - 1]];
}

function interpolate(y, z, slopes, at) {
  const last = y.length - 1;
  if (at <= y[0]) return [z[0] + slopes[0] * (at - y[0]), slopes[0]];
  if (at >= y[last]) return [z[last] + slopes[last] * (at - y[last]), slopes[last]];
  let i = 0;
  while (at > y[i + 1]) i++;
  const h = y[i + 1] - y[i];
  const t = (at - y[i]) / h;
  const rise = z[i + 1] - z[i];
  const score = z[i] + t * (h * slopes[i] + t * (3 * rise - h * (2 * slopes[i] + slopes[i + 1])
    + t * (h * (slopes[i] + slopes[i + 1]) - 2 * rise)));
  const slope = slopes[i] + (2 * t * (3 * rise - h * (2 * slopes[i] + slopes[i + 1]))
    + 3 * t * t * (h * (slopes[i] + slopes[i + 1]) - 2 * rise)) / h;
  return [score, Math.max(slope, 0)];
}
