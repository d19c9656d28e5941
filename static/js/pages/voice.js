import { stateLine } from '../lib/stateline.js';
import { ConversationView } from '../ui/conversation-view.js';
import { byId, icon, setText } from '../ui/dom.js';
import { currentLanguage, onLanguage, t } from '../ui/i18n.js';
import { Meter } from '../ui/meter.js';
import { Notes } from '../ui/notes.js';
import { microphoneOptions, mountSettings, refreshDevices } from '../ui/settings.js';
import { mountShell, showLink } from '../ui/shell.js';
import { VoiceCall } from './voice-call.js';

/** Speech that was not sent is worth a word when it is this much more than at the last word. */
const DROPPED_STEP_MS = 1000;

/** Beside the page itself, whatever path it is served under. */
function liveUrl() {
  const url = new URL('live', new URL('.', location.href));
  url.protocol = url.protocol.replace('http', 'ws');
  return url;
}

/** `?app=`, `?user=` and `?session=` of the page's address choose what to talk to. */
function helloFromAddress() {
  const query = new URLSearchParams(location.search);
  const entries = ['app', 'user', 'session'].flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : []));
  return { ...Object.fromEntries(entries), lang: navigator.language };
}

/** How to reach this page so that the browser trusts it. */
function tunnel() {
  const port = location.port || '80';
  const local = location.port || '8080';
  return { command: `ssh -L ${local}:localhost:${port} ${location.hostname}`, local: `http://localhost:${local}` };
}

const call = new VoiceCall({ url: liveUrl(), hello: helloFromAddress(), microphone: microphoneOptions });
const notes = new Notes(byId('notes', HTMLElement));
const view = new ConversationView(
  byId('log', HTMLElement),
  (id) => call.typeAgain(id),
  (id, approve) => call.decide(id, approve),
);
const userMeter = new Meter(byId('level-user', HTMLCanvasElement));
const agentMeter = new Meter(byId('level-agent', HTMLCanvasElement));
const start = byId('start', HTMLButtonElement);
const microphone = byId('microphone', HTMLButtonElement);
const push = byId('push', HTMLButtonElement);
const cancel = byId('cancel', HTMLButtonElement);
const fresh = byId('new', HTMLButtonElement);
const message = byId('message', HTMLInputElement);

/** A button's picture and words. @param {HTMLButtonElement} button @param {string} picture @param {import('../ui/i18n.js').Key} key */
function label(button, picture, key) {
  const wanted = `${currentLanguage()} ${picture} ${key}`;
  if (button.dataset.shown === wanted) return;
  button.dataset.shown = wanted;
  button.replaceChildren(icon(picture), t(key));
}

function paintButtons() {
  const { live, now } = call;
  const on = now.microphone === 'on';
  label(start, live ? 'end' : 'mic', live ? 'talk.end' : 'talk.start');
  start.className = live ? 'end' : 'primary';
  microphone.hidden = !live;
  microphone.disabled = now.microphone === 'asking';
  if (on) microphone.setAttribute('aria-pressed', String(now.muted));
  else microphone.removeAttribute('aria-pressed');
  if (on) label(microphone, now.muted ? 'mic-off' : 'mic', now.muted ? 'talk.muted' : 'talk.mute');
  else label(microphone, 'mic', 'talk.micOn');
  push.hidden = !(live && on && now.input === 'ptt');
  push.setAttribute('aria-pressed', String(now.talking));
  if (now.toggle) label(push, 'hold', now.talking ? 'talk.tapping' : 'talk.tap');
  else label(push, 'hold', now.talking ? 'talk.holding' : 'talk.hold');
  cancel.hidden = !live;
  label(cancel, 'stop', 'talk.stop');
  byId('toggle-field', HTMLElement).hidden = now.input !== 'ptt';
  fresh.hidden = live || call.conversation.empty;
  label(fresh, 'new', 'talk.new');
}

/** @param {number | undefined} value */
const ms = (value) => (value === undefined ? t('timing.none') : t('timing.ms', { n: Math.round(value) }));

function paintFigures() {
  const figures = {
    'timing-last': ms(call.responses.last),
    'timing-silence': ms(call.silenceMs),
    'timing-median': ms(call.responses.median),
    'timing-rtt': ms(call.rttMs),
    'timing-lag': ms(call.lagMs),
    'timing-buffer': ms(call.live ? call.agent.queuedMs : undefined),
    'timing-underruns': String(call.agent.underruns),
    'timing-dropped': ms(call.droppedMs),
    'session-id': call.session || t('timing.none'),
    'session-model': call.model || t('timing.none'),
  };
  for (const [id, text] of Object.entries(figures)) setText(byId(id, HTMLElement), text);
}

function paint() {
  const line = stateLine(call.now);
  const state = byId('state', HTMLElement);
  state.dataset.tone = line.tone;
  setText(state, t(line.key, line.params));
  showLink(call.now.link);
  paintButtons();
  paintFigures();
  byId('empty', HTMLElement).hidden = !call.conversation.empty;
  view.show(call.conversation.entries(), currentLanguage());
}

