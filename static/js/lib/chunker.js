import { Resampler, toInt16 } from './resample.js';

/**
 * @typedef {object} Chunk
 * @property {ArrayBuffer | null} pcm int16 mono, or null while muted
 * @property {number} pos index of the first sample since capture began
 * @property {number} samples
 * @property {number} rms of all samples, also while muted: the page can tell a person who speaks that nobody hears it
 */

/** Cuts a microphone signal of any rate into PCM16 chunks of one length. The core of the capture worklet. */
export class Chunker {
  /**
   * @param {number} inHz
   * @param {number} outHz
   * @param {number} chunkMs
   * @param {(chunk: Chunk) => void} emit
   */
  constructor(inHz, outHz, chunkMs, emit) {
    this.resampler = new Resampler(inHz, outHz);
    this.size = Math.round((outHz * chunkMs) / 1000);
    this.emit = emit;
    this.muted = false;
    this.pos = 0;
    this.filled = 0;
    this.energy = 0;
    this.pcm = new Int16Array(this.size);
  }

  /** One render quantum; a second channel is mixed in. @param {Float32Array} left @param {Float32Array} [right] */
  process(left, right) {
    for (let i = 0; i < left.length; i++) {
      this.resampler.push(right ? (left[i] + right[i]) / 2 : left[i]);
      while (!this.resampler.needsInput) this.#put(this.resampler.next());
    }
  }

  /** @param {number} sample */
  #put(sample) {
    this.energy += sample * sample;
    this.pcm[this.filled++] = toInt16(sample);
    if (this.filled === this.size) this.#finish();
  }

  #finish() {
    const { pos, size, muted } = this;
    const rms = Math.sqrt(this.energy / size);
    this.emit({ pcm: muted ? null : this.pcm.buffer, pos, samples: size, rms });
    if (!muted) this.pcm = new Int16Array(size);
    this.pos += size;
    this.filled = 0;
    this.energy = 0;
  }
}
