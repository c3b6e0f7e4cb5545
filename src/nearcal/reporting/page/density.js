// A predictive density from a few quantiles: φ(z(y)) z'(y), where z(y) runs through the known normal scores. Its slope
// is smoothed over neighbouring quantiles, whose random errors would look like peaks. Exact for a Normal, whose slope
// is the same everywhere, and never negative.

function densityCurve(quantiles, scores, low, high, points = 160) {
  const { y, z } = distinctKnots(quantiles, scores, high - low);
  if (y.length < 2) return null;
  const slopes = smoothSlopes(y, z);
  const step = (high - low) / points;
  const curve = Array.from({ length: points + 1 }, (_, i) => {
    const [score, slope] = interpolate(y, z, slopes, low + i * step);
    return [low + i * step, Math.exp(-0.5 * score * score) * slope];
  });
  const total = curve.reduce((sum, [, density]) => sum + density, 0) * step;
  return curve.map(([at, density]) => [at, density / total]);
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

// Logarithms of the slopes at the knots: means over the chords beside each, then over neighbouring knots.
function smoothSlopes(y, z) {
  const chords = y.slice(1).map((right, i) => Math.log((z[i + 1] - z[i]) / (right - y[i])));
  const atKnots = y.map((_, i) => ((chords[i - 1] ?? chords[i]) + (chords[i] ?? chords[i - 1])) / 2);
  return atKnots.map((own, i) => ((atKnots[i - 1] ?? own) + 2 * own + (atKnots[i + 1] ?? own)) / 4);
}

function interpolate(y, z, slopes, at) {
  const last = y.length - 1;
  if (at <= y[0]) return [z[0] + Math.exp(slopes[0]) * (at - y[0]), Math.exp(slopes[0])];
  if (at >= y[last]) return [z[last] + Math.exp(slopes[last]) * (at - y[last]), Math.exp(slopes[last])];
  let i = 0;
  while (at > y[i + 1]) i++;
  const share = (at - y[i]) / (y[i + 1] - y[i]);
  return [z[i] + share * (z[i + 1] - z[i]), Math.exp(slopes[i] + share * (slopes[i + 1] - slopes[i]))];
}
