/**
 * How long to wait before a connection is tried again: twice as long each time, and spread, so that a server that comes
 * back is not met by all its clients at once.
 * @param {number} attempt counted from 0
 * @param {{baseMs?: number, maxMs?: number, random?: () => number}} [options]
 */
export function backoffMs(attempt, { baseMs = 400, maxMs = 15_000, random = Math.random } = {}) {
  const ceiling = Math.min(maxMs, baseMs * 2 ** attempt);
  return Math.round(ceiling * (0.5 + 0.5 * random()));
}

/** Codes of the socket layer itself after which the same attempt would end the same way. */
const FINAL = new Set([1000, 1002, 1003, 1007, 1008, 1009]);

/** Whether a close code asks the client to come back: the number's range says so. @param {number} code */
export function mayReconnect(code) {
  return !FINAL.has(code) && !(code >= 4500 && code <= 4999);
}
