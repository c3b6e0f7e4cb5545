// The map of all rows. Drawn by hand on a canvas: 50,000 points take some milliseconds and no library, whose code would
// outweigh the data of most reports.

const FEWEST_PIXELS = 1.6; // radius below which a disc and a square look alike

class Scatter {
  constructor(canvas, n) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.picture = document.createElement("canvas"); // all points, kept while only the choice of a point changes
    this.x = new Float32Array(n);
    this.y = new Float32Array(n);
  }

  // Fit to the size on the page; say where every row is.
  layOut(axisX, axisY) {
    const box = this.canvas.parentElement.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [Math.max(box.width, 50), Math.max(box.height, 50)];
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.context.font = FONT;
    this.ticksX = axisTicks(axisX, this.width / 90);
    this.ticksY = axisTicks(axisY, this.height / 60);
    const widest = Math.max(...this.ticksY.map(([, text]) => this.context.measureText(shorten(text, 12)).width), 20);
    this.plot = { left: Math.min(widest, 90) + 30, top: 14, right: this.width - 14, bottom: this.height - 44 };
    const { left, top, right, bottom } = this.plot;
    for (let i = 0; i < this.x.length; i++) {
      this.x[i] = left + (right - left) * place(axisX, i, 0);
      this.y[i] = bottom - (bottom - top) * place(axisY, i, 1);
    }
    this.names = [axisX.name, axisY.name];
    this.size = Math.min(4, Math.max(1.2, 0.6 * Math.sqrt(((right - left) * (bottom - top)) / this.x.length)));
  }

  paint(shades, ramp, ink) {
    [this.shades, this.ramp, this.ink] = [shades, ramp, ink];
    const context = this.picture.getContext("2d");
    context.clearRect(0, 0, this.width, this.height);
    if (this.size < FEWEST_PIXELS) this.stampRows(context);
    else this.drawRows(context, this.rowsByShade(), this.size);
  }

  // Write squares into the pixels themselves: ten times as fast as asking the canvas for 50,000 of them.
  stampRows(context) {
    const { width, height } = this.picture;
    const ratio = width / this.width;
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const side = Math.max(1, Math.round(2 * this.size * ratio));
    for (const { rows, shade } of this.rowsByShade()) {
      const [red, green, blue] = this.ramp[shade];
      const colour = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
      for (const i of rows) {
        if (Number.isNaN(this.x[i] + this.y[i])) continue;
        const left = Math.max(0, Math.round(this.x[i] * ratio - side / 2));
        const top = Math.max(0, Math.round(this.y[i] * ratio - side / 2));
        for (let line = top; line < Math.min(top + side, height); line++) {
          pixels.fill(colour, line * width + left, line * width + Math.min(left + side, width));
        }
      }
    }
    context.putImageData(image, 0, 0);
  }

  // Rows in the order they are drawn: what is right first, what is most wrong on top.
  rowsByShade() {
    const groups = Array.from({ length: SHADES }, () => []);
    for (let i = 0; i < this.shades.length; i++) groups[this.shades[i]].push(i);
    const middle = (SHADES - 1) / 2;
    return groups.map((rows, shade) => ({ rows, shade }))
      .sort((a, b) => Math.abs(a.shade - middle) - Math.abs(b.shade - middle));
  }

  drawRows(context, groups, size) {
    for (const { rows, shade } of groups) {
      context.fillStyle = cssColour(this.ramp[shade]);
      context.beginPath();
      for (const i of rows) {
        context.moveTo(this.x[i] + size, this.y[i]);
        context.arc(this.x[i], this.y[i], size, 0, 2 * Math.PI);
      }
      context.fill();
    }
  }

  drawAxes(context) {
    const { left, top, right, bottom } = this.plot;
    context.font = FONT;
    context.fillStyle = this.ink.soft;
    context.strokeStyle = this.ink.line;
    context.lineWidth = 1;
    context.strokeRect(left, top, right - left, bottom - top);
    context.textAlign = "center";
    context.textBaseline = "top";
    const room = (right - left) / Math.max(this.ticksX.length, 1) / 6.5;
    for (const [share, text] of this.ticksX) {
      context.fillText(shorten(text, Math.max(3, Math.floor(room))), left + share * (right - left), bottom + 6);
    }
    context.fillText(shorten(this.names[0], 60), (left + right) / 2, bottom + 24);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [share, text] of this.ticksY) {
      context.fillText(shorten(text, 12), left - 6, bottom - share * (bottom - top), left - 26);
    }
    context.save();
    context.translate(12, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(shorten(this.names[1], 50), 0, 0);
    context.restore();
  }

  // Show all rows, or one with its neighbours before the others.
  show(picked, neighbors) {
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    this.drawAxes(context);
    context.globalAlpha = picked < 0 ? 1 : this.ink.dimmed;
    context.drawImage(this.picture, 0, 0, this.width, this.height);
    context.globalAlpha = 1;
    if (picked < 0) return;
    context.fillStyle = this.ink.ink;
    const size = Math.max(2.2, this.size);
    for (const i of neighbors) {
      context.beginPath();
      context.arc(this.x[i], this.y[i], size + 0.9, 0, 2 * Math.PI);
      context.fill();
    }
    this.drawRows(context, neighbors.map((i) => ({ rows: [i], shade: this.shades[i] })), size);
    context.lineWidth = 2.5;
    context.strokeStyle = this.ink.page;
    this.ring(picked, 11);
    context.strokeStyle = this.ink.ink;
    this.ring(picked, 8.5);
  }

  ring(row, radius) {
    this.context.beginPath();
    this.context.arc(this.x[row], this.y[row], radius, 0, 2 * Math.PI);
    this.context.stroke();
  }
}

const FONT = '12px "Source Sans 3", "Segoe UI", "Noto Sans", Arial, sans-serif';

function axisTicks(axis, count) {
  const share = (value) => (value - axis.low) / (axis.high - axis.low);
  if (!axis.levels) return roundTicks(axis.low, axis.high, count).map((tick) => [share(tick), formatNumber(tick)]);
  const every = Math.ceil(axis.levels.length / (1.5 * count));
  return axis.levels.map((level, code) => [share(code), level])
    .filter(([at], code) => code % every === 0 && at >= 0 && at <= 1);
}
