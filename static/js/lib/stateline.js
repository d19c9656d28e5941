/**
 * @typedef {import('../i18n/en.js').Key} Key
 * @typedef {'idle' | 'connecting' | 'ready' | 'reconnecting' | 'offline' | 'stopped'} Link
 * @typedef {'off' | 'asking' | 'on' | 'failed'} Microphone
 * @typedef {'listening' | 'user_speaking' | 'thinking' | 'tool' | 'speaking'} Agent
 * @typedef {object} Situation
 * @property {Link} link
 * @property {number} attempt of a reconnect, counted from 1
 * @property {boolean} loadingVoice
 * @property {Agent} agent what the server says
 * @property {Microphone} microphone
 * @property {boolean} muted
 * @property {'hands_free' | 'ptt'} input
 * @property {boolean} talking the push-to-talk button is held
 * @property {boolean} toggle it is pressed once to begin and once to end
 *
 * @typedef {'rest' | 'busy' | 'listen' | 'user' | 'agent' | 'trouble'} Tone
 */

/**
 * The one line that says what is going on. What stops everything comes first: a page that says "The agent is speaking"
 * while the connection is gone tells a lie.
 * @param {Situation} now
 * @returns {{key: Key, params?: Record<string, string | number>, tone: Tone}}
 */
export function stateLine(now) {
  return connectionLine(now) ?? agentLine(now) ?? microphoneLine(now) ?? { key: 'state.listening', tone: 'listen' };
}

/** @param {Situation} now @returns {ReturnType<typeof stateLine> | undefined} */
function connectionLine({ link, attempt, loadingVoice, microphone }) {
  if (link === 'offline') return { key: 'state.offline', tone: 'trouble' };
  if (link === 'reconnecting') return { key: 'state.reconnecting', params: { n: attempt }, tone: 'trouble' };
  if (microphone === 'asking' && link !== 'ready') return { key: 'state.asking', tone: 'busy' };
  if (link === 'idle' || link === 'stopped') return { key: 'state.idle', tone: 'rest' };
  if (loadingVoice) return { key: 'state.loading', tone: 'busy' };
  if (link === 'connecting') return { key: 'state.connecting', tone: 'busy' };
  return undefined;
}

/** @param {Situation} now @returns {ReturnType<typeof stateLine> | undefined} */
function agentLine({ agent, talking }) {
  if (talking || agent === 'user_speaking') return { key: 'state.user', tone: 'user' };
  if (agent === 'thinking') return { key: 'state.thinking', tone: 'busy' };
  if (agent === 'tool') return { key: 'state.tool', tone: 'busy' };
  if (agent === 'speaking') return { key: 'state.speaking', tone: 'agent' };
  return undefined;
}

/** @param {Situation} now @returns {ReturnType<typeof stateLine> | undefined} */
function microphoneLine({ microphone, muted, input, toggle }) {
  if (microphone === 'asking') return { key: 'state.asking', tone: 'busy' };
  if (microphone !== 'on') return { key: 'state.typing', tone: 'rest' };
  if (muted) return { key: 'state.muted', tone: 'rest' };
  if (input === 'ptt') return { key: toggle ? 'state.tap' : 'state.hold', tone: 'rest' };
  return undefined;
}
