import { PushToTalk } from '../lib/push-to-talk.js';
import { UP_HZ } from '../lib/wire.js';
import { Capture } from './capture.js';

/** Muted for longer than this, the device is given back: the system's sign that somebody listens goes out. */
const RELEASE_MS = 60_000;
const MUTED_SPEECH_MS = 600;
const LOUD_RMS = 0.03;

/**
 * @typedef {import('./capture.js').CapturedChunk} CapturedChunk
 * @typedef {import('./capture.js').CaptureOptions} CaptureOptions
 */

/**
 * The user's side of the sound: the microphone, muted or not, hands-free or by push to talk.
 *
 * Events: `level` (detail: {rms, ms}), `audio` (detail: a CapturedChunk that is to be sent), `activity` (detail: 'start'
 * or 'end'), `unheard` when somebody speaks into the muted microphone, `lost`, `broken`.
 */
export class UserVoice extends EventTarget {
  constructor() {
    super();
    /** @type {Capture | undefined} */
    this.capture = undefined;
    /** @type {PushToTalk<CapturedChunk>} */
    this.gate = new PushToTalk();
    this.gated = false;
    this.muted = false;
    this.mutedSpeechMs = 0;
  }

  get open() {
    return this.capture?.graph !== undefined;
  }

  /**
   * Opens the microphone, or changes to another one. Rejects as `getUserMedia` does; what was open then goes on.
   * @param {AudioContext} context @param {CaptureOptions} options @param {number} chunkMs
   */
  async start(context, options, chunkMs) {
    this.capture ??= this.#capture(context);
    await this.capture.start(options, chunkMs);
  }

  stop() {
    clearTimeout(this.releaseTimer);
    this.capture?.stop();
    this.capture = undefined;
    this.gate = new PushToTalk();
    this.muted = false;
  }

  /** @param {boolean} muted */
  mute(muted) {
    this.muted = muted;
    this.mutedSpeechMs = 0;
    this.capture?.mute(muted);
    clearTimeout(this.releaseTimer);
    if (muted) this.releaseTimer = setTimeout(() => this.capture?.stop(), RELEASE_MS);
  }

  /** Whether the microphone is heard only while the button is pressed. @param {boolean} gated */
  setGated(gated) {
    if (this.gate.state !== 'closed') this.#activity('end');
    this.gate = new PushToTalk();
    this.gated = gated;
  }

  press() {
    if (this.gate.press()) this.#activity('start');
  }

  release() {
    this.gate.release();
  }

  /** @param {AudioContext} context */
  #capture(context) {
    const capture = new Capture(context);
    capture.mute(this.muted);
    capture.addEventListener('chunk', (event) => this.#hear(/** @type {CustomEvent} */ (event).detail));
    capture.addEventListener('broken', () => this.dispatchEvent(new Event('broken')));
    capture.addEventListener('lost', () => {
      capture.stop();
      this.dispatchEvent(new Event('lost'));
    });
    return capture;
  }

  /** @param {CapturedChunk} chunk */
  #hear(chunk) {
    const { rms, samples, pcm } = chunk;
    const ms = (1000 * samples) / UP_HZ;
    this.dispatchEvent(new CustomEvent('level', { detail: { rms, ms } }));
    if (this.muted) this.#hintMuted(rms, ms);
    if (pcm === null) return;
    if (!this.gated) this.#send(chunk);
    else {
      const { chunks, ends } = this.gate.feed(chunk);
      for (const piece of chunks) this.#send(piece);
      if (ends) this.#activity('end');
    }
  }

  /** Once for each time the microphone is muted. @param {number} rms @param {number} ms */
  #hintMuted(rms, ms) {
    if (this.mutedSpeechMs < 0) return;
    this.mutedSpeechMs = rms > LOUD_RMS ? this.mutedSpeechMs + ms : 0;
    if (this.mutedSpeechMs < MUTED_SPEECH_MS) return;
    this.mutedSpeechMs = -1;
    this.dispatchEvent(new Event('unheard'));
  }

  /** @param {CapturedChunk} detail */
  #send(detail) {
    this.dispatchEvent(new CustomEvent('audio', { detail }));
  }

  /** @param {'start' | 'end'} detail */
  #activity(detail) {
    this.dispatchEvent(new CustomEvent('activity', { detail }));
  }
}
