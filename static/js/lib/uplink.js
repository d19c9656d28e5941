/** Bytes that the socket may hold back: one second of 16 kHz PCM16. */
const MAX_BUFFERED = 32_000;
/** How far the server's ear may be behind. Above what is kept across a reconnect, or that would be dropped right after it. */
const MAX_LAG_MS = 5000;
const BACKLOG_MS = 3000;

/**
 * @typedef {import('../audio/capture.js').CapturedChunk} CapturedChunk
 */

/**
 * Decides for each microphone chunk whether it is sent, kept or dropped, and remembers what was left out.
 *
 * `bufferedAmount` alone does not see a stuck network, since the system's own buffers take megabytes; so the server also
 * says how far it has heard. Once too slow, sending stops until both have caught up: one clean gap instead of a stutter.
 */
export class Uplink {
  constructor() {
    this.stream = 0;
    this.sent = 0;
    this.heard = 0;
    /** Whether this connection acknowledges at all; without that there is no lag to speak of. */
    this.acked = false;
    this.congested = false;
    /** Something is missing before the next frame. */
    this.gap = false;
    this.droppedMs = 0;
    /** @type {CapturedChunk[]} */
    this.backlog = [];
  }

  /** Milliseconds of speech that were sent and not yet heard. */
  get lagMs() {
    return this.acked ? Math.max(0, this.sent - this.heard) / 16 : 0;
  }

  /** A connection begins: nothing is on the way, and what was may be lost. */
  connected() {
    this.congested = false;
    this.gap = true;
    this.acked = false;
    this.heard = this.sent;
  }

  /** @param {number} stream @param {number} pos the server has heard this capture stream up to here */
  ack(stream, pos) {
    if (stream !== this.stream) return;
    this.acked = true;
    this.heard = Math.max(this.heard, pos);
  }

  /**
   * Whether to send this chunk now.
   * @param {{samples: number}} chunk
   * @param {number} buffered bytes that wait in the socket
   */
  admit(chunk, buffered) {
    if (buffered > MAX_BUFFERED || this.lagMs > MAX_LAG_MS) this.congested = true;
    else if (buffered < MAX_BUFFERED / 8 && this.lagMs < 1000) this.congested = false;
    if (this.congested) this.#drop(chunk.samples / 16);
    return !this.congested;
  }

  /**
   * A chunk goes out. Returns what its frame has to say: whether its stream begins with it, whether audio is missing
   * before it. What was left out on purpose (muted, push to talk) is missing too, but it is not on its way.
   * @param {{stream: number, pos: number, samples: number}} chunk
   */
  depart({ stream, pos, samples }) {
    const begins = stream !== this.stream;
    if (begins) {
      this.stream = stream;
      this.sent = pos;
      this.heard = pos;
    }
    const skipped = pos - this.sent;
    const missing = !begins && (this.gap || skipped !== 0);
    this.gap = false;
    this.heard += skipped;
    this.sent = pos + samples;
    return { begins, missing };
  }

  /** No connection: keeps the last three seconds. @param {CapturedChunk} chunk */
  keep(chunk) {
    this.backlog.push(chunk);
    let kept = this.backlog.reduce((sum, { samples }) => sum + samples / 16, 0);
    while (kept > BACKLOG_MS && this.backlog.length > 0) {
      const ms = this.backlog[0].samples / 16;
      this.backlog.shift();
      kept -= ms;
      this.#drop(ms);
    }
  }

  /** What was kept, oldest first; it is handed out once. */
  takeBacklog() {
    const { backlog } = this;
    this.backlog = [];
    return backlog;
  }

  /** @param {number} ms */
  #drop(ms) {
    this.droppedMs += ms;
    this.gap = true;
  }
}
