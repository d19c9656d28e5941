/**
 * An element. Text only ever becomes a text node, so nothing that a model, a tool or a user wrote can act as markup.
 * @param {string} tag
 * @param {Record<string, string | boolean | undefined>} [attributes] undefined and false leave one out
 * @param {...(Node | string | undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children) if (child !== undefined) element.append(child);
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

/** A picture of the page's own set; it says nothing to a screen reader. @param {string} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * The element of this id, which the page is known to have.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new TypeError(`the page has no ${type.name} #${id}`);
  return element;
}

/** Changes a text only if it is another one, so that a live region does not speak again. @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keeps a scrolling box at its end, unless the reader has scrolled up.
 * @param {HTMLElement} box
 * @returns {() => void} to call after its content has changed
 */
export function followEnd(box) {
  let following = true;
  box.addEventListener('scroll', () => {
    following = box.scrollHeight - box.scrollTop - box.clientHeight < 48;
  });
  const follow = () => {
    if (following) box.scrollTop = box.scrollHeight;
  };
  new ResizeObserver(follow).observe(box);
  return follow;
}