let painting = false;
function paintSoon() {
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => {
    painting = false;
    paint();
  });
}

/** What to say when the connection changes: an old message must not contradict the new state. */
function followLink() {
  let before = call.now.link;
  let microphoneBefore = call.now.microphone;
  call.addEventListener('change', () => {
    const { link, microphone: microphoneNow } = call.now;
    if (link !== before) {
      notes.remove(({ key }) => key.startsWith('stop.') || key === 'link.restored' || key === 'notice.goaway');
      if (link === 'ready' && before === 'reconnecting') notes.show({ level: 'info', key: 'link.restored' });
      if (!call.live) for (const meter of [userMeter, agentMeter]) meter.clear();
    }
    if (microphoneNow === 'on' && microphoneBefore !== 'on') {
      notes.remove(({ key }) => key.startsWith('mic.') && key !== 'mic.lost');
      refreshDevices();
    }
    if (microphoneNow !== 'on') userMeter.clear();
    before = link;
    microphoneBefore = microphoneNow;
  });
}

function followSlowNetwork() {
  let told = 0;
  call.addEventListener('change', () => {
    if (call.droppedMs < told) told = 0;
    if (call.droppedMs - told < DROPPED_STEP_MS) return;
    told = call.droppedMs;
    notes.show({ level: 'warning', key: 'uplink.slow', params: { n: Math.round(told) } });
  });
}

/** Push to talk by pointer and by Space or Enter, held or pressed twice. */
function mountPush() {
  const hold = (/** @type {boolean} */ talking) => call.now.toggle || call.talk(talking);
  push.addEventListener('pointerdown', (event) => {
    push.setPointerCapture(event.pointerId);
    hold(true);
  });
  for (const name of ['pointerup', 'pointercancel', 'lostpointercapture', 'blur']) {
    push.addEventListener(name, () => hold(false));
  }
  push.addEventListener('keydown', (event) => {
    if (event.key !== ' ' && event.key !== 'Enter') return;
    if (!call.now.toggle) event.preventDefault();
    if (!event.repeat) hold(true);
  });
  push.addEventListener('keyup', (event) => {
    if (event.key === ' ' || event.key === 'Enter') hold(false);
  });
  push.addEventListener('click', () => {
    if (call.now.toggle) call.talk(!call.now.talking);
  });
  push.addEventListener('contextmenu', (event) => event.preventDefault());
}

function mountControls() {
  start.addEventListener('click', (event) => {
    if (event.detail > 1) return;
    if (call.live) call.end();
    else call.start(true);
  });
  microphone.addEventListener('click', () => {
    if (call.now.microphone === 'on') call.setMuted(!call.now.muted);
    else call.openMicrophone();
  });
  cancel.addEventListener('click', () => call.cancel('button'));
  fresh.addEventListener('click', () => {
    call.forget();
    start.focus();
  });
  byId('composer', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    const text = message.value.trim();
    message.value = '';
    if (text !== '') call.type(text);
  });
}

/** The screen stays on while somebody talks. */
function keepAwake() {
  /** @type {Promise<WakeLockSentinel | undefined> | undefined} */
  let lock;
  call.addEventListener('change', () => {
    if (call.live && !document.hidden) lock ??= navigator.wakeLock?.request('screen').catch(() => undefined);
    if (call.live) return;
    lock?.then((held) => held?.release());
    lock = undefined;
  });
}

call.addEventListener('change', paintSoon);
call.addEventListener('note', (event) => {
  const note = /** @type {CustomEvent<import('./voice-call.js').Note>} */ (event).detail;
  notes.show(note.key === 'mic.insecure' ? { ...note, params: tunnel() } : note);
});
call.addEventListener('userlevel', (event) => userMeter.push(/** @type {CustomEvent} */ (event).detail));
call.addEventListener('agentlevel', (event) => {
  const { detail } = /** @type {CustomEvent} */ (event);
  if (call.agent.playing) agentMeter.push(detail);
  else agentMeter.clear();
});
call.addEventListener('interrupted', () => {
  const announcer = byId('announcer', HTMLElement);
  announcer.textContent = '';
  setTimeout(() => setText(announcer, t('chat.interrupted')), 50);
});
mountControls();
mountPush();
mountSettings(call);
followLink();
followSlowNetwork();
keepAwake();
onLanguage(paintSoon);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
  [userMeter, agentMeter].map((m) => m.redraw()),
);
byId('theme', HTMLSelectElement).addEventListener('change', () => [userMeter, agentMeter].map((m) => m.redraw()));
mountShell('app.page');
userMeter.redraw();
agentMeter.redraw();
paint();
if (!isSecureContext) notes.show({ level: 'warning', key: 'mic.insecure', params: tunnel() });
