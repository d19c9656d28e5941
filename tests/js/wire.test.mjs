import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { applyCall, argumentLine, isOpen } from '../../static/js/lib/calls.js';
import { applyTranscript, captionParts } from '../../static/js/lib/captions.js';
import { Outbox } from '../../static/js/lib/outbox.js';
import { decodeFrame, encodeFrame, HEADER_BYTES, KIND } from '../../static/js/lib/wire.js';

const vectors = JSON.parse(readFileSync(new URL('../vectors/wire.json', import.meta.url), 'utf8'));

/** @param {string} hex */
const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)).buffer;
/** @param {ArrayBuffer} buffer */
const hexOf = (buffer) => Buffer.from(buffer).toString('hex');

/** The one message of the server's vectors with this name. @param {string} name */
const message = (name) => vectors.server.find((/** @type {any} */ vector) => vector.name === name).messages[0];

for (const vector of vectors.binary) {
  test(`frame: ${vector.name}`, () => {
    const { frame_no: frameNo, payload_hex: payload, ...rest } = vector.fields;
    const frame = decodeFrame(bytes(vector.hex));
    assert.deepEqual({ ...frame, payload: hexOf(frame.payload) }, { ...rest, frameNo, payload });
    assert.equal(hexOf(encodeFrame({ ...rest, frameNo }, bytes(payload))), vector.hex);
  });
}

test('a frame can be made of a view into a larger buffer', () => {
  const samples = new Int16Array([9, 1, -2, 9]).subarray(1, 3);
  const frame = decodeFrame(encodeFrame({ kind: KIND.AUDIO_UP, stream: 1, frameNo: 0, pos: 0, t: 0 }, samples));
  assert.deepEqual([...new Int16Array(frame.payload)], [1, -2]);
});

test('a frame without a whole header or of another version is refused', () => {
  assert.throws(() => decodeFrame(new ArrayBuffer(HEADER_BYTES - 1)), RangeError);
  const other = vectors.binary_refused.find((/** @type {any} */ vector) => vector.name === 'version 2');
  assert.throws(() => decodeFrame(bytes(other.hex)), RangeError);
});

test('captions read what the server sends', () => {
  const partial = applyTranscript(undefined, message('partial transcript of the user'), 1);
  assert.deepEqual([partial.role, partial.text, partial.final], ['user', 'what time', false]);
  const whole = applyTranscript(partial, message('complete transcript of the user'), 2);
  assert.deepEqual([whole.text, whole.final, whole.order, whole.lang], ['What time is it?', true, 1, 'en-US']);
  assert.equal(applyTranscript(undefined, message('typed text'), 1).source, 'typed');
  const heard = applyTranscript(undefined, message('what was heard of an interrupted answer'), 1);
  assert.deepEqual(captionParts(heard, undefined), { heard: 'It is', coming: '', unheard: ' half past ten.' });
});

test('tool cards read what the server sends', () => {
  const called = applyCall(undefined, message('tool called, at once'), 1);
  assert.deepEqual(
    [called.name, called.status, called.effect, isOpen(called)],
    ['set_light', 'running', 'write', true],
  );
  assert.equal(argumentLine(called.args), 'on: true');
  const done = applyCall(called, message('tool done, at once'), 2);
  assert.deepEqual([done.status, done.ms, done.result], ['done', 120, { light: 'on' }]);
  assert.equal(applyCall(undefined, message('tool failed, at once'), 1).error, 'timed out');
});

test('every acknowledgement of the wire has a meaning', () => {
  const states = vectors.connection.filter((/** @type {any} */ m) => m.type === 'ack');
  assert.equal(states.length, 5);
  for (const ack of states) {
    const outbox = new Outbox();
    outbox.add(ack.message_id, 'hello', 1);
    outbox.takeQueued();
    outbox.acknowledge(ack);
    const { delivery } = [...outbox.messages.values()][0];
    assert.equal(delivery === 'unknown', ack.state === 'unknown', ack.state);
    assert.notEqual(delivery, 'sending', ack.state);
    assert.equal(['not_delivered', 'unknown'].includes(delivery), ack.retry !== 'never', ack.state);
  }
});
