import { h, icon } from './dom.js';
import { onLanguage, t } from './i18n.js';

const INFO_MS = 6000;
const MOST = 3;

/** @typedef {import('../pages/voice-call.js').Note} Note */

/** Lines that tell the user about something: errors stay until they are dismissed, good news goes by itself. */
export class Notes {
  /** @param {HTMLElement} box */
  constructor(box) {
    this.box = box;
    /** @type {{note: Note, element: HTMLElement}[]} */
    this.shown = [];
    onLanguage(() => {
      for (const { note, element } of this.shown) this.#fill(element, note);
    });
  }

  /** Shows a note; another one of the same kind takes its place. @param {Note} note */
  show(note) {
    this.remove(({ key }) => key === note.key);
    const element = h('div', {
      class: 'note',
      'data-level': note.level,
      'data-key': note.key,
      role: note.level === 'error' ? 'alert' : 'status',
    });
    this.#fill(element, note);
    this.box.append(element);
    this.shown.push({ note, element });
    if (this.shown.length > MOST) this.remove((oldest) => oldest === this.shown[0].note);
    if (note.level === 'info') setTimeout(() => this.remove((other) => other === note), INFO_MS);
  }

  /** @param {(note: Note) => boolean} matches */
  remove(matches) {
    const gone = this.shown.filter(({ note }) => matches(note));
    for (const { element } of gone) element.remove();
    this.shown = this.shown.filter((entry) => !gone.includes(entry));
  }

  /** @param {HTMLElement} element @param {Note} note */
  #fill(element, note) {
    const close = h('button', { type: 'button', 'aria-label': t('note.close') }, icon('end'));
    close.addEventListener('click', () => this.remove((other) => other === note));
    element.replaceChildren(h('p', {}, t(note.key, note.params)), close);
  }
}
