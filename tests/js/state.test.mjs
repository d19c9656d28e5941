import assert from 'node:assert/strict';
import test from 'node:test';
import en from '../../static/js/i18n/en.js';
import zh from '../../static/js/i18n/zh.js';
import { backoffMs, mayReconnect } from '../../static/js/lib/backoff.js';
import { applyCall } from '../../static/js/lib/calls.js';
import { spokenChars } from '../../static/js/lib/captions.js';
import { Conversation } from '../../static/js/lib/conversation.js';
import { Downlink } from '../../static/js/lib/downlink.js';
import { Ducking } from '../../static/js/lib/ducking.js';
import { Outbox } from '../../static/js/lib/outbox.js';
import { PushToTalk } from '../../static/js/lib/push-to-talk.js';
import { stateLine } from '../../static/js/lib/stateline.js';
import { deflection, Window } from '../../static/js/lib/stats.js';
import { Uplink } from '../../static/js/lib/uplink.js';

/** @type {import('../../static/js/lib/stateline.js').Situation} */
const TALKING = {
  link: 'ready',
  attempt: 1,
  loadingVoice: false,
  agent: 'listening',
  microphone: 'on',
  muted: false,
  input: 'hands_free',
  talking: false,
  toggle: false,
};

test('the state line says one thing, the most important one', () => {
  /** @type {[Partial<typeof TALKING>, string][]} */
  const cases = [
    [{}, 'state.listening'],
    [{ agent: 'speaking' }, 'state.speaking'],
    [{ agent: 'tool' }, 'state.tool'],
    [{ agent: 'thinking' }, 'state.thinking'],
    [{ agent: 'user_speaking' }, 'state.user'],
    [{ muted: true }, 'state.muted'],
    [{ muted: true, agent: 'speaking' }, 'state.speaking'],
    [{ input: 'ptt' }, 'state.hold'],
    [{ input: 'ptt', toggle: true }, 'state.tap'],
    [{ input: 'ptt', talking: true }, 'state.user'],
    [{ microphone: 'failed' }, 'state.typing'],
    [{ microphone: 'asking' }, 'state.asking'],
    [{ microphone: 'asking', agent: 'speaking' }, 'state.speaking'],
    [{ link: 'connecting' }, 'state.connecting'],
    [{ link: 'connecting', loadingVoice: true }, 'state.loading'],
    [{ link: 'connecting', microphone: 'asking' }, 'state.asking'],
    [{ link: 'idle', microphone: 'off' }, 'state.idle'],
    [{ link: 'stopped', microphone: 'off', agent: 'speaking' }, 'state.idle'],
  ];
  for (const [change, key] of cases)
    assert.equal(stateLine({ ...TALKING, ...change }).key, key, JSON.stringify(change));
});

test('no state of the agent is shown while the connection is gone', () => {
  for (const agent of /** @type {const} */ (['listening', 'user_speaking', 'thinking', 'tool', 'speaking'])) {
    for (const muted of [false, true]) {
      for (const talking of [false, true]) {
        const now = { ...TALKING, agent, muted, talking };
        assert.deepEqual(stateLine({ ...now, link: 'reconnecting', attempt: 3 }).params, { n: 3 });
        assert.equal(stateLine({ ...now, link: 'offline' }).key, 'state.offline');
      }
    }
  }
});

test('both languages have the same texts with the same gaps', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
  const gaps = (/** @type {string} */ text) => (text.match(/\{\w+\}/g) ?? []).sort();
  for (const [key, text] of Object.entries(en)) {
    assert.deepEqual(gaps(zh[/** @type {keyof typeof en} */ (key)]), gaps(text), key);
  }
});

test('waiting grows, is bounded and spread', () => {
  assert.equal(backoffMs(0, { random: () => 1 }), 400);
  assert.equal(backoffMs(3, { random: () => 0 }), 1600);
  assert.equal(backoffMs(50, { random: () => 1 }), 15_000);
});

test('the range of a close code says whether to come back', () => {
  for (const code of [1001, 1006, 1011, 1012, 1013, 4000, 4005, 4499])
    assert.equal(mayReconnect(code), true, String(code));
  for (const code of [1000, 1002, 1003, 1008, 1009, 4500, 4506, 4999])
    assert.equal(mayReconnect(code), false, String(code));
});

test('the last values and their median', () => {
  const window = new Window(3);
  assert.equal(window.median, undefined);
  for (const value of [9, 1, 5, 3]) window.add(value);
  assert.deepEqual([window.last, window.median], [3, 3]);
  assert.deepEqual([deflection(0), deflection(1), deflection(2)], [0, 1, 1]);
});

