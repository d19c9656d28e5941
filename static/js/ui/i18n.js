import en from '../i18n/en.js';
import zh from '../i18n/zh.js';

/**
 * @typedef {import('../i18n/en.js').Key} Key
 * @typedef {'en' | 'zh'} Language
 */

const TEXTS = { en, zh };
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Language} */
let language = 'en';

/** @param {Key} key @param {Record<string, string | number>} [params] */
export function t(key, params = {}) {
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => String(params[name] ?? ''));
}

export const currentLanguage = () => language;

/** Called after each change of the language. @param {() => void} listener */
export function onLanguage(listener) {
  listeners.add(listener);
}

/** What the reader chose before, else what the browser asks for. @returns {Language} */
export function preferredLanguage() {
  return (localStorage.getItem('language') ?? navigator.language).startsWith('zh') ? 'zh' : 'en';
}

/** @param {Language} value */
export function setLanguage(value) {
  language = value;
  document.documentElement.lang = value === 'zh' ? 'zh-Hans' : 'en';
  localStorage.setItem('language', value);
  translate(document);
  for (const listener of listeners) listener();
}

/**
 * Fills in the texts that the markup names: `data-t` the content, `data-t-label` the accessible name,
 * `data-t-placeholder` the placeholder.
 * @param {ParentNode} root
 */
export function translate(root) {
  for (const element of root.querySelectorAll('[data-t]')) element.textContent = textOf(element, 'data-t');
  for (const name of ['label', 'placeholder']) {
    const attribute = name === 'label' ? 'aria-label' : name;
    for (const element of root.querySelectorAll(`[data-t-${name}]`)) {
      element.setAttribute(attribute, textOf(element, `data-t-${name}`));
    }
  }
}

/** @param {Element} element @param {string} attribute */
const textOf = (element, attribute) => t(/** @type {Key} */ (element.getAttribute(attribute)));
