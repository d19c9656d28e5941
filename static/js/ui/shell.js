import { byId, setText } from './dom.js';
import { currentLanguage, onLanguage, preferredLanguage, setLanguage, t } from './i18n.js';

/** The header of a page: language and theme, remembered for the next visit. @param {import('./i18n.js').Key} title */
export function mountShell(title) {
  const language = byId('language', HTMLSelectElement);
  language.addEventListener('change', () => setLanguage(language.value === 'zh' ? 'zh' : 'en'));
  const theme = byId('theme', HTMLSelectElement);
  theme.addEventListener('change', () => {
    localStorage.setItem('theme', theme.value);
    document.documentElement.dataset.theme = theme.value;
  });
  onLanguage(() => {
    document.title = `${t(title)} – ${t('app.name')}`;
  });
  setLanguage(preferredLanguage());
  language.value = currentLanguage();
  theme.value = document.documentElement.dataset.theme ?? 'system';
}

/** Shows how the connection stands. @param {import('../lib/stateline.js').Link} link */
export function showLink(link) {
  const element = byId('link', HTMLElement);
  element.dataset.link = link;
  setText(element, t(`link.${link}`));
}
