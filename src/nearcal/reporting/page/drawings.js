// Small drawings of the panel. Text only ever becomes text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function html(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function chart(width, height, label, marks) {
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  node.append(...marks);
  return node;
}

const BINS = 10;

// PIT values of the neighbours over the range that a bar stays in with probability 99% if predictions are right.
function drawHistogram(values, role, name) {
  const [width, height, bottom] = [180, 110, 16];
  const counts = new Array(BINS).fill(0);
  for (const value of values) counts[Math.min(BINS - 1, Math.floor(value * BINS))]++;
  const even = values.length / BINS;
  const chance = 2.576 * Math.sqrt(even * (1 - 1 / BINS));
  const top = Math.max(...counts, even + chance) * 1.05;
  const y = (count) => 4 + (height - bottom - 4) * (1 - count / top);
  const low = Math.max(0, even - chance);
  const marks = [svg("rect", { class: "band", x: 0, y: y(even + chance), width, height: y(low) - y(even + chance) })];
  counts.forEach((count, i) => {
    const size = { x: (i * width) / BINS + 0.75, y: y(count), width: width / BINS - 1.5, height: y(0) - y(count) };
    marks.push(svg("rect", { class: `bar ${role}`, ...size }));
  });
  marks.push(svg("line", { class: "reference", x1: 0, x2: width, y1: y(even), y2: y(even) }));
  [[0, "", "0"], [width / 2, "middle", "0.5"], [width, "end", "1"]].forEach(([x, anchor, text]) => {
    marks.push(svg("text", { x, y: height - 2, class: anchor }, text));
  });
  return chart(width, height, `Local PIT histogram of ${name}: ${counts.join(", ")}`, marks);
}

// Densities before and after, and what was observed.
function drawDensities(curves, observed, response, low, high) {
  const [width, height, bottom] = [380, 170, 34];
  const top = Math.max(...curves.map(({ curve }) => Math.max(...curve.map(([, density]) => density)))) * 1.06;
  const x = (value) => ((value - low) / (high - low)) * width;
  const y = (density) => 14 + (height - bottom - 14) * (1 - density / top);
  const marks = [];
  for (const { curve, role } of curves) {
    const path = curve.map(([value, density]) => `${x(value).toFixed(1)},${y(density).toFixed(1)}`).join("L");
    marks.push(svg("path", { class: `area ${role}`, d: `M0,${y(0)}L${path}L${width},${y(0)}Z` }));
    marks.push(svg("path", { class: `curve ${role}`, d: `M${path}` }));
  }
  marks.push(svg("line", { class: "axis", x1: 0, x2: width, y1: y(0), y2: y(0) }));
  for (const tick of roundTicks(low, high, 4)) {
    const anchor = x(tick) < 12 ? "" : x(tick) > width - 12 ? "end" : "middle";
    marks.push(svg("text", { x: x(tick), y: height - 20, class: anchor }, formatNumber(tick)));
  }
  marks.push(svg("text", { x: width / 2, y: height - 3, class: "middle" }, shorten(response, 50)));
  const at = Math.min(width - 1, Math.max(1, x(observed)));
  const note = observed < low ? "← observed" : observed > high ? "observed →" : "observed";
  marks.push(svg("line", { class: "observed", x1: at, x2: at, y1: 12, y2: y(0) }));
  const anchor = at < 40 ? "" : at > width - 40 ? "end" : "middle";
  marks.push(svg("text", { x: at, y: 8, class: `observed-name ${anchor}` }, note));
  const label = `Predictive densities from ${formatNumber(low)} to ${formatNumber(high)}; observed ${formatNumber(observed)}`;
  return chart(width, height, label, marks);
}

function shorten(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}
