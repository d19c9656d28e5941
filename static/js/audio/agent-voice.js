import { Downlink } from '../lib/downlink.js';
import { Ducking } from '../lib/ducking.js';
import { DOWN_HZ, FLAG } from '../lib/wire.js';
import { Player } from './player.js';

/** The server wants to know where playback is; the page itself, for its meter, hears four times as often. */
const MARK_MS = 200;

/**
 * @typedef {import('./player.js').PlaybackReport} PlaybackReport
 * @typedef {{response: number, heard: number, received: number}} Progress samples of a response
 */

/**
 * The agent's side of the sound: takes frames, plays them, stops at once, and says what was heard.
 *
 * Events: `progress` (detail: Progress), `level` (detail: RMS), `mark` (detail: a `playback` message), `broken`.
 */
export class AgentVoice extends EventTarget {
  constructor() {
    super();
    this.downlink = new Downlink();
    this.ducking = new Ducking();
    this.volume = 1;
    this.playing = false;
    this.queuedMs = 0;
    this.underruns = 0;
    this.markedAt = 0;
    /** @type {Player | undefined} */
    this.player = undefined;
  }

  /** @param {AudioContext} context */
  open(context) {
    const player = new Player(context);
    player.setVolume(this.volume);
    player.addEventListener('report', (event) => this.#report(/** @type {CustomEvent} */ (event).detail));
    player.addEventListener('broken', () => this.dispatchEvent(new Event('broken')));
    this.player = player;
  }

  close() {
    this.player?.stop();
    this.player = undefined;
    this.#quiet();
  }

  /** A live session begins; the one before is over, and so are its answers. */
  begin() {
    this.downlink.reset();
    this.player?.reset();
    this.#quiet();
  }

  /** @param {import('../lib/wire.js').Frame} frame */
  receive(frame) {
    if (!this.downlink.accept(frame)) return;
    this.player?.push(frame.stream, frame.payload, (frame.flags & FLAG.END) !== 0);
  }

  /** Nothing more comes of a response. @param {{response: number, samples: number}} message */
  complete({ response, samples }) {
    this.player?.end(response);
    if (samples > 0) return;
    const { underruns } = this;
    this.#mark({ event: 'drained', response, played: 0, heard: 0, queued: 0, underruns });
  }

  /** @param {number} response that was interrupted, with all before it */
  flush(response) {
    this.downlink.flush(response);
    this.ducking.release();
    this.player?.flush(response);
    this.player?.duck(false);
  }

  /** The user's microphone hears this: the agent lowers its voice for somebody who speaks. @param {number} rms @param {number} ms */
  yieldTo(rms, ms) {
    this.player?.duck(this.ducking.hear(rms, ms, this.playing));
  }

  /** @param {number} volume 0 to 1 */
  setVolume(volume) {
    this.volume = volume;
    this.player?.setVolume(volume);
  }

  /** @param {PlaybackReport} report */
  #report(report) {
    const { event, response } = report;
    if (event === 'drained') report.heard = report.played;
    this.queuedMs = (1000 * report.queued) / DOWN_HZ;
    this.underruns = report.underruns;
    if (event === 'silent') return;
    this.playing = event !== 'drained' && event !== 'flushed';
    const detail = { response, heard: report.heard, received: this.downlink.received.get(response) ?? 0 };
    this.dispatchEvent(new CustomEvent('progress', { detail }));
    this.#mark(report);
    if (this.playing) this.dispatchEvent(new CustomEvent('level', { detail: report.rms }));
    else this.#quiet();
  }

  #quiet() {
    this.playing = false;
    this.yieldTo(0, 0);
    this.dispatchEvent(new CustomEvent('level', { detail: 0 }));
  }

  /** @param {Omit<PlaybackReport, 'rms' | 'time'>} report */
  #mark({ event, response, played, heard, queued, underruns }) {
    const time = performance.now();
    if (event === 'pos' && time - this.markedAt < MARK_MS) return;
    this.markedAt = time;
    const detail = {
      type: 'playback',
      event,
      response,
      played,
      heard: Math.min(heard, played),
      queued,
      underruns,
    };
    this.dispatchEvent(new CustomEvent('mark', { detail }));
  }
}
