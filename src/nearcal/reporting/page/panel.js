// What is shown of the row that was picked.

function emptyPanel() {
  return [html("p", "empty", "Pick a point of the map to see its neighbourhood, how its neighbours fell in their predictions, and its predictive density.")];
}

// One row as the panel and the announcement need it.
function describeRow(data, row) {
  const stride = data.scores.length + 2;
  const [low, high] = [data.low[row], data.high[row]];
  const value = (steps) => low + ((high - low) * steps) / 65535;
  const digit = 10 ** Math.floor(Math.log10((high - low || 1) * 1e-3)); // the last that the packing has kept
  const readable = (number) => Math.round(number / digit) * digit;
  const methods = data.methods.map((name, m) => {
    const start = (row * data.methods.length + m) * stride;
    const numbers = Array.from(data.quantiles.subarray(start, start + stride), value);
    return {
      name,
      role: m === data.methods.length - 1 ? "after" : "before",
      quantiles: numbers.slice(0, -2),
      interval: numbers.slice(-2).map(readable),
      median: readable(numbers[(stride - 3) / 2]),
      bias: data.local.bias.figures[m][row],
      spread: data.local.spread.figures[m][row],
      coverage: data.local.coverage.figures[m][row],
    };
  });
  return { row: data.rows[row], observed: data.y[row], low, high, methods };
}

function valueOf(axis, row) {
  return axis.levels ? axis.levels[axis.values[row]] : formatNumber(axis.values[row]);
}

function fillPanel(data, row, neighbors) {
  const found = describeRow(data, row);
  const nodes = [html("h3", "", `Row ${found.row.toLocaleString("en-US")}`), figuresTable(data, found)];
  nodes.push(html("h3", "", "Predictive density"), methodKey(found.methods), densities(data, found));
  const pits = found.methods.map((method, m) => {
    const values = neighbors.map((i) => data.pit[m][i]);
    return html("figure", "", drawHistogram(values, method.role, method.name), html("figcaption", "", method.name));
  });
  nodes.push(html("h3", "", `PIT values of its ${neighbors.length} nearest rows`), html("div", "two", ...pits));
  nodes.push(html("h3", "", "Features"), featureTable(data, row));
  return nodes;
}

function methodKey(methods) {
  return html("p", "key", ...methods.map(({ name, role }) => {
    const mark = svg("svg", { viewBox: "0 0 22 14", width: 22, height: 14, class: "chart mark", "aria-hidden": "true" });
    mark.append(svg("path", { class: `curve ${role}`, d: "M1,7L21,7" }));
    return html("span", "", mark, ` ${name}`);
  }));
}

function densities(data, { methods, observed, low, high }) {
  const margin = Math.max(0.08 * (high - low), 1e-9 * Math.abs(low), 1e-300);
  const [start, end] = [low - margin, high + margin];
  const curves = methods.map(({ role, quantiles }) => ({ role, curve: densityCurve(quantiles, data.scores, start, end) }))
    .filter(({ curve }) => curve);
  if (curves.length === 0) return html("p", "empty", "All probability lies on one value.");
  return drawDensities(curves, observed, data.response, start, end);
}

function figuresTable(data, { observed, methods }) {
  const level = formatPercent(data.coverage);
  const lines = [
    [`${level} interval`, ({ interval }) => `${formatNumber(interval[0])} to ${formatNumber(interval[1])}`],
    ["median", ({ median }) => formatNumber(median)],
    ["local coverage", ({ coverage }) => formatPercent(coverage)],
    ["local bias", ({ bias }) => `${bias < 0 ? "−" : "+"}${Math.abs(bias).toFixed(2)}`],
    ["local spread", ({ spread }) => `× ${spread.toFixed(2)}`],
  ];
  const head = html("tr", "", html("th", ""), ...methods.map(({ name }) => html("th", "number", name)));
  const body = lines.map(([words, text]) =>
    html("tr", "", rowHead(words), ...methods.map((method) => html("td", "number", text(method)))));
  const seen = html("tr", "", rowHead(`${data.response}, observed`), html("td", "number", formatNumber(observed)));
  seen.lastChild.colSpan = methods.length;
  return html("table", "", html("thead", "", head), html("tbody", "", seen, ...body));
}

function featureTable(data, row) {
  const lines = data.axes.filter((axis) => !axis.isComponent)
    .map((axis) => html("tr", "", rowHead(axis.name), html("td", "number", valueOf(axis, row))));
  return html("table", "", html("tbody", "", ...lines));
}

function rowHead(text) {
  const node = html("th", "", text);
  node.scope = "row";
  return node;
}

function announce(data, row) {
  const { row: number, observed, methods } = describeRow(data, row);
  const local = methods.map(({ name, coverage }) => `${name} ${formatPercent(coverage)}`).join(", ");
  return `Row ${number}. Local coverage: ${local}. Observed ${formatNumber(observed)}.`;
}
