import { deflection } from '../lib/stats.js';

const BARS = 40;

/** The recent level of one voice, drawn on a canvas in the colour that the style sheet gives it. */
export class Meter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.values = new Array(BARS).fill(0);
    this.waiting = false;
  }

  /** @param {number} rms */
  push(rms) {
    this.values.push(deflection(rms));
    this.values.shift();
    this.redraw();
  }

  clear() {
    this.values.fill(0);
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const { canvas, values } = this;
    const ratio = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const paper = canvas.getContext('2d');
    if (paper === null) return;
    paper.clearRect(0, 0, width, height);
    paper.fillStyle = getComputedStyle(canvas).color;
    const step = width / values.length;
    const bar = Math.max(1, Math.round(step * 0.5));
    for (const [index, value] of values.entries()) {
      const tall = Math.max(2 * ratio, value * height);
      paper.globalAlpha = value > 0 ? 1 : 0.35;
      paper.beginPath();
      paper.roundRect(index * step, (height - tall) / 2, bar, tall, bar / 2);
      paper.fill();
    }
  }
}
