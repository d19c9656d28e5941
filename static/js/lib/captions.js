/**
 * @typedef {object} Caption
 * @property {string} item
 * @property {number} order place in the conversation
 * @property {number} turn
 * @property {'user' | 'model'} role
 * @property {string} author
 * @property {string} text the whole text so far
 * @property {boolean} final
 * @property {boolean} cut the answer was interrupted
 * @property {number} [heard] how many characters of an interrupted answer were heard; unknown until the server says so
 * @property {number} [startMs]
 * @property {string} [lang]
 * @property {'voice' | 'typed' | 'text'} source
 * @property {number} [seq]
 */

/**
 * A `transcript` message as a caption. Every one carries the whole text, so one that comes twice does no harm; a partial
 * that comes after the complete one is late and changes nothing. `revision` 2 only says what was heard.
 * @param {Caption | undefined} old
 * @param {any} message
 * @param {number} order for a new one
 * @returns {Caption}
 */
export function applyTranscript(old, message, order) {
  const late = typeof message.heard_chars === 'number';
  const complete = Boolean(message.final) || late;
  if (old?.final && !complete) return old;
  return {
    item: message.item,
    order: old?.order ?? order,
    turn: message.turn ?? old?.turn ?? 0,
    role: message.role ?? old?.role ?? 'model',
    author: message.author ?? old?.author ?? '',
    text: message.text || old?.text || '',
    final: complete || Boolean(old?.final),
    cut: Boolean(old?.cut) || late,
    heard: message.heard_chars ?? old?.heard,
    startMs: message.start_ms ?? old?.startMs,
    lang: message.lang ?? old?.lang,
    source: message.source ?? old?.source ?? 'voice',
    seq: old?.seq ?? message.seq,
  };
}

/**
 * How much of an answer has been spoken, cut at the end of a word (or at any character of a
 * script without spaces). The voice is steady enough for a proportion to stay
 * within a word or two of the truth.
 * @param {string} text @param {number} heard samples @param {number} total samples
 */
export function spokenChars(text, heard, total) {
  if (total <= 0 || heard >= total) return text.length;
  const target = Math.floor((text.length * Math.max(0, heard)) / total);
  if (target === 0) return 0;
  const gap = text.slice(target).search(/[\s\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]|$/u);
  return target + gap;
}

/**
 * A caption's text in three parts: heard, still to come (the answer plays), never to be heard (it was interrupted).
 * @param {Caption} caption
 * @param {number | undefined} spoken characters spoken so far by our own reckoning, while the answer plays
 */
export function captionParts(caption, spoken) {
  const { text, cut } = caption;
  const known = cut ? (caption.heard ?? spoken) : spoken;
  if (known === undefined) return { heard: text, coming: '', unheard: '' };
  const rest = text.slice(known);
  return { heard: text.slice(0, known), coming: cut ? '' : rest, unheard: cut ? rest : '' };
}
