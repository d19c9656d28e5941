/**
 * @typedef {'waiting_confirm' | 'running' | 'progress' | 'done' | 'error' | 'denied' | 'cancelled' | 'expired'} CallStatus
 * @typedef {object} Call
 * @property {string} call
 * @property {number} order place in the conversation
 * @property {string} name
 * @property {unknown} args
 * @property {'read' | 'write'} effect
 * @property {CallStatus} status
 * @property {number} stage how far it has come; never goes back
 * @property {string} [digest] of the arguments
 * @property {string} [hint] words for whoever decides
 * @property {boolean} deciding a decision was sent, and nothing has come of it yet
 * @property {unknown} [result]
 * @property {string} [error]
 * @property {number} [ms]
 * @property {boolean} stored it stands in the session's record
 */

/** @type {Record<CallStatus, number>} */
const STAGE = { waiting_confirm: 1, running: 2, progress: 3, done: 4, error: 4, denied: 4, cancelled: 4, expired: 4 };

/**
 * A `tool.call` or `tool.update` message as a card. Both come twice: at once, and again when the record reached them; in
 * between, anything may come late. A later stage is never undone by an earlier one, and the first end counts.
 * @param {Call | undefined} old
 * @param {any} message
 * @param {number} order for a new one
 * @returns {Call}
 */
export function applyCall(old, message, order) {
  const called = message.needs_confirm ? 'waiting_confirm' : 'running';
  const stated = /** @type {CallStatus} */ (message.status ?? called);
  // a call that was only made may still turn out to be one that waits; once it was approved it waits no more
  const stage = message.status === undefined && called === 'running' ? 0 : (STAGE[stated] ?? 0);
  const on = old === undefined || stage > old.stage;
  return {
    call: message.call,
    order: old?.order ?? order,
    name: message.name ?? old?.name ?? '',
    args: message.args ?? old?.args,
    effect: message.effect ?? old?.effect ?? 'read',
    status: on ? stated : old.status,
    stage: on ? stage : old.stage,
    digest: message.digest ?? old?.digest,
    hint: message.hint ?? old?.hint,
    deciding: !on && Boolean(old?.deciding),
    result: message.result ?? old?.result,
    error: message.error ?? old?.error,
    ms: message.ms ?? old?.ms,
    stored: Boolean(old?.stored) || typeof message.seq === 'number',
  };
}

/** Whether anything is still to come of this call. @param {Call} call */
export const isOpen = (call) => call.stage < 4;

/** The arguments in one line, as a person would write a call. @param {unknown} args */
export function argumentLine(args) {
  if (args === null || typeof args !== 'object') return args === undefined ? '' : JSON.stringify(args);
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