/** @param {number} pos @param {number} [stream] */
const chunk = (pos, stream = 1) => ({ stream, pos, samples: 640, t: 0, rms: 0, pcm: new ArrayBuffer(1280) });

test('the first frame of a stream says so, and a frame after a gap says that', () => {
  const uplink = new Uplink();
  uplink.connected();
  assert.deepEqual(uplink.depart(chunk(0)), { begins: true, missing: false });
  assert.deepEqual(uplink.depart(chunk(640)), { begins: false, missing: false });
  assert.deepEqual(uplink.depart(chunk(6400)), { begins: false, missing: true });
  assert.deepEqual(uplink.depart(chunk(0, 2)), { begins: true, missing: false });
});

test('speech left out on purpose is not counted as speech on its way', () => {
  const uplink = new Uplink();
  uplink.connected();
  uplink.depart(chunk(0));
  uplink.ack(1, 320);
  uplink.depart(chunk(640_000));
  assert.equal(uplink.lagMs, 60);
});

test('a stuck network costs one clean gap', () => {
  const uplink = new Uplink();
  uplink.connected();
  let pos = 0;
  const step = (/** @type {number} */ buffered) => {
    const sent = uplink.admit(chunk(pos), buffered);
    if (sent) uplink.depart(chunk(pos));
    pos += 640;
    return sent;
  };
  assert.equal(step(0), true);
  assert.equal(step(40_000), false);
  assert.equal(step(20_000), false, 'not before it has drained');
  assert.equal(step(1000), true);
  assert.equal(uplink.droppedMs, 80);
});

test('a server that stops hearing is noticed though the socket takes everything', () => {
  const uplink = new Uplink();
  uplink.connected();
  let sent = 0;
  for (let pos = 0; pos < 16_000 * 10; pos += 640) {
    if (!uplink.admit(chunk(pos), 0)) continue;
    uplink.depart(chunk(pos));
    if (pos === 0) uplink.ack(1, 640);
    sent += 40;
  }
  assert.ok(sent > 4900 && sent < 5200, `${sent} ms`);
});

test('without acknowledgements nothing is held back', () => {
  const uplink = new Uplink();
  uplink.connected();
  for (let pos = 0; pos < 16_000 * 20; pos += 640) {
    assert.equal(uplink.admit(chunk(pos), 0), true);
    uplink.depart(chunk(pos));
  }
});

test('three seconds of speech wait for a connection', () => {
  const uplink = new Uplink();
  for (let pos = 0; pos < 16_000 * 5; pos += 640) uplink.keep(chunk(pos));
  const kept = uplink.takeBacklog();
  assert.deepEqual([kept.length, kept[0].pos, uplink.droppedMs], [75, 32_000, 2000]);
  assert.deepEqual(uplink.takeBacklog(), []);
});

/** @param {number} stream @param {number} pos @param {number} samples @param {number} [flags] */
const down = (stream, pos, samples, flags = 0) => ({ stream, pos, flags, payload: new ArrayBuffer(samples * 2) });

test('frames of a flushed response, or already received, are not played', () => {
  const downlink = new Downlink();
  assert.equal(downlink.accept(down(1, 0, 960)), true);
  assert.equal(downlink.accept(down(1, 0, 960)), false);
  downlink.flush(1);
  assert.equal(downlink.accept(down(1, 960, 960)), false);
  assert.equal(downlink.accept(down(2, 0, 960)), true);
  assert.equal(downlink.accept(down(2, 1920, 960)), true);
  assert.equal(downlink.missing, 960);
  downlink.reset();
  assert.equal(downlink.accept(down(1, 0, 960)), true);
});

test('the agent lowers its voice for speech, not for a click, and not while the room is learned', () => {
  const ducking = new Ducking();
  for (let n = 0; n < 20; n++) assert.equal(ducking.hear(0.2, 40, true), false, 'the canceller still learns');
  for (let n = 0; n < 10; n++) ducking.hear(0, 40, true);
  assert.equal(ducking.hear(0.2, 40, true), false);
  ducking.hear(0, 40, true);
  assert.equal(ducking.hear(0.2, 40, true), false);
  assert.equal(ducking.hear(0.2, 40, true), true);
});

test('the voice comes back when the server does not agree, and a steady noise does not lower it again', () => {
  const ducking = new Ducking();
  for (let n = 0; n < 30; n++) ducking.hear(0, 40, true);
  const heard = Array.from({ length: 60 }, () => ducking.hear(0.2, 40, true));
  const lowered = heard.filter(Boolean).length * 40;
  assert.ok(lowered >= 640 && lowered <= 760, `${lowered} ms`);
  assert.equal(heard.at(-1), false);
  for (let n = 0; n < 6; n++) ducking.hear(0, 40, true);
  ducking.hear(0.2, 40, true);
  assert.equal(ducking.hear(0.2, 40, true), true);
  assert.equal(ducking.hear(0.2, 40, false), false, 'nothing plays any more');
});

