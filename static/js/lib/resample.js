/** @param {number} a @param {number} b @returns {number} */
const gcd = (a, b) => (b === 0 ? a : gcd(b, a % b));

/** Modified Bessel function of the first kind, order 0. @param {number} x */
function besselI0(x) {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/**
 * One Kaiser-windowed sinc per output phase, each with unit gain at 0 Hz.
 * @param {number} phases
 * @param {number} taps per phase, even
 * @param {number} cutoff as a fraction of the input's Nyquist frequency
 * @param {number} beta of the Kaiser window: more is a deeper stop band and a wider slope
 */
function kaiserBank(phases, taps, cutoff, beta) {
  const bank = new Float32Array(phases * taps);
  const half = taps / 2;
  for (let phase = 0; phase < phases; phase++) {
    const row = bank.subarray(phase * taps, (phase + 1) * taps);
    let sum = 0;
    for (let k = 0; k < taps; k++) {
      const x = k + phase / phases - half;
      const sinc = x === 0 ? cutoff : Math.sin(Math.PI * cutoff * x) / (Math.PI * x);
      const edge = 1 - (x / half) ** 2;
      row[k] = edge <= 0 ? 0 : (sinc * besselI0(beta * Math.sqrt(edge))) / besselI0(beta);
      sum += row[k];
    }
    for (let k = 0; k < taps; k++) row[k] /= sum;
  }
  return bank;
}

/**
 * Streaming resampler between two whole-number rates: a polyphase filter that neither allocates nor drifts, so it runs
 * inside an audio worklet. Push input samples while `needsInput`, take output samples otherwise.
 */
export class Resampler {
  /** @param {number} inHz @param {number} outHz */
  constructor(inHz, outHz) {
    const divisor = gcd(inHz, outHz);
    this.up = outHz / divisor;
    this.down = inHz / divisor;
    /** With equal rates nothing is filtered: what goes in comes out. */
    this.direct = this.up === this.down;
    const scale = Math.min(1, this.up / this.down);
    /** Length of the filter in input samples; longer when the rate goes down, so that the slope stays as steep. */
    this.taps = this.direct ? 2 : 2 * Math.ceil(24 / scale);
    this.bank = this.direct ? new Float32Array([1, 0]) : kaiserBank(this.up, this.taps, 0.945 * scale, 9);
    /** The last `taps` inputs, newest first, kept twice so that any window of them is contiguous. */
    this.history = new Float32Array(2 * this.taps);
    this.head = 0;
    /** How far the next output lies behind the newest input, in 1 / (up * inHz). */
    this.lag = this.up;
  }

  /** Delay of the filter in input samples. */
  get delay() {
    return this.direct ? 0 : this.taps / 2;
  }

  /** Forgets the past, so that nothing of an old sound is heard in the next one. */
  reset() {
    this.history.fill(0);
    this.head = 0;
    this.lag = this.up;
  }

  get needsInput() {
    return this.lag >= this.up;
  }

  /** @param {number} sample */
  push(sample) {
    this.head = (this.head === 0 ? this.taps : this.head) - 1;
    this.history[this.head] = sample;
    this.history[this.head + this.taps] = sample;
    this.lag -= this.up;
  }

  /** The next output sample; only while not `needsInput`. */
  next() {
    const { bank, history, head, taps } = this;
    const row = this.lag * taps;
    let sum = 0;
    for (let k = 0; k < taps; k++) sum += bank[row + k] * history[head + k];
    this.lag += this.down;
    return sum;
  }
}

/** A float sample as int16, clamped: without that, 1.0 would wrap to -32768. @param {number} x */
export function toInt16(x) {
  return Math.max(-32768, Math.min(32767, Math.round(x * 32768)));
}
