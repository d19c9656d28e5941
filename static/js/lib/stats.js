/** The last few values of a measurement. */
export class Window {
  /** @param {number} size */
  constructor(size) {
    this.size = size;
    /** @type {number[]} */
    this.values = [];
  }

  /** @param {number} value */
  add(value) {
    this.values.push(value);
    if (this.values.length > this.size) this.values.shift();
  }

  get last() {
    return this.values.at(-1);
  }

  get median() {
    const sorted = this.values.toSorted((a, b) => a - b);
    return sorted.length === 0 ? undefined : sorted[Math.floor((sorted.length - 1) / 2)];
  }
}

/** Root mean square of a signal (1 is full scale) as a meter's deflection, 0 to 1 over the upper 60 dB. @param {number} rms */
export function deflection(rms) {
  return rms <= 0.001 ? 0 : Math.min(1, 1 + Math.log10(rms) / 3);
}
