import { AgentVoice } from '../audio/agent-voice.js';
import { microphoneProblem } from '../audio/capture.js';
import { canPlay, openAudioContext } from '../audio/context.js';
import { UserVoice } from '../audio/user-voice.js';
import { Conversation } from '../lib/conversation.js';
import { Window } from '../lib/stats.js';
import { KIND } from '../lib/wire.js';
import { LiveSocket } from '../net/live-socket.js';
import { noticeKey, stopKey } from './reasons.js';

const DEFAULT_CHUNK_MS = 40;
const STATS_MS = 10_000;

/**
 * @typedef {import('../lib/stateline.js').Situation} Situation
 * @typedef {import('../audio/capture.js').CaptureOptions} CaptureOptions
 * @typedef {import('../i18n/en.js').Key} Key
 * @typedef {{level: 'error' | 'warning' | 'info', key: Key, params?: Record<string, string | number>}} Note
 */

/** What a call begins with. @returns {Situation} */
const atRest = () => ({
  link: 'idle',
  attempt: 0,
  loadingVoice: false,
  agent: 'listening',
  microphone: 'off',
  muted: false,
  input: 'hands_free',
  talking: false,
  toggle: false,
});

/** The part of an event that says what it is about. @param {Event} event */
const detailOf = (event) => /** @type {CustomEvent} */ (event).detail;

/** `crypto.randomUUID` exists on secure pages only, and typing has to work on the others too. */
const freshId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * A conversation by voice: the socket, the two voices, and what is known of them. No part of it touches the document.
 *
 * Events: `change`, `note` (detail: Note, worth a line to the user), `userlevel` and `agentlevel` (detail: RMS),
 * `interrupted`, `microphonelost`.
 */
export class VoiceCall extends EventTarget {
  /** @param {{url: string | URL, hello: object, microphone: () => CaptureOptions}} options */
  constructor({ url, hello, microphone }) {
    super();
    this.url = url;
    this.hello = hello;
    this.microphone = microphone;
    this.now = atRest();
    this.conversation = new Conversation();
    this.agent = new AgentVoice();
    this.user = new UserVoice();
    /** @type {AudioContext | undefined} */
    this.context = undefined;
    /** @type {LiveSocket | undefined} */
    this.socket = undefined;
    this.session = '';
    this.model = '';
    this.chunkMs = DEFAULT_CHUNK_MS;
    /** What the server can do beyond the least. @type {string[]} */
    this.features = [];
    /** How long the end-of-speech rule waited for the last answer. @type {number | undefined} */
    this.silenceMs = undefined;
    this.responses = new Window(50);
    this.#followAgent();
    this.#followUser();
  }

  get live() {
    return this.now.link !== 'idle' && this.now.link !== 'stopped';
  }

  get rttMs() {
    return this.socket?.rtt.median;
  }

  get lagMs() {
    return this.socket?.uplink.lagMs;
  }

  get droppedMs() {
    return this.socket?.uplink.droppedMs ?? 0;
  }

  /** Begins, or goes on with, the conversation. Call it straight from a click. @param {boolean} withMicrophone */
  async start(withMicrophone) {
    if (this.live) return;
    this.#set({ link: 'connecting', microphone: withMicrophone ? 'asking' : 'off', agent: 'listening' });
    try {
      await this.#openAudio();
    } catch {
      this.#note('error', 'audio.broken');
    }
    if (!this.live) return;
    this.#connect();
    if (withMicrophone) await this.openMicrophone();
  }

  /** The user is done. */
  end() {
    if (this.socket !== undefined) this.socket.close();
    else if (this.live) this.#linkChanged({ link: 'stopped', attempt: 1, code: 1000 });
  }

  /** Forgets the conversation: the next one begins with nothing said. */
  forget() {
    this.conversation = new Conversation();
    this.session = '';
    this.#changed();
  }

  /** Asks for the microphone, or for another one while the first goes on. */
  async openMicrophone() {
    if (!this.user.open) this.#set({ microphone: 'asking' });
    try {
      if (this.context === undefined) throw new Error('the browser gives this page no audio');
      await this.user.start(this.context, this.microphone(), this.chunkMs);
      if (!this.live) this.user.stop();
      this.#set({ microphone: this.live ? 'on' : 'off' });
    } catch (error) {
      this.#set({ microphone: this.user.open ? 'on' : 'failed' });
      this.#note('error', microphoneProblem(error));
    }
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.user.mute(muted);
    this.socket?.send({ type: 'input.mute', muted });
    this.#set({ muted });
    if (!muted && !this.user.open) this.openMicrophone();
  }

