import { Resampler } from './resample.js';

/** Ramp at every edge of sound, seconds: shorter clicks, longer is heard as a smear. */
const FADE_S = 0.004;
const NOTHING = new Int16Array(0);

/**
 * @typedef {'start' | 'pos' | 'underrun' | 'drained' | 'flushed' | 'silent'} PlayoutEvent
 * @typedef {object} Report
 * @property {PlayoutEvent} event
 * @property {number} response
 * @property {number} played samples of that response that were handed to the output
 * @property {number} queued samples of any response that wait
 * @property {number} underruns so far
 * @property {number} rms of the output since the last report
 */

/**
 * Plays 24 kHz PCM16 at the device's rate and knows to the sample what was played. The core of the playback worklet.
 *
 *     idle -> buffering -> playing -> idle        the response ended and its last sample is out
 *                ^            |  `-> buffering    nothing left though more is to come: an underrun
 *                `-- fading <-'                   flushed: 4 ms to silence, then whatever came after
 *
 * Chunks wait in a list and not in a ring: a model may make minutes of speech at once, and all of it is to be played.
 */
export class Playout {
  /**
   * @param {number} inHz
   * @param {number} outHz
   * @param {(report: Report) => void} report
   * @param {{prebufferMs?: number, maxPrebufferMs?: number}} [options]
   */
  constructor(inHz, outHz, report, { prebufferMs = 100, maxPrebufferMs = 400 } = {}) {
    this.resampler = new Resampler(inHz, outHz);
    this.report = report;
    this.minPrebuffer = (inHz * prebufferMs) / 1000;
    this.maxPrebuffer = (inHz * maxPrebufferMs) / 1000;
    this.prebuffer = this.minPrebuffer;
    this.fadeStep = 1 / (FADE_S * outHz);
    /** With this little left and more to come the fade begins, so that a hole in the stream does not click. */
    this.low = Math.round(FADE_S * inHz);
    /** @type {{response: number, pcm: Int16Array}[]} */
    this.queue = [];
    this.offset = 0;
    this.queued = 0;
    /** @type {'idle' | 'buffering' | 'playing' | 'fading'} */
    this.state = 'idle';
    this.response = 0;
    this.played = 0;
    this.flushed = 0;
    this.complete = 0;
    this.gain = 1;
    this.ringing = 0;
    /** @type {Int16Array} */
    this.tail = NOTHING;
    this.tailOffset = 0;
    this.underruns = 0;
    this.energy = 0;
    this.frames = 0;
  }

  /** Audio of a response; `last` when nothing of it follows. @param {number} response @param {Int16Array} pcm @param {boolean} last */
  push(response, pcm, last) {
    if (response <= this.flushed) return;
    if (pcm.length > 0) {
      this.queue.push({ response, pcm });
      this.queued += pcm.length;
    }
    // That a later response has begun says that the one before is whole.
    this.complete = Math.max(this.complete, last ? response : response - 1);
    if (this.state === 'idle' && this.queued > 0) this.#buffer(response);
  }

  /** Nothing of this response follows. @param {number} response */
  end(response) {
    this.complete = Math.max(this.complete, response);
  }

  /**
   * Stops everything up to this response within 4 ms and refuses what of it is still on the way. Reports every response
   * that it stopped, or, when it came too late to stop anything, how far the named one had been played.
   * @param {number} response
   */
  flush(response) {
    const { response: current, played } = this;
    const stopped = new Map(
      this.queue.filter((chunk) => chunk.response <= response).map((chunk) => [chunk.response, 0]),
    );
    if (this.state !== 'idle' && current <= response) stopped.set(current, played);
    if (stopped.size === 0) stopped.set(response, current === response ? played : 0);
    this.flushed = Math.max(this.flushed, response);
    this.#drop(response);
    for (const [number, heard] of stopped) this.#post('flushed', number, heard);
  }

  /** A new live session counts its responses from 1 again; what still plays of the old one stops. */
  reset() {
    this.#drop(Number.MAX_SAFE_INTEGER);
    this.flushed = 0;
    this.complete = 0;
    this.response = 0;
    this.played = 0;
  }