// report: A47
test('push to talk keeps the syllable before the press and the rest of the chunk after the release', () => {
  /** @type {PushToTalk<number>} */
  const gate = new PushToTalk();
  for (let n = 0; n < 9; n++) assert.deepEqual(gate.feed(n), { chunks: [], ends: false });
  assert.equal(gate.press(), true);
  assert.deepEqual(gate.feed(9), { chunks: [4, 5, 6, 7, 8, 9], ends: false });
  gate.release();
  assert.equal(gate.press(), false, 'pressed again before the end was told: the same activity');
  assert.deepEqual(gate.feed(10), { chunks: [10], ends: false });
  gate.release();
  assert.deepEqual(gate.feed(11), { chunks: [11], ends: true });
  assert.deepEqual(gate.feed(12), { chunks: [], ends: false });
  assert.equal(gate.press(), true);
});

test('a tool card never goes back', () => {
  const running = applyCall(undefined, { type: 'tool.call', call: 'c', name: 'move', args: {}, pending: true }, 1);
  const done = applyCall(running, { type: 'tool.update', call: 'c', status: 'done', ms: 5, pending: true }, 2);
  const stored = applyCall(done, { type: 'tool.call', call: 'c', name: 'move', args: { a: 1 }, seq: 4 }, 3);
  assert.deepEqual([stored.status, stored.order, stored.stored, stored.ms], ['done', 1, true, 5]);
  const late = applyCall(stored, { type: 'tool.update', call: 'c', status: 'cancelled', seq: 5 }, 4);
  assert.equal(late.status, 'done');
});

test('a call that waits for consent is decided once, and waits no more once it was approved', () => {
  const made = { type: 'tool.call', call: 'c', name: 'pay', args: { amount: 1 }, digest: 'd', needs_confirm: false };
  const asked = { ...made, needs_confirm: true, hint: 'Really?' };
  const conversation = after(made, asked, { type: 'tool.update', call: 'c', status: 'waiting_confirm' });
  const call = () => /** @type {import('../../static/js/lib/calls.js').Call} */ (conversation.calls.get('c'));
  assert.deepEqual([call().status, call().hint, call().digest], ['waiting_confirm', 'Really?', 'd']);
  conversation.receive({ ...made, seq: 1 });
  assert.equal(call().status, 'waiting_confirm', 'the record of the call comes late');
  assert.equal(conversation.decide('c'), true);
  assert.equal(conversation.decide('c'), false);
  conversation.receive({ type: 'error', code: 'not_delivered', message: 'no', ref: 'c' });
  assert.equal(conversation.decide('c'), true, 'it counted for nothing');
  conversation.receive({ type: 'tool.update', call: 'c', status: 'running' });
  conversation.receive({ ...asked, seq: 2 });
  conversation.receive({ type: 'tool.update', call: 'c', status: 'waiting_confirm', seq: 2 });
  assert.deepEqual([call().status, call().deciding, conversation.decide('c')], ['running', false, false]);
  conversation.receive({ type: 'tool.update', call: 'c', status: 'done', result: 1 });
  assert.equal(call().status, 'done');
});

test('an update that comes before its call still makes a card', () => {
  const early = applyCall(undefined, { type: 'tool.update', call: 'c', status: 'done', result: 1 }, 1);
  assert.deepEqual(applyCall(early, { type: 'tool.call', call: 'c', name: 'move' }, 2).name, 'move');
});

test('spoken words are whole words', () => {
  const text = 'It is half past ten.';
  assert.equal(spokenChars(text, 0, 100), 0);
  assert.equal(text.slice(0, spokenChars(text, 30, 100)), 'It is half');
  assert.equal(spokenChars(text, 100, 100), text.length);
  assert.equal(spokenChars('现在是十点半', 50, 100), 3);
});

/** A conversation in which these messages have come. @param {any[]} messages */
function after(...messages) {
  const conversation = new Conversation();
  for (const message of messages) conversation.receive(message);
  return conversation;
}
const ANSWER = { type: 'transcript', item: 'a', turn: 1, role: 'model', text: 'one two three four', final: true };
const START = { type: 'response.start', response: 1, turn: 1 };

/** @param {Conversation} conversation */
const parts = (conversation) =>
  conversation
    .entries()
    .flatMap((entry) => (entry.kind === 'caption' ? [{ cut: entry.caption.cut, ...entry.parts }] : []));

