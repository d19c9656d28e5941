import { backoffMs, mayReconnect } from '../lib/backoff.js';
import { Window } from '../lib/stats.js';
import { Uplink } from '../lib/uplink.js';
import { decodeFrame, encodeFrame, FLAG, KIND, SUBPROTOCOL } from '../lib/wire.js';

const SETUP_MS = 15_000;
/** A local voice may still be loading; the server says so and keeps its own limit. */
const LOADING_MS = 90_000;
const PING_MS = 5000;
const SILENCE_MS = 12_000;
/** A connection that lasted this long was a good one: the next loss starts again with the shortest wait. */
const STABLE_MS = 5000;

/** Epoch milliseconds, finer and steadier than `Date.now()`. */
export const now = () => performance.timeOrigin + performance.now();

/**
 * @typedef {import('../lib/stateline.js').Link} Link
 * @typedef {import('../audio/capture.js').CapturedChunk} CapturedChunk
 * @typedef {{code: string, message: string, retry_after_ms?: number}} WireError
 * @typedef {object} LinkChange
 * @property {Link} link
 * @property {number} attempt
 * @property {number} [code] why the last connection ended
 * @property {WireError} [error] what the server said about that
 */

/**
 * One conversation with the gateway over as many connections as it takes.
 *
 * Events: `link` (detail: LinkChange), `welcome` and `message` (detail: the message), `audio` (detail: a frame).
 */
export class LiveSocket extends EventTarget {
  /**
   * @param {string | URL} url
   * @param {() => object} hello what to say first on each connection, beside what this class knows itself
   */
  constructor(url, hello) {
    super();
    this.url = url;
    this.hello = hello;
    /** @type {Link} */
    this.link = 'idle';
    this.attempt = 0;
    this.session = '';
    this.lastSeq = 0;
    /** @type {string | undefined} */
    this.resumeToken = undefined;
    this.uplink = new Uplink();
    this.rtt = new Window(24);
    /** @type {WebSocket | undefined} */
    this.socket = undefined;
    /** @type {WireError | undefined} */
    this.error = undefined;
    this.retryAfterMs = 0;
    this.frameNo = 0;
    this.heardAt = 0;
    this.readyAt = 0;
    this.listening = new AbortController();
  }