  /** Fills one render quantum. @param {Float32Array} out */
  render(out) {
    if (this.state === 'buffering') this.#maybePlay();
    let i = 0;
    while (i < out.length && (this.state === 'playing' || this.state === 'fading')) {
      while (this.resampler.needsInput) this.resampler.push(this.#pull());
      this.#ramp();
      const sample = this.resampler.next() * this.gain;
      out[i++] = sample;
      this.energy += sample * sample;
      this.#settle();
    }
    out.fill(0, i);
    this.frames += out.length;
  }

  /** Tells where playback is; call it at the pace at which reports are wanted. */
  tick() {
    if (this.state !== 'idle') this.#post('pos');
    this.energy = 0;
    this.frames = 0;
  }

  /** @param {number} response */
  #buffer(response) {
    this.state = 'buffering';
    if (response === this.response) return;
    this.response = response;
    this.played = 0;
    this.prebuffer = Math.max(this.minPrebuffer, this.prebuffer * 0.9);
  }

  #maybePlay() {
    const whole = this.complete >= this.response;
    if (this.queued === 0 && whole) {
      // Its last sample was played when it ran dry, and only then the news came that it was the last.
      this.state = 'idle';
      this.#post('drained');
    } else if (this.queued >= this.prebuffer || whole) {
      this.state = 'playing';
      this.gain = this.played === 0 ? 1 : 0;
      this.#post(this.played === 0 ? 'start' : 'pos');
    }
  }

  #pull() {
    if (this.state === 'fading') return this.tailOffset < this.tail.length ? this.tail[this.tailOffset++] / 32768 : 0;
    const chunk = this.queue[0];
    if (chunk === undefined) {
      this.ringing += 1;
      return 0;
    }
    if (chunk.response !== this.response) this.#next(chunk.response);
    const sample = chunk.pcm[this.offset++] / 32768;
    if (this.offset === chunk.pcm.length) {
      this.queue.shift();
      this.offset = 0;
    }
    this.queued -= 1;
    this.played += 1;
    this.ringing = 0;
    return sample;
  }

  /** One response follows the other without a pause. @param {number} response */
  #next(response) {
    this.#post('drained');
    this.response = response;
    this.played = 0;
    this.#post('start');
  }

  #ramp() {
    const loud = this.state === 'playing' && (this.queued > this.low || this.complete >= this.response);
    if (loud) this.gain = Math.min(1, this.gain + this.fadeStep);
    else this.gain = Math.max(0, this.gain - this.fadeStep);
  }

  /** Leaves the playing states when there is nothing more to be heard. */
  #settle() {
    if (this.state === 'fading') {
      if (this.gain === 0) this.#silence();
    } else if (this.queued === 0 && this.complete >= this.response) {
      if (this.ringing >= this.resampler.taps) this.#stop('idle', 'drained');
    } else if (this.queued === 0 && this.gain === 0) {
      this.underruns += 1;
      this.prebuffer = Math.min(this.maxPrebuffer, this.prebuffer * 1.5);
      this.#stop('buffering', 'underrun');
    }
  }

  /** @param {'idle' | 'buffering'} state @param {PlayoutEvent} event */
  #stop(state, event) {
    this.state = state;
    this.ringing = 0;
    this.resampler.reset();
    this.#post(event);
  }

  #silence() {
    this.resampler.reset();
    this.ringing = 0;
    this.gain = 1;
    this.#post('silent');
    this.#rest();
  }

  /** Takes out the audio up to this response; the first of it is kept for the fade. @param {number} response */
  #drop(response) {
    const first = this.queue[0];
    const cut = first !== undefined && first.response <= response;
    const audible = this.state === 'playing' && this.response <= response;
    if (audible) {
      this.tail = cut ? first.pcm.slice(this.offset, this.offset + this.low + this.resampler.taps) : NOTHING;
      this.tailOffset = 0;
    }
    if (cut) this.offset = 0;
    this.queue = this.queue.filter((chunk) => chunk.response > response);
    this.queued = this.queue.reduce((sum, chunk) => sum + chunk.pcm.length, 0) - this.offset;
    if (audible) this.state = 'fading';
    if (this.state === 'buffering' && this.response <= response) this.#rest();
  }

  /** Nothing sounds: wait for audio, or begin with what is there. */
  #rest() {
    this.state = 'idle';
    if (this.queue.length > 0) this.#buffer(this.queue[0].response);
  }

  /** @param {PlayoutEvent} event @param {number} [response] @param {number} [played] */
  #post(event, response = this.response, played = this.played) {
    const rms = this.frames > 0 ? Math.sqrt(this.energy / this.frames) : 0;
    this.report({ event, response, played, queued: this.queued, underruns: this.underruns, rms });
  }
}
