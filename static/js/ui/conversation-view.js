import { argumentLine } from '../lib/calls.js';
import { followEnd, h, icon, setText } from './dom.js';
import { t } from './i18n.js';

/**
 * @typedef {import('../lib/conversation.js').Entry} Entry
 * @typedef {Extract<Entry, {kind: 'caption'}>} CaptionEntry
 * @typedef {import('../lib/calls.js').Call} Call
 * @typedef {import('../lib/outbox.js').Outgoing} Outgoing
 */

/** The conversation as a list; only rows that changed are touched, so an opened tool call stays open and keeps its focus. */
export class ConversationView {
  /**
   * @param {HTMLElement} list
   * @param {(id: string) => void} onAgain a message that did not arrive is to be sent again
   * @param {(id: string, approve: boolean) => void} onDecide a call that waits is approved or denied
   */
  constructor(list, onAgain, onDecide) {
    this.list = list;
    this.onAgain = onAgain;
    this.onDecide = onDecide;
    this.follow = followEnd(list);
    /** @type {Map<string, {row: HTMLElement, shown: string}>} */
    this.rows = new Map();
  }

  /** @param {Entry[]} entries in order @param {string} language another one repaints everything */
  show(entries, language) {
    const keys = new Set(entries.map(({ key }) => key));
    for (const [key, { row }] of this.rows) {
      if (keys.has(key)) continue;
      row.remove();
      this.rows.delete(key);
    }
    let changed = false;
    for (const [index, entry] of entries.entries()) changed = this.#place(entry, index, language) || changed;
    if (changed) this.follow();
  }

  /** @param {Entry} entry @param {number} index @param {string} language */
  #place(entry, index, language) {
    const known = this.rows.get(entry.key) ?? { row: h('li'), shown: '' };
    this.rows.set(entry.key, known);
    if (this.list.children[index] !== known.row) this.list.insertBefore(known.row, this.list.children[index] ?? null);
    const wanted = `${language} ${JSON.stringify(entry)}`;
    if (known.shown === wanted) return false;
    known.shown = wanted;
    if (entry.kind === 'caption') fillCaption(known.row, entry);
    else if (entry.kind === 'call') fillCall(known.row, entry.call, this.onDecide);
    else fillOutgoing(known.row, entry.message, this.onAgain);
    return true;
  }
}

/** @param {HTMLElement} row @param {CaptionEntry} entry */
function fillCaption(row, { caption, parts }) {
  row.className = `said ${caption.role}${caption.final ? '' : ' partial'}`;
  const who = h('div', { class: 'who' }, h('b', {}, caption.role === 'user' ? t('chat.you') : t('chat.agent')));
  if (caption.source === 'typed') who.append(h('span', {}, t('chat.typed')));
  if (caption.cut) who.append(h('span', { class: 'tag' }, t('chat.interrupted')));
  const text = h('p', { dir: 'auto', lang: caption.lang }, parts.heard);
  if (parts.coming !== '') text.append(h('span', { class: 'coming' }, parts.coming));
  if (parts.unheard !== '')
    text.append(h('span', { class: 'unseen' }, ` ${t('chat.unheard')} `), h('s', {}, parts.unheard));
  row.replaceChildren(who, text);
}

/** @param {HTMLElement} row @param {Call} call @param {(id: string, approve: boolean) => void} onDecide */
function fillCall(row, call, onDecide) {
  if (row.className !== 'call') buildCall(row);
  row.dataset.status = call.status;
  const took = call.ms === undefined ? '' : ` · ${t('timing.ms', { n: Math.round(call.ms) })}`;
  const part = (/** @type {string} */ name) => /** @type {Element} */ (row.querySelector(`.${name}`));
  setText(part('name'), call.name);
  setText(part('line'), argumentLine(call.args));
  setText(part('effect'), call.effect === 'write' ? t('call.write') : '');
  setText(part('status'), `${t(`call.${call.status}`)}${took}`);
  part('facts').replaceChildren(
    ...fact(t('call.args'), call.args),
    ...fact(t('call.result'), call.result),
    ...fact(t('call.problem'), call.error),
  );
  fillConsent(row, call, onDecide);
}

/**
 * The question and its buttons, below the card; they stay the same elements while it is open, so that focus stays where it is.
 * @param {HTMLElement} row @param {Call} call @param {(id: string, approve: boolean) => void} onDecide
 */
function fillConsent(row, call, onDecide) {
  const known = row.querySelector('.consent');
  if (call.status !== 'waiting_confirm') {
    if (known?.contains(document.activeElement)) row.querySelector('summary')?.focus();
    known?.remove();
    return;
  }
  const consent = known ?? buildConsent(call.call, onDecide);
  if (known === null) row.append(consent);
  const [question, args, approve, deny] = consent.querySelectorAll('p, button');
  setText(question, call.hint || t('call.question', { name: call.name }));
  setText(args, argumentLine(call.args)); // whole: the line of the card above may be cut off
  setText(approve, t('call.approve'));
  setText(deny, t('call.deny'));
  // not `disabled`, which would take the focus away
  for (const button of [approve, deny]) button.setAttribute('aria-disabled', String(call.deciding));
}

/** @param {string} id @param {(id: string, approve: boolean) => void} onDecide */
function buildConsent(id, onDecide) {
  const approve = h('button', { type: 'button', class: 'small' });
  const deny = h('button', { type: 'button', class: 'small' });
  approve.addEventListener('click', () => onDecide(id, true));
  deny.addEventListener('click', () => onDecide(id, false));
  return h(
    'div',
    { class: 'consent' },
    h('p', { class: 'question', dir: 'auto' }),
    h('p', { class: 'args', dir: 'auto' }),
    h('div', { class: 'row' }, approve, deny),
  );
}

/** @param {HTMLElement} row */
function buildCall(row) {
  row.className = 'call';
  const chevron = icon('chevron');
  chevron.classList.add('open');
  const summary = h(
    'summary',
    {},
    icon('tool'),
    h('code', { class: 'name' }),
    h('span', { class: 'line' }),
    h('span', { class: 'unseen effect' }),
    h('span', { class: 'status' }),
    chevron,
  );
  row.append(h('details', {}, summary, h('dl', { class: 'facts' })));
}

/** @param {string} name @param {unknown} value */
function fact(name, value) {
  if (value === undefined || value === null) return [];
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return [h('div', {}, h('dt', {}, name), h('dd', {}, h('pre', {}, text)))];
}

/** @param {HTMLElement} row @param {Outgoing} message @param {(id: string) => void} onAgain */
function fillOutgoing(row, { id, text, delivery }, onAgain) {
  row.className = 'said user';
  const who = h('div', { class: 'who' }, h('b', {}, t('chat.you')), h('span', {}, t(`chat.${delivery}`)));
  if (delivery === 'not_delivered' || delivery === 'unknown') {
    const again = h('button', { type: 'button', class: 'small' }, t('chat.again'));
    again.addEventListener('click', () => onAgain(id));
    who.append(again);
  }
  row.replaceChildren(who, h('p', { dir: 'auto' }, text));
}
