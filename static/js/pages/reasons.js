/** @typedef {import('../i18n/en.js').Key} Key */

/** Notices of the wire that a person can do something with, or would wonder about. @type {Record<string, Key>} */
const NOTICES = {
  audio_gap: 'notice.audio_gap',
  upstream_reconnecting: 'notice.upstream_reconnecting',
  upstream_resumed: 'notice.upstream_resumed',
  storage_slow: 'notice.storage_slow',
  rate_limited: 'notice.rate_limited',
  auth_expiring: 'notice.auth_expiring',
  duration_limit_near: 'notice.duration_limit_near',
  model_stalled: 'notice.model_stalled',
  agent_changed: 'notice.agent_changed',
  run_on_session: 'notice.run_on_session',
  recording_gap: 'notice.recording_gap',
  recording_stopped: 'notice.recording_stopped',
  voice_missing: 'notice.voice_missing',
};

/** Close codes after which the page does not come back by itself. @type {Record<number, Key>} */
const STOPS = {
  4501: 'stop.unauthorized',
  4504: 'stop.not_found',
  4505: 'stop.limit',
  4506: 'stop.taken_over',
  4507: 'stop.resume_expired',
  4508: 'stop.idle',
  4509: 'stop.context',
  4510: 'stop.policy',
  4511: 'stop.duration',
  4512: 'stop.version',
};

/** What to tell about a notice; undefined for one that needs no words. @param {string} code */
export const noticeKey = (code) => NOTICES[code];

/** Why the conversation was ended. @param {number} code of the close @param {{code: string} | undefined} error sent before it */
export function stopKey(code, error) {
  return error?.code === 'model_unavailable' ? 'stop.model' : (STOPS[code] ?? 'stop.other');
}