// report: A50
test('a caption follows the voice, is cut at once, and corrected when the server knows', () => {
  const conversation = after(START, ANSWER);
  conversation.progress(1, { heard: 12_000, received: 24_000 });
  assert.deepEqual(parts(conversation), [{ cut: false, heard: 'one two three', coming: ' four', unheard: '' }]);
  conversation.receive({ type: 'interrupted', response: 1, reason: 'speech' });
  assert.deepEqual(parts(conversation), [{ cut: true, heard: 'one two three', coming: '', unheard: ' four' }]);
  conversation.receive({ ...ANSWER, revision: 2, heard_chars: 7 });
  assert.deepEqual(parts(conversation), [{ cut: true, heard: 'one two', coming: '', unheard: ' three four' }]);
});

test('an answer that was heard to its end is not called interrupted', () => {
  const conversation = after(START, ANSWER);
  conversation.progress(1, { heard: 24_000, received: 24_000 });
  conversation.receive({ type: 'interrupted', response: 1, reason: 'speech' });
  assert.equal(parts(conversation)[0].cut, false);
});

test('a late partial changes nothing, and the same message twice neither', () => {
  const conversation = after(ANSWER, { ...ANSWER, text: 'one', final: false }, ANSWER);
  assert.deepEqual(parts(conversation), [{ cut: false, heard: 'one two three four', coming: '', unheard: '' }]);
});

test('turn numbers of a new live session do not touch the old one', () => {
  const conversation = after(START, ANSWER);
  conversation.progress(1, { heard: 24_000, received: 24_000 });
  conversation.receive({ type: 'tool.call', call: 'c', name: 'move' });
  conversation.connected({ resumed: false, acks: [] });
  conversation.receive(START);
  conversation.progress(1, { heard: 0, received: 1000 });
  conversation.receive({ type: 'interrupted', response: 1, reason: 'speech' });
  assert.deepEqual(parts(conversation), [{ cut: false, heard: 'one two three four', coming: '', unheard: '' }]);
  assert.equal(conversation.calls.get('c')?.status, 'cancelled');
});

test('a typed message keeps its place when the record has it, whichever comes first', () => {
  for (const ackFirst of [true, false]) {
    const conversation = new Conversation();
    conversation.type('m', 'hello');
    conversation.outbox.takeQueued();
    const ack = { type: 'ack', message_id: 'm', state: 'persisted', seq: 4 };
    const record = {
      type: 'transcript',
      item: 'e',
      turn: 1,
      role: 'user',
      text: 'hello',
      final: true,
      source: 'typed',
      seq: 4,
    };
    conversation.receive({ type: 'tool.call', call: 'c', name: 'move' });
    for (const message of ackFirst ? [ack, record] : [record, ack]) conversation.receive(message);
    assert.deepEqual(
      conversation.entries().map(({ key }) => key),
      ['caption e', 'call c'],
    );
  }
});

test('a message is sent again under its id only if that is safe', () => {
  for (const [state, id] of [
    ['not_delivered', 'm'],
    ['unknown', 'fresh'],
  ]) {
    const outbox = new Outbox();
    outbox.add('m', 'hello', 1);
    assert.deepEqual(
      outbox.takeQueued().map((message) => message.id),
      ['m'],
    );
    assert.deepEqual(outbox.pending, ['m']);
    outbox.acknowledge({ message_id: 'm', state });
    outbox.again('m', 'fresh');
    assert.deepEqual(
      outbox.takeQueued().map((message) => message.id),
      [id],
    );
  }
});

test('after a reconnect nobody knows about what the server does not mention', () => {
  const outbox = new Outbox();
  for (const id of ['a', 'b', 'c']) outbox.add(id, id, 1);
  outbox.takeQueued();
  outbox.add('later', 'later', 2);
  outbox.reconnected([
    { message_id: 'a', state: 'persisted', seq: 1 },
    { message_id: 'b', state: 'not_delivered' },
  ]);
  const deliveries = [...outbox.messages.values()].map(({ delivery }) => delivery);
  assert.deepEqual(deliveries, ['delivered', 'not_delivered', 'unknown', 'queued']);
});

test('a refused message says so', () => {
  const conversation = new Conversation();
  conversation.type('m', 'hello');
  conversation.outbox.takeQueued();
  conversation.receive({
    type: 'error',
    code: 'content_refused',
    message: 'no',
    fatal: false,
    retryable: false,
    ref: 'm',
  });
  assert.equal(conversation.outbox.messages.get('m')?.delivery, 'refused');
});
