import { DOWN_HZ } from '../lib/wire.js';

const DUCKED = 0.3;
/** Where a browser cannot tell how long its output takes. */
const USUAL_LAG_S = 0.03;

/**
 * @typedef {import('../lib/playout.js').Report & {time: number, heard: number}} PlaybackReport
 * `heard`: samples of the response that have left the speaker
 */

/** The agent's voice. Events: `report` (detail: PlaybackReport), `broken` when the worklet failed. */
export class Player extends EventTarget {
  /** @param {AudioContext} context */
  constructor(context) {
    super();
    this.context = context;
    this.volume = 1;
    this.ducked = false;
    this.node = new AudioWorkletNode(context, 'playback-processor', { numberOfInputs: 0, outputChannelCount: [1] });
    this.gain = context.createGain();
    this.node.connect(this.gain).connect(context.destination);
    this.node.onprocessorerror = () => this.dispatchEvent(new Event('broken'));
    this.node.port.onmessage = ({ data }) => {
      const heard = Math.max(0, Math.round(data.played - this.#lag(data.time) * DOWN_HZ));
      this.dispatchEvent(new CustomEvent('report', { detail: { ...data, heard } }));
    };
  }

  /** Seconds from a sample's rendering until it leaves the speaker. @param {number} rendered context time */
  #lag(rendered) {
    const { contextTime = 0, performanceTime = 0 } = this.context.getOutputTimestamp?.() ?? {};
    // performanceTime is wrong in some browsers; then the difference is absurd and the estimate below is used.
    const lag = rendered - contextTime - Math.max(0, performance.now() - performanceTime) / 1000;
    if (contextTime > 0 && lag > 0 && lag < 1) return lag;
    return this.context.baseLatency + (this.context.outputLatency || USUAL_LAG_S);
  }

  /** @param {number} response @param {ArrayBuffer} pcm is handed over @param {boolean} last */
  push(response, pcm, last) {
    this.node.port.postMessage({ type: 'audio', response, pcm, last }, [pcm]);
  }

  /** @param {number} response */
  end(response) {
    this.node.port.postMessage({ type: 'end', response });
  }

  /** @param {number} response */
  flush(response) {
    this.node.port.postMessage({ type: 'flush', response });
  }

  reset() {
    this.node.port.postMessage({ type: 'reset' });
  }

  /** @param {number} volume 0 to 1 */
  setVolume(volume) {
    this.volume = volume;
    this.#applyGain();
  }

  /** @param {boolean} ducked */
  duck(ducked) {
    if (this.ducked === ducked) return;
    this.ducked = ducked;
    this.#applyGain();
  }

  #applyGain() {
    this.gain.gain.setTargetAtTime(this.volume * (this.ducked ? DUCKED : 1), this.context.currentTime, 0.01);
  }

  stop() {
    this.node.port.postMessage({ type: 'stop' });
    this.node.disconnect();
    this.gain.disconnect();
  }
}