  connect() {
    const { signal } = this.listening;
    addEventListener('online', () => this.#retryNow(), { signal });
    addEventListener('pageshow', () => this.#retryNow(), { signal });
    addEventListener('offline', () => this.#lose(1006), { signal });
    document.addEventListener('visibilitychange', () => document.hidden || this.#retryNow(), { signal });
    this.#open();
  }

  /** The user is done. */
  close() {
    this.listening.abort();
    this.send({ type: 'bye' });
    this.#drop();
    this.#change('stopped', 1000);
  }

  /** Connects anew, for what a server takes only in `hello`. */
  renew() {
    if (this.link !== 'ready') return;
    this.#drop();
    this.#open('connecting');
  }

  /** @param {object} message @returns {boolean} whether there was a connection to send it on */
  send(message) {
    if (this.link !== 'ready' || this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  /** One microphone chunk: sent, kept until there is a connection again, or dropped. @param {CapturedChunk} chunk */
  sendAudio(chunk) {
    if (this.link === 'idle' || this.link === 'stopped') return;
    if (this.link !== 'ready' || this.socket === undefined) this.uplink.keep(chunk);
    else if (this.uplink.admit(chunk, this.socket.bufferedAmount)) this.#sendFrame(chunk, 0);
  }

  /** @param {Link} [link] how to call it, if not a first try or another one */
  #open(link = this.attempt > 0 || this.session !== '' ? 'reconnecting' : 'connecting') {
    clearTimeout(this.timer);
    if (!navigator.onLine) {
      this.#change('offline');
      return;
    }
    this.#change(link);
    const socket = new WebSocket(this.url, [SUBPROTOCOL]);
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    this.#deadline(SETUP_MS);
    socket.onopen = () => socket.send(JSON.stringify(this.#helloMessage()));
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code }) => this.#lose(code);
  }

  #helloMessage() {
    const resume = this.resumeToken === undefined ? {} : { resume: this.resumeToken, last_seq: this.lastSeq };
    const session = this.session === '' ? {} : { session: this.session };
    return { type: 'hello', v: 1, ...this.hello(), ...session, ...resume };
  }

  /** @param {number} ms */
  #deadline(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#lose(1006), ms);
  }

  /** @param {string | ArrayBuffer} data */
  #receive(data) {
    this.heardAt = performance.now();
    if (typeof data !== 'string') {
      this.dispatchEvent(new CustomEvent('audio', { detail: decodeFrame(data) }));
      return;
    }
    const message = JSON.parse(data);
    if (typeof message.seq === 'number') this.lastSeq = Math.max(this.lastSeq, message.seq);
    if (message.type === 'welcome') this.#welcome(message);
    else if (message.type === 'pong') this.rtt.add(Math.max(0, now() - message.t0 - (message.t2 - message.t1)));
    else if (message.type === 'input.ack') this.uplink.ack(message.stream, message.pos);
    else this.#noteTrouble(message);
    this.dispatchEvent(new CustomEvent('message', { detail: message }));
  }

  /** @param {any} message */
  #noteTrouble(message) {
    if (message.type === 'notice' && message.code === 'loading_voice' && this.link !== 'ready')
      this.#deadline(LOADING_MS);
    if (message.type === 'error' && message.fatal) this.error = message;
    if (message.type === 'goaway' || message.fatal) this.retryAfterMs = message.retry_after_ms ?? 0;
  }

  /** @param {any} message */
  #welcome(message) {
    clearTimeout(this.timer);
    if (message.session !== this.session) this.lastSeq = 0;
    this.session = message.session;
    this.resumeToken = message.resume_ttl_s > 0 ? message.resume_token : undefined;
    this.readyAt = performance.now();
    this.error = undefined;
    this.uplink.connected();
    this.#change('ready');
    this.dispatchEvent(new CustomEvent('welcome', { detail: message }));
    for (const chunk of this.uplink.takeBacklog()) this.#sendFrame(chunk, FLAG.BACKLOG);
    this.pinger = setInterval(() => this.#ping(), PING_MS);
    this.#ping();
  }

  #ping() {
    if (performance.now() - this.heardAt > SILENCE_MS) this.#lose(1006);
    else this.send({ type: 'ping', t0: now() });
  }

  /** @param {CapturedChunk} chunk @param {number} flags */
  #sendFrame(chunk, flags) {
    if (chunk.pcm === null || this.socket === undefined) return;
    const { begins, missing } = this.uplink.depart(chunk);
    const { stream, pos, t } = chunk;
    const all = flags | (begins ? FLAG.START : 0) | (missing ? FLAG.DISCONTINUITY : 0);
    this.socket.send(
      encodeFrame({ kind: KIND.AUDIO_UP, flags: all, stream, frameNo: this.frameNo++, pos, t }, chunk.pcm),
    );
  }

  /** The connection is gone, or given up. @param {number} code */
  #lose(code) {
    if (this.listening.signal.aborted) return;
    this.#drop();
    if (performance.now() - this.readyAt > STABLE_MS && this.readyAt > 0) this.attempt = 0;
    this.readyAt = 0;
    if (!mayReconnect(code)) {
      this.listening.abort();
      this.#change('stopped', code);
    } else if (!navigator.onLine) this.#change('offline', code);
    else {
      const wait = Math.max(this.retryAfterMs, backoffMs(this.attempt++));
      this.retryAfterMs = 0;
      this.timer = setTimeout(() => this.#open(), wait);
      this.#change('reconnecting', code);
    }
  }

  #drop() {
    clearTimeout(this.timer);
    clearInterval(this.pinger);
    this.frameNo = 0;
    const { socket } = this;
    this.socket = undefined;
    if (socket === undefined) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #retryNow() {
    if ((this.link === 'offline' || this.link === 'reconnecting') && this.socket === undefined) this.#open();
  }

  /** @param {Link} link @param {number} [code] */
  #change(link, code) {
    this.link = link;
    /** @type {LinkChange} */
    const detail = { link, attempt: Math.max(1, this.attempt), code, error: this.error };
    this.dispatchEvent(new CustomEvent('link', { detail }));
  }
}
