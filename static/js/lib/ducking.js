const LOUD_RMS = 0.03;
const ONSET_MS = 60;
const HOLD_MS = 700;
const REARM_MS = 200;
/** An echo canceller needs this long of the first answer to learn the room; until then the agent hears itself. */
const LEARNING_MS = 1000;

/**
 * Lowers the agent's voice the moment the user speaks over it, long before the server can know whether that was speech.
 * If the server does not agree within a moment, the voice comes back, and the next noise has to be a new one.
 */
export class Ducking {
  constructor() {
    this.loudMs = 0;
    this.quietMs = REARM_MS;
    this.playedMs = 0;
    this.duckedMs = -1;
    this.armed = true;
  }

  get active() {
    return this.duckedMs >= 0;
  }

  /**
   * One microphone chunk. Returns whether the agent is to be quieter now.
   * @param {number} rms @param {number} ms length of the chunk @param {boolean} playing
   */
  hear(rms, ms, playing) {
    const loud = rms > LOUD_RMS;
    this.loudMs = loud ? this.loudMs + ms : 0;
    this.quietMs = loud ? 0 : this.quietMs + ms;
    if (this.quietMs >= REARM_MS) this.armed = true;
    if (playing) this.playedMs += ms;
    if (!playing) this.release();
    else if (this.active) this.#hold(ms);
    else if (this.armed && this.loudMs >= ONSET_MS && this.playedMs > LEARNING_MS) this.duckedMs = 0;
    return this.active;
  }

  /** The answer was interrupted or is over: the next one starts at full volume. */
  release() {
    this.duckedMs = -1;
  }

  /** @param {number} ms */
  #hold(ms) {
    this.duckedMs += ms;
    if (this.duckedMs < HOLD_MS) return;
    this.duckedMs = -1;
    this.armed = false;
  }
}
