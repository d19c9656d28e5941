/// <reference types="audioworklet" />
import { Chunker } from '../../lib/chunker.js';
import { UP_HZ } from '../../lib/wire.js';

/**
 * The microphone as PCM16 chunks at 16 kHz.
 *
 * In: `{muted}`, `{stop: true}`. Out: a `Chunk` and `t`, epoch ms when its last sample was captured.
 */
class CaptureProcessor extends AudioWorkletProcessor {
  /** @param {{processorOptions: {chunkMs: number}}} options */
  constructor({ processorOptions }) {
    super();
    this.running = true;
    this.chunker = new Chunker(sampleRate, UP_HZ, processorOptions.chunkMs, (chunk) => {
      this.port.postMessage({ ...chunk, t: Date.now() }, chunk.pcm === null ? [] : [chunk.pcm]);
    });
    this.port.onmessage = ({ data }) => {
      if ('muted' in data) this.chunker.muted = data.muted;
      if (data.stop) this.running = false;
    };
  }

  /** @param {Float32Array[][]} inputs */
  process(inputs) {
    const [left, right] = inputs[0];
    if (left !== undefined) this.chunker.process(left, right);
    return this.running;
  }
}

registerProcessor('capture-processor', CaptureProcessor);
