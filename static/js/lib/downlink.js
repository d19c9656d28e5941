import { FLAG } from './wire.js';

/** Which frames of the agent's voice are to be played, and how much of each response has come. */
export class Downlink {
  constructor() {
    /** Samples of each response up to the last one received. @type {Map<number, number>} */
    this.received = new Map();
    this.flushed = 0;
    /** Samples that the server left out because the network was too slow. */
    this.missing = 0;
  }

  /**
   * Refuses what belongs to an interrupted response and what was already received before a reconnect.
   * @param {{stream: number, pos: number, flags: number, payload: ArrayBuffer}} frame
   */
  accept({ stream, pos, flags, payload }) {
    if (stream <= this.flushed) return false;
    const expected = this.received.get(stream) ?? 0;
    if (pos < expected) return false;
    // A response whose head was heard on an earlier connection starts in the middle, which is no loss.
    if (pos > expected && (expected > 0 || (flags & FLAG.DISCONTINUITY) !== 0)) this.missing += pos - expected;
    this.received.set(stream, pos + payload.byteLength / 2);
    return true;
  }

  /** @param {number} response */
  flush(response) {
    this.flushed = Math.max(this.flushed, response);
  }

  /** A new live session counts its responses from 1 again. */
  reset() {
    this.received.clear();
    this.flushed = 0;
  }
}
