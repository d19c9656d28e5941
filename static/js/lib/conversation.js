import { applyCall, isOpen } from './calls.js';
import { applyTranscript, captionParts, spokenChars } from './captions.js';
import { Outbox } from './outbox.js';

/**
 * @typedef {import('./captions.js').Caption} Caption
 * @typedef {{heard: number, received: number}} Playback samples of a response
 * @typedef {{kind: 'caption', key: string, order: number, caption: Caption, parts: ReturnType<typeof captionParts>}
 *   | {kind: 'call', key: string, order: number, call: import('./calls.js').Call}
 *   | {kind: 'outgoing', key: string, order: number, message: import('./outbox.js').Outgoing}} Entry
 */

/** The turn of a caption of an earlier live session, where turns had other numbers. */
const PAST = -1;

/** What was said, typed and done, in the order in which it appeared. Built from the messages of the wire alone. */
export class Conversation {
  constructor() {
    /** @type {Map<string, Caption>} */
    this.captions = new Map();
    /** @type {Map<string, import('./calls.js').Call>} */
    this.calls = new Map();
    this.outbox = new Outbox();
    this.order = 0;
    /** Turn of each response. @type {Map<number, number>} */
    this.turns = new Map();
    /** How far the answer of a turn was spoken, until its response is over. @type {Map<number, Playback>} */
    this.playing = new Map();
  }

  get empty() {
    return this.captions.size + this.calls.size + this.outbox.messages.size === 0;
  }

  /** @param {string} id @param {string} text */
  type(id, text) {
    this.outbox.add(id, text, this.#nextOrder());
  }

  /** A decision about a call that waits is on its way. @param {string} id @returns {boolean} whether there is one to be made */
  decide(id) {
    const call = this.calls.get(id);
    if (call?.status !== 'waiting_confirm' || call.deciding) return false;
    this.calls.set(id, { ...call, deciding: true });
    return true;
  }

  /** @param {any} message of the server */
  receive(message) {
    switch (message.type) {
      case 'transcript':
        this.#transcript(message);
        break;
      case 'tool.call':
      case 'tool.update':
        this.calls.set(message.call, applyCall(this.calls.get(message.call), message, this.#nextOrder()));
        break;
      case 'ack':
        this.#acknowledged(message);
        break;
      case 'error':
        this.outbox.refuse(message);
        this.#undecided(message.ref);
        break;
      case 'response.start':
        this.turns.set(message.response, message.turn);
        break;
      case 'interrupted':
        this.#cut(message.response);
        break;
      case 'response.end':
        if (message.status !== 'completed') this.#cut(message.response);
        else this.playing.delete(this.turns.get(message.response) ?? PAST);
        break;
    }
  }

  /** Where the playback of a response is. @param {number} response @param {Playback} playback */
  progress(response, playback) {
    const turn = this.turns.get(response);
    if (turn !== undefined) this.playing.set(turn, playback);
  }

  /** A connection begins. @param {any} welcome */
  connected(welcome) {
    this.outbox.reconnected(welcome.acks ?? []);
    if (!welcome.resumed) this.#closePast();
  }

  /** @returns {Entry[]} */
  entries() {
    /** @type {Entry[]} */
    const captions = [...this.captions.values()].map((caption) => ({
      kind: 'caption',
      key: `caption ${caption.item}`,
      order: caption.order,
      caption,
      parts: captionParts(caption, this.#spoken(caption)),
    }));
    /** @type {Entry[]} */
    const calls = [...this.calls.values()].map((call) => ({
      kind: 'call',
      key: `call ${call.call}`,
      order: call.order,
      call,
    }));
    /** @type {Entry[]} */
    const outgoing = [...this.outbox.messages.values()].map((message) => ({
      kind: 'outgoing',
      key: `outgoing ${message.id}`,
      order: message.order,
      message,
    }));
    return [...captions, ...calls, ...outgoing].sort((a, b) => a.order - b.order);
  }

  #nextOrder() {
    this.order += 1;
    return this.order;
  }

  /** @param {any} message */
  #transcript(message) {
    const sent = [...this.outbox.messages.values()].find(({ seq }) => seq !== undefined && seq === message.seq);
    const order = sent?.order ?? this.#nextOrder();
    this.captions.set(message.item, applyTranscript(this.captions.get(message.item), message, order));
    if (message.source === 'typed' && message.seq !== undefined) this.outbox.recorded(message.seq);
  }

  /** The record of a typed message stands where it was typed, also if it came before the acknowledgement. @param {any} ack */
  #acknowledged(ack) {
    const order = this.outbox.messages.get(ack.message_id)?.order;
    this.outbox.acknowledge(ack);
    for (const [item, caption] of this.captions) {
      if (order === undefined || ack.seq === undefined || caption.seq !== ack.seq) continue;
      this.captions.set(item, { ...caption, order });
    }
  }

  /** Captions of the answer of one turn, in order. @param {number | undefined} turn */
  #answer(turn) {
    if (turn === undefined || turn === PAST) return [];
    return [...this.captions.values()].filter((caption) => caption.role === 'model' && caption.turn === turn);
  }

  /** How many characters of a caption were spoken; undefined when its answer does not play. @param {Caption} caption */
  #spoken(caption) {
    const playback = this.playing.get(caption.turn);
    if (playback === undefined || caption.role !== 'model' || caption.source !== 'voice') return undefined;
    const answer = this.#answer(caption.turn);
    const texts = answer.map(({ text }) => text);
    const before = texts.slice(0, answer.indexOf(caption)).join('').length;
    const spoken = spokenChars(texts.join(''), playback.heard, playback.received);
    return Math.min(caption.text.length, Math.max(0, spoken - before));
  }

  /** The answer of a response was stopped: its last caption, unless that had been heard to its end. @param {number} response */
  #cut(response) {
    const turn = this.turns.get(response);
    const last = this.#answer(turn).at(-1);
    if (last === undefined || last.cut) return;
    const spoken = this.#spoken(last);
    if (spoken === undefined || spoken < last.text.length) this.captions.set(last.item, { ...last, cut: true });
  }

  /** A decision was refused; the call may still wait. @param {string | undefined} id */
  #undecided(id) {
    const call = this.calls.get(id ?? '');
    if (call?.deciding) this.calls.set(call.call, { ...call, deciding: false });
  }

  /** The live session before this one is over, and whatever was open in it. */
  #closePast() {
    for (const response of this.turns.keys()) {
      if (this.playing.has(this.turns.get(response) ?? PAST)) this.#cut(response);
    }
    for (const [item, caption] of this.captions) {
      const heard = caption.cut ? (caption.heard ?? this.#spoken(caption)) : caption.heard;
      this.captions.set(item, { ...caption, final: true, heard, turn: PAST });
    }
    for (const [id, call] of this.calls)
      if (isOpen(call)) this.calls.set(id, applyCall(call, { call: id, status: 'cancelled' }, 0));
    this.turns.clear();
    this.playing.clear();
  }
}
