/**
 * @typedef {'queued' | 'sending' | 'delivered' | 'not_delivered' | 'not_stored' | 'unknown' | 'refused'} Delivery
 * @typedef {object} Outgoing
 * @property {string} id message id; the same for every try of the same message
 * @property {number} order place in the conversation
 * @property {string} text
 * @property {Delivery} delivery
 * @property {number} [seq] where the record has it
 */

/** @type {Record<string, Delivery>} */
const DELIVERY = {
  persisted: 'delivered',
  delivered: 'delivered',
  not_delivered: 'not_delivered',
  delivered_not_persisted: 'not_stored',
  unknown: 'unknown',
};

/** Typed messages from the keystroke until the conversation's own record shows them. */
export class Outbox {
  constructor() {
    /** @type {Map<string, Outgoing>} */
    this.messages = new Map();
    /** Places in the record that were already shown. @type {Set<number>} */
    this.shown = new Set();
  }

  /** @param {string} id @param {string} text @param {number} order */
  add(id, text, order) {
    this.messages.set(id, { id, order, text, delivery: 'queued' });
  }

  /** Messages that wait for a connection, oldest first. From now on they count as sent. */
  takeQueued() {
    const queued = [...this.messages.values()].filter((message) => message.delivery === 'queued');
    for (const message of queued) message.delivery = 'sending';
    return queued;
  }

  /** @param {any} ack an `ack` message, or one of `welcome`'s */
  acknowledge(ack) {
    const message = this.messages.get(ack.message_id);
    if (message === undefined) return;
    message.delivery = DELIVERY[ack.state] ?? 'unknown';
    message.seq = ack.seq ?? message.seq;
    if (message.seq !== undefined && this.shown.has(message.seq)) this.messages.delete(message.id);
  }

  /** The server did not take a message. @param {any} error an `error` message */
  refuse(error) {
    const message = this.messages.get(error.ref);
    if (message !== undefined) message.delivery = error.retryable ? 'not_delivered' : 'refused';
  }

  /** To try it again: safely under the same id if it was not delivered, as a new message if nobody knows. @param {string} id @param {string} freshId */
  again(id, freshId) {
    const message = this.messages.get(id);
    if (message === undefined) return;
    this.messages.delete(id);
    const next = message.delivery === 'not_delivered' ? id : freshId;
    this.messages.set(next, { ...message, id: next, delivery: 'queued' });
  }

  /** The record has shown what stands at this place. @param {number} seq */
  recorded(seq) {
    this.shown.add(seq);
    for (const message of this.messages.values()) if (message.seq === seq) this.messages.delete(message.id);
  }

  /** Ids whose fate is not known, for the next `hello`. */
  get pending() {
    return [...this.messages.values()].filter((m) => m.delivery === 'sending').map((m) => m.id);
  }

  /** A new connection told what it knows. What it does not mention, nobody knows about. @param {any[]} acks */
  reconnected(acks) {
    const open = new Set(this.pending);
    for (const ack of acks) {
      this.acknowledge(ack);
      open.delete(ack.message_id);
    }
    for (const id of open) this.acknowledge({ message_id: id, state: 'unknown' });
  }
}
