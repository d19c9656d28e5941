/// <reference types="audioworklet" />
import { Playout } from '../../lib/playout.js';
import { DOWN_HZ } from '../../lib/wire.js';

const REPORT_S = 0.05;

/**
 * Plays the agent's voice.
 *
 * In: `{type: 'audio', response, pcm, last}`, `{type: 'end' | 'flush', response}`, `{type: 'reset' | 'stop'}`.
 * Out: a `Report` and `time`, the context time at which it was true.
 */
class PlaybackProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.running = true;
    this.frames = 0;
    this.playout = new Playout(DOWN_HZ, sampleRate, (report) =>
      this.port.postMessage({ ...report, time: currentTime }),
    );
    this.port.onmessage = ({ data }) => this.receive(data);
  }

  /** @param {{type: string, response: number, pcm: ArrayBuffer, last: boolean}} message */
  receive({ type, response, pcm, last }) {
    if (type === 'audio') this.playout.push(response, new Int16Array(pcm), last);
    else if (type === 'end') this.playout.end(response);
    else if (type === 'flush') this.playout.flush(response);
    else if (type === 'reset') this.playout.reset();
    else if (type === 'stop') this.running = false;
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs */
  process(_inputs, outputs) {
    const out = outputs[0][0];
    this.playout.render(out);
    this.frames += out.length;
    if (this.frames >= REPORT_S * sampleRate) {
      this.frames = 0;
      this.playout.tick();
    }
    return this.running;
  }
}

registerProcessor('playback-processor', PlaybackProcessor);
