// Numbers to words, to places on an axis, and to colours.

function formatNumber(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "missing" : value < 0 ? "−∞" : "∞";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replace("-", "−");
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 8 }).replace("-", "−");
}

function formatPercent(share) {
  return `${(100 * share).toFixed(1).replace(/\.0$/, "")}%`;
}

// Round values that cut [low, high] into about `count` parts.
function roundTicks(low, high, count) {
  const raw = (high - low) / count;
  if (!(raw > 0) || low + raw === low) return [low]; // numbers so near to each other that none lies between
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((unit) => unit * power).find((candidate) => candidate >= raw);
  const ticks = [];
  const first = Math.ceil(low / step);
  const last = Math.floor(high / step + 1e-9);
  for (let i = 0; i <= Math.min(last - first, 100); i++) { // counted: far from 0, adding a step may change nothing
    const tick = (first + i) * step;
    ticks.push(Math.abs(tick) < step * 1e-9 ? 0 : Number(tick.toPrecision(12)));
  }
  return [...new Set(ticks)];
}

// An axis: its ticks, and where each row lies from 0 to 1. Rows without a value have NaN.
// A few far values would squeeze all others together: beyond the central 99.8% they are moved to the edge.
function makeAxis(packed) {
  const values = packed.levels ? Float64Array.from(unpack(packed)) : unpackNumbers(packed);
  const known = values.filter((value) => !Number.isNaN(value)).sort();
  if (known.length === 0) return { name: packed.name, values, levels: null, low: 0, high: 1, gap: 0, missing: values.length };
  let [low, high] = [known[0], known[known.length - 1]];
  const inner = [0.001, 0.999].map((level) => known[Math.round(level * (known.length - 1))]);
  const reach = 0.3 * (inner[1] - inner[0]);
  if (reach > 0 && !packed.levels) {
    if (low < inner[0] - reach) low = inner[0];
    if (high > inner[1] + reach) high = inner[1];
  }
  const gap = stepOf(packed, known);
  const least = 1e-9 * Math.max(Math.abs(low), Math.abs(high)); // less would be lost in rounding
  const pad = Math.max(gap ? 0.6 * gap : 0.03 * (high - low) || 0.5 * (least === 0), least);
  const missing = values.length - known.length;
  return { name: packed.name, values, levels: packed.levels ?? null, low: low - pad, high: high + pad, gap, missing };
}

// The distance between neighbouring values where only a few occur; rows are then spread out a little; else 0.
function stepOf(packed, known) {
  if (packed.levels) return 1;
  let least = Infinity;
  let count = 1;
  for (let i = 1; i < known.length && count <= 24; i++) {
    if (known[i] > known[i - 1]) {
      least = Math.min(least, known[i] - known[i - 1]);
      count++;
    }
  }
  return count <= 24 && count > 1 ? least : 0;
}

// A number from -1/2 to 1/2 that only depends on the row.
function spreadOut(row, salt) {
  let mixed = Math.imul(row + 1, 2654435761) ^ Math.imul(salt + 1, 40503);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 2246822519);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 4294967296 - 0.5;
}

function place(axis, row, salt) {
  const value = axis.values[row] + (axis.gap ? 0.7 * axis.gap * spreadOut(row, salt) : 0);
  return Math.min(1, Math.max(0, (value - axis.low) / (axis.high - axis.low)));
}

// Colours run from blue (too wide, too high) over grey to orange (too narrow, too low). Lightness changes in one
// direction all along, so that the map is readable in grey, and trouble stands out from the page in both themes.
const RAMPS = {
  light: [[116, 182, 240], [150, 147, 140], [140, 42, 0]],
  dark: [[44, 105, 176], [134, 136, 140], [255, 194, 122]],
};
const SHADES = 33;

function makeRamp(theme) {
  const [low, middle, high] = RAMPS[theme];
  return Array.from({ length: SHADES }, (_, i) => {
    const t = (2 * i) / (SHADES - 1) - 1;
    const end = t < 0 ? low : high;
    const share = Math.abs(t) ** 0.85;
    return middle.map((channel, j) => Math.round(channel + share * (end[j] - channel)));
  });
}

function cssColour(shade) {
  return `rgb(${shade.join(" ")})`;
}

// How far a local figure is from right, from -1 to 1: the place on the ramp.
const DEPARTURES = {
  bias: (value, end) => value / end,
  spread: (value, end) => Math.log2(Math.max(value, 0.0625)) / end,
  coverage: (value, end, nominal) => (value < nominal ? (nominal - value) / end : (nominal - value) / (1 - nominal)),
};

function shadeOf(departure) {
  const t = Math.max(-1, Math.min(1, departure));
  return Math.round(((t + 1) / 2) * (SHADES - 1));
}
