import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import en from '../../static/js/i18n/en.js';

const root = new URL('../../static/', import.meta.url);
const html = readFileSync(new URL('index.html', root), 'utf8');
const scripts = readdirSync(new URL('js/', root), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.js'),
);

test('the page preloads every module that it uses, and nothing else', () => {
  const preloaded = [...html.matchAll(/rel="modulepreload" href="static\/js\/([^"]+)"/g)].map((match) => match[1]);
  const used = /** @type {Set<string>} */ (new Set());
  const visit = (/** @type {string} */ name) => {
    const source = readFileSync(new URL(`js/${name}`, root), 'utf8');
    for (const [, path] of source.matchAll(/^import .*?from '(\.[^']+)'/gms)) {
      const target = new URL(path, new URL(name, 'file:///')).pathname.slice(1);
      if (!used.has(target)) {
        used.add(target);
        visit(target);
      }
    }
  };
  visit('pages/voice.js');
  assert.deepEqual([...preloaded].sort(), [...used].sort());
});

test('nothing in the page is inline or from elsewhere', () => {
  assert.doesNotMatch(html, /<style|style="|<script>|\son\w+=|https?:/);
  for (const name of scripts) {
    const source = readFileSync(new URL(`js/${name}`, root), 'utf8');
    assert.doesNotMatch(source, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
  }
});

test('every text that the page names exists', () => {
  const names = [...html.matchAll(/data-t(?:-label|-placeholder)?="([^"]+)"/g)].map((match) => match[1]);
  assert.ok(names.length > 40);
  for (const name of names) assert.ok(name in en, name);
});

test('every picture that is used is in the page', () => {
  const sources = scripts.map((name) => readFileSync(new URL(`js/${name}`, root), 'utf8')).join('\n');
  const used = [...html.matchAll(/href="#icon-([\w-]+)"/g), ...sources.matchAll(/icon\('([\w-]+)'\)/g)].map(
    (match) => match[1],
  );
  for (const name of used) assert.ok(html.includes(`id="icon-${name}"`), name);
});