  /** @param {'hands_free' | 'ptt'} input */
  setInput(input) {
    this.user.setGated(input === 'ptt');
    this.#set({ input, talking: false });
    if (this.features.includes('input.mode')) this.socket?.send({ type: 'input.mode', mode: input });
    else this.socket?.renew();
  }

  /** Push to talk by two presses instead of a held button. @param {boolean} toggle */
  setToggle(toggle) {
    this.#set({ toggle });
  }

  /** Push to talk: the button is pressed or released. @param {boolean} talking */
  talk(talking) {
    if (talking === this.now.talking) return;
    if (!talking) this.user.release();
    else if (this.now.link === 'ready' && this.now.microphone === 'on') {
      if (this.agent.playing) this.cancel('ptt');
      this.user.press();
    } else return;
    this.#set({ talking });
  }

  /** Stops the answer. @param {'button' | 'ptt'} reason */
  cancel(reason) {
    this.socket?.send({ type: 'response.cancel', reason });
  }

  /** Says it in writing; begins a conversation without a microphone if there is none. @param {string} text */
  type(text) {
    this.conversation.type(freshId(), text);
    this.#sendTyped();
  }

  /** Approves or denies a call that waits. @param {string} id @param {boolean} approve */
  decide(id, approve) {
    const digest = this.conversation.calls.get(id)?.digest;
    if (!this.conversation.decide(id)) return;
    this.socket?.send({ type: 'tool.confirm', call: id, approve, digest });
    this.#set({});
  }

  /** @param {string} id of a typed message that did not arrive */
  typeAgain(id) {
    this.conversation.outbox.again(id, freshId());
    this.#sendTyped();
  }

  /** @param {string} deviceId */
  async setSpeaker(deviceId) {
    const context = /** @type {AudioContext & {setSinkId?: (id: string) => Promise<void>}} */ (this.context);
    await context?.setSinkId?.(deviceId).catch(() => this.#note('error', 'speaker.failed'));
  }

  async #openAudio() {
    if (!canPlay()) return;
    if (this.context === undefined) this.context = await openAudioContext();
    else await this.context.resume();
    this.agent.open(this.context);
  }

  #followAgent() {
    const { agent } = this;
    agent.addEventListener('mark', (event) => this.socket?.send(detailOf(event)));
    agent.addEventListener('level', (event) =>
      this.dispatchEvent(new CustomEvent('agentlevel', { detail: detailOf(event) })),
    );
    agent.addEventListener('progress', (event) => {
      const { response, ...playback } = detailOf(event);
      this.conversation.progress(response, playback);
      this.#changed();
    });
    agent.addEventListener('broken', () => this.#note('error', 'audio.broken'));
  }

