/// <reference types="audioworklet" />
/**
 * Records what reaches the speaker, sample by sample. Not shipped: the tests connect it beside the page's own output.
 * In: `'stop'`. Out: `{pcm: Float32Array, rate, first}`; `first` is the frame of the context at which the record begins.
 */
class TapProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.pcm = new Float32Array(sampleRate * 90);
    this.length = 0;
    this.first = -1;
    this.port.onmessage = () => {
      this.port.postMessage({ pcm: this.pcm.slice(0, this.length), rate: sampleRate, first: this.first });
    };
  }

  /** @param {Float32Array[][]} inputs */
  process([[channel]]) {
    if (this.first < 0) this.first = currentFrame;
    const size = channel?.length ?? 128;
    if (this.length + size <= this.pcm.length) {
      if (channel !== undefined) this.pcm.set(channel, this.length);
      this.length += size;
    }
    return true;
  }
}

registerProcessor('tap-processor', TapProcessor);
