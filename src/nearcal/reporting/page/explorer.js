// The explorer: what is chosen, and what follows from it.

function readData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (!data) return null;
  data.axes = data.axes.map((axis) => ({ ...makeAxis(axis), isComponent: Boolean(axis.isComponent) }));
  data.space = data.space.map(unpackNumbers);
  data.pit = data.pit.map(unpackNumbers);
  for (const name of ["rows", "low", "high", "quantiles"]) data[name] = unpack(data[name]);
  data.y = unpackNumbers(data.y);
  for (const local of Object.values(data.local)) local.figures = local.figures.map(unpackNumbers);
  return data;
}

class Explorer {
  constructor(data) {
    this.data = data;
    this.picked = -1;
    this.neighbors = [];
    this.isPrinting = false;
    this.nodes = Object.fromEntries(["points", "axis-x", "axis-y", "colour", "method", "panel", "announcement"]
      .map((id) => [id, document.getElementById(id)]));
    this.scatter = new Scatter(this.nodes.points, data.n);
    this.fillChoices();
    this.listen();
    this.pick(-1);
    this.redraw();
  }

  fillChoices() {
    const { data, nodes } = this;
    data.axes.forEach((axis, i) => {
      for (const id of ["axis-x", "axis-y"]) nodes[id].append(new Option(shorten(axis.name, 60), i));
    });
    data.methods.forEach((name, i) => nodes.method.append(new Option(shorten(name, 60), i)));
    [nodes["axis-x"].value, nodes["axis-y"].value] = data.start;
    nodes.method.value = 0;
    document.getElementById("method-label").hidden = data.methods.length < 2;
    document.getElementById("explorer-about").textContent = aboutText(data);
  }

  listen() {
    const { points } = this.nodes;
    document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const id of ["axis-x", "axis-y", "colour", "method"]) {
      this.nodes[id].addEventListener("change", () => this.redraw());
    }
    document.getElementById("worst").addEventListener("click", () => this.pick(this.worstRow()));
    points.addEventListener("click", (event) => {
      const { left, top } = points.getBoundingClientRect();
      const { x, y } = this.scatter;
      this.pick(nearestPlace(x, y, event.clientX - left, event.clientY - top, 28));
    });
    points.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => requestAnimationFrame(() => this.redraw())).observe(points.parentElement);
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  print(isPrinting) {
    this.isPrinting = isPrinting;
    this.redraw();
  }

  press(event) {
    const step = ARROWS[event.key];
    if (step) this.pick(this.neighborTowards(...step));
    else if (event.key === "Home") this.pick(this.worstRow());
    else if (event.key === "Escape") this.pick(-1);
    else if (event.key === "Enter" && this.picked < 0) this.pick(this.worstRow());
    else if (event.key === "Enter") this.nodes.panel.focus();
    else return;
    event.preventDefault();
  }

  // The next row in a direction; from nowhere, the one in the middle of the map; at the edge, where we are.
  neighborTowards(right, up) {
    const { x, y, width, height } = this.scatter;
    if (this.picked < 0) return nearestPlace(x, y, width / 2, height / 2, Infinity);
    const found = nextPlace(x, y, this.picked, right, up, 4);
    return found < 0 ? this.picked : found;
  }

  worstRow() {
    let worst = 0;
    for (let i = 1; i < this.departures.length; i++) {
      if (Math.abs(this.departures[i]) > Math.abs(this.departures[worst])) worst = i;
    }
    return worst;
  }

  pick(row) {
    this.picked = row;
    this.neighbors = row < 0 ? [] : nearestRows(this.data.space, row, this.data.k);
    this.nodes.panel.replaceChildren(...(row < 0 ? emptyPanel() : fillPanel(this.data, row, this.neighbors)));
    this.nodes.announcement.textContent = row < 0 ? "No point picked." : announce(this.data, row);
    if (this.departures) this.scatter.show(row, this.neighbors);
  }

  redraw() {
    const { data, nodes, scatter } = this;
    const [axisX, axisY] = [data.axes[nodes["axis-x"].value], data.axes[nodes["axis-y"].value]];
    const colour = nodes.colour.value;
    const { end, figures } = data.local[colour];
    const method = Number(nodes.method.value);
    this.departures = Float32Array.from(figures[method], (value) => DEPARTURES[colour](value, end, data.coverage));
    const theme = isDark() && !this.isPrinting ? "dark" : "light";
    const ramp = makeRamp(theme);
    scatter.layOut(axisX, axisY);
    scatter.paint(Uint8Array.from(this.departures, shadeOf), ramp, INKS[theme]);
    scatter.show(this.picked, this.neighbors);
    drawLegend(ramp, legendWords(colour, end, data.coverage));
    const missing = [axisX, axisY].filter((axis) => axis.missing > 0)
      .map((axis) => ` ${axis.missing.toLocaleString("en-US")} rows have no ${axis.name} and are not shown.`).join("");
    document.getElementById("map-caption").textContent =
      `${COLOURS[colour]} of ${data.methods[method]}, over ${axisX.name} and ${axisY.name}.${missing}`;
  }
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const COLOURS = { coverage: "Local coverage", bias: "Local bias", spread: "Local spread" };
const INKS = {
  light: { ink: "#1d2129", soft: "#5b6470", line: "#dcd9d1", page: "#ffffff", dimmed: 0.3 },
  dark: { ink: "#f2f0eb", soft: "#a2a8b1", line: "#343a43", page: "#14161a", dimmed: 0.45 },
};

function aboutText(data) {
  const rows = data.n.toLocaleString("en-US");
  const which = data.n < data.total ? `${rows} of ${data.total.toLocaleString("en-US")} rows, drawn at random` : `All ${rows} rows`;
  const reduced = data.dimensions < data.columns
    ? ` (its ${data.dimensions} widest principal components, ${formatPercent(data.kept)} of the variance)` : "";
  const space = `the space of ${data.columns} column${data.columns === 1 ? "" : "s"}${reduced}`;
  const chance = Math.sqrt((data.coverage * (1 - data.coverage)) / data.k);
  return `${which}. Colours are means over the ${data.k} rows nearest to each in ${space}; chance alone moves a local coverage by ±${formatPercent(chance)}. `
    + "Local bias is the mean of the normal scores of what was observed: −1 means predictions one standard deviation too high. "
    + "Local spread is their standard deviation: × 2 means intervals half as wide as they should be.";
}

function legendWords(colour, end, nominal) {
  const factor = (2 ** end).toFixed(1);
  return {
    coverage: ["100%, too wide", `${formatPercent(nominal)}, nominal`, `${formatPercent(nominal - end)} or less, too narrow`],
    bias: [`−${end.toFixed(1)}, too high`, "0", `+${end.toFixed(1)}, too low`],
    spread: [`÷ ${factor}, too wide`, "1", `× ${factor}, too narrow`],
  }[colour];
}

function drawLegend(ramp, words) {
  const canvas = document.getElementById("ramp");
  canvas.width = ramp.length;
  ramp.forEach((shade, i) => {
    const context = canvas.getContext("2d");
    context.fillStyle = cssColour(shade);
    context.fillRect(i, 0, 1, canvas.height);
  });
  ["low", "middle", "high"].forEach((name, i) => (document.getElementById(`legend-${name}`).textContent = words[i]));
}
