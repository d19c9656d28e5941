/**
 * @typedef {'waiting_confirm' | 'running' | 'progress' | 'done' | 'error' | 'denied' | 'cancelled' | 'expired'} CallStatus
 * @typedef {object} Call
 * @property {string} call
 * @property {number} order place in the conversation
 * @property {string} name
 * @property {unknown} args
 * @property {'read' | 'write'} effect
 * @property {CallStatus} status
 * @property {unknown} [result]
 * @property {string} [error]
 * @property {number} [ms]
 * @property {boolean} stored it stands in the session's record
 */

/** @type {Record<CallStatus, number>} */
const RANK = { waiting_confirm: 0, running: 1, progress: 2, done: 3, error: 3, denied: 3, cancelled: 3, expired: 3 };

/**
 * A `tool.call` or `tool.update` message as a card. Both come twice: at once, and again when the record reached them; in
 * between, anything may come late. A later stage is never undone by an earlier one, and the first end counts.
 * @param {Call | undefined} old
 * @param {any} message
 * @param {number} order for a new one
 * @returns {Call}
 */
export function applyCall(old, message, order) {
  const stated = /** @type {CallStatus} */ (message.status ?? (message.needs_confirm ? 'waiting_confirm' : 'running'));
  const status = old !== undefined && (RANK[stated] ?? 0) <= RANK[old.status] ? old.status : stated;
  return {
    call: message.call,
    order: old?.order ?? order,
    name: message.name ?? old?.name ?? '',
    args: message.args ?? old?.args,
    effect: message.effect ?? old?.effect ?? 'read',
    status,
    result: message.result ?? old?.result,
    error: message.error ?? old?.error,
    ms: message.ms ?? old?.ms,
    stored: Boolean(old?.stored) || typeof message.seq === 'number',
  };
}

/** Whether anything is still to come of this call. @param {Call} call */
export const isOpen = (call) => RANK[call.status] < 3;

/** The arguments in one line, as a person would write a call. @param {unknown} args */
export function argumentLine(args) {
  if (args === null || typeof args !== 'object') return args === undefined ? '' : JSON.stringify(args);
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