  #followUser() {
    const { user } = this;
    user.addEventListener('level', (event) => {
      const { rms, ms } = detailOf(event);
      this.dispatchEvent(new CustomEvent('userlevel', { detail: rms }));
      if (!this.now.muted && this.now.input === 'hands_free') this.agent.yieldTo(rms, ms);
    });
    user.addEventListener('audio', (event) => {
      this.socket?.sendAudio(detailOf(event));
      if (this.droppedMs > 0) this.#changed();
    });
    user.addEventListener('activity', (event) => this.socket?.send({ type: 'input.activity', event: detailOf(event) }));
    user.addEventListener('unheard', () => this.#note('info', 'mic.mutedHint'));
    user.addEventListener('broken', () => this.#note('error', 'audio.broken'));
    user.addEventListener('lost', () => {
      this.#note('warning', 'mic.lost');
      this.dispatchEvent(new Event('microphonelost'));
      this.openMicrophone();
    });
  }

  #connect() {
    const socket = new LiveSocket(this.url, () => ({
      ...this.hello,
      caps: this.agent.player === undefined ? [] : ['playback'],
      input: this.now.input,
      pending: this.conversation.outbox.pending,
    }));
    socket.session = this.session;
    socket.addEventListener('link', (event) => this.#linkChanged(detailOf(event)));
    socket.addEventListener('welcome', (event) => this.#welcome(detailOf(event)));
    socket.addEventListener('message', (event) => this.#receive(detailOf(event)));
    socket.addEventListener('audio', (event) => {
      const frame = detailOf(event);
      if (frame.kind === KIND.AUDIO_DOWN) this.agent.receive(frame);
    });
    this.socket = socket;
    this.statsTimer = setInterval(() => this.#sendStats(), STATS_MS);
    socket.connect();
  }

  /** @param {import('../net/live-socket.js').LinkChange} change */
  #linkChanged({ link, attempt, code = 0, error }) {
    this.#set({ link, attempt, loadingVoice: false });
    if (link !== 'stopped') return;
    this.#tearDown();
    if (code === 4504 || code === 4509) this.session = '';
    if (code !== 1000) this.#note('error', stopKey(code, error));
  }

  #tearDown() {
    clearInterval(this.statsTimer);
    this.socket = undefined;
    this.user.stop();
    this.agent.close();
    this.context?.suspend();
    this.conversation.connected({ resumed: false, acks: [] });
    this.#set({ microphone: 'off', talking: false, muted: false, agent: 'listening' });
  }

  /** @param {any} message */
  #welcome(message) {
    this.session = message.session;
    this.model = message.model ?? '';
    this.features = message.features ?? [];
    this.chunkMs = message.limits?.chunk_ms ?? DEFAULT_CHUNK_MS;
    if (!message.resumed) this.agent.begin();
    this.conversation.connected(message);
    if (this.now.muted) this.socket?.send({ type: 'input.mute', muted: true });
    if (this.now.talking) this.socket?.send({ type: 'input.activity', event: 'start' });
    this.#set({ agent: 'listening', loadingVoice: false });
    this.#sendTyped();
  }

  /** @param {any} message */
  #receive(message) {
    this.conversation.receive(message);
    if (message.type === 'state') this.now.agent = message.state;
    else if (message.type === 'interrupted') this.#interrupted(message.response);
    else if (message.type === 'response.audio.end') this.agent.complete(message);
    else if (message.type === 'metrics') this.#measured(message);
    else if (message.type === 'notice') this.#noticed(message);
    else if (message.type === 'goaway') this.#note('warning', 'notice.goaway');
    else if (message.type === 'error' && !message.fatal && message.ref === undefined) {
      this.#note('warning', 'error.other', { message: message.message });
    }
    this.#changed();
  }

  /** @param {number} response */
  #interrupted(response) {
    this.agent.flush(response);
    this.dispatchEvent(new Event('interrupted'));
  }

  /** @param {{eou_to_first_audio_ms?: number | null, silence_ms?: number | null}} metrics */
  #measured({ eou_to_first_audio_ms: ms, silence_ms: silence }) {
    if (typeof ms !== 'number') return;
    this.silenceMs = silence ?? 0;
    this.responses.add(ms + this.silenceMs);
  }

  /** @param {{level: string, code: string, params?: Record<string, string | number>}} notice */
  #noticed({ level, code, params }) {
    if (code === 'loading_voice') this.now.loadingVoice = this.now.link !== 'ready';
    const key = noticeKey(code);
    if (key !== undefined) this.#note(level === 'warning' ? 'warning' : 'info', key, params);
  }

  #sendTyped() {
    const messages = this.now.link === 'ready' ? this.conversation.outbox.takeQueued() : [];
    for (const { id, text } of messages) {
      this.socket?.send({ type: 'content', message_id: id, content: { role: 'user', parts: [{ text }] } });
    }
    this.#changed();
    if (!this.live) this.start(false);
  }

  #sendStats() {
    const { rttMs, lagMs, droppedMs } = this;
    const rtt = rttMs === undefined ? {} : { rtt_ms: rttMs };
    const audio = { underruns: this.agent.underruns };
    this.socket?.send({ type: 'client.stats', audio, lag_ms: lagMs, dropped_ms: droppedMs, ...rtt });
  }

  /** @param {Partial<Situation>} change */
  #set(change) {
    Object.assign(this.now, change);
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }

  /** @param {Note['level']} level @param {Key} key @param {Note['params']} [params] */
  #note(level, key, params) {
    this.dispatchEvent(new CustomEvent('note', { detail: { level, key, params } }));
  }
}
