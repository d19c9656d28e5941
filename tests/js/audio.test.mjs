import assert from 'node:assert/strict';
import test from 'node:test';
import { Chunker } from '../../static/js/lib/chunker.js';
import { Playout } from '../../static/js/lib/playout.js';
import { Resampler, toInt16 } from '../../static/js/lib/resample.js';

/** @param {Resampler} resampler @param {Float32Array} input */
function resample(resampler, input) {
  const out = [];
  for (const sample of input) {
    resampler.push(sample);
    while (!resampler.needsInput) out.push(resampler.next());
  }
  return out;
}

/** @param {number} hz @param {number} rate @param {number} seconds @param {number} [amplitude] */
const sine = (hz, rate, seconds, amplitude = 0.5) =>
  Float32Array.from({ length: rate * seconds }, (_, n) => amplitude * Math.sin((2 * Math.PI * hz * n) / rate));

/** Signal to noise of a resampled sine against the ideal one, without the filter's beginning and end. */
function sineSnr(/** @type {number} */ inHz, /** @type {number} */ outHz, /** @type {number} */ hz) {
  const resampler = new Resampler(inHz, outHz);
  const out = resample(resampler, sine(hz, inHz, 1));
  let signal = 0;
  let noise = 0;
  for (let n = 2000; n < out.length - 2000; n++) {
    const ideal = 0.5 * Math.sin(2 * Math.PI * hz * (n / outHz - resampler.delay / inHz));
    signal += ideal ** 2;
    noise += (out[n] - ideal) ** 2;
  }
  return 10 * Math.log10(signal / noise);
}

for (const [inHz, outHz] of [
  [48_000, 16_000],
  [44_100, 16_000],
  [96_000, 16_000],
  [24_000, 48_000],
  [24_000, 44_100],
]) {
  test(`resampling ${inHz} to ${outHz} keeps a voice`, () => {
    for (const hz of [100, 1000, 3000, 6000]) assert.ok(sineSnr(inHz, outHz, hz) > 70, `${hz} Hz`);
  });
}

test('what would fold back into the voice is removed', () => {
  const out = resample(new Resampler(48_000, 16_000), sine(10_000, 48_000, 1, 1)).slice(500);
  const rms = Math.sqrt(out.reduce((sum, value) => sum + value ** 2, 0) / out.length);
  assert.ok(20 * Math.log10(rms) < -70, `${20 * Math.log10(rms)} dB`);
});

test('equal rates change nothing', () => {
  const input = Float32Array.from({ length: 300 }, () => Math.random() - 0.5);
  assert.deepEqual(resample(new Resampler(16_000, 16_000), input), [...input]);
});

test('samples are clamped, not wrapped', () => {
  assert.deepEqual([1, 1.7, -1, -1.7, 0].map(toInt16), [32767, 32767, -32768, -32768, 0]);
});

test('chunks are whole, numbered by sample and independent of the size of the input blocks', () => {
  const input = sine(440, 44_100, 1);
  const runs = [128, 1000].map((size) => {
    /** @type {import('../../static/js/lib/chunker.js').Chunk[]} */
    const chunks = [];
    const chunker = new Chunker(44_100, 16_000, 40, (chunk) => chunks.push(chunk));
    for (let n = 0; n < input.length; n += size) chunker.process(input.subarray(n, n + size));
    return chunks;
  });
  assert.deepEqual(
    runs[0].map(({ pos }) => pos),
    [...runs[0].keys()].map((n) => n * 640),
  );
  assert.deepEqual(runs[0], runs[1]);
  assert.ok(runs[0].length >= 24);
});

test('a muted microphone gives no samples but tells its level, and its position goes on', () => {
  /** @type {import('../../static/js/lib/chunker.js').Chunk[]} */
  const chunks = [];
  const chunker = new Chunker(16_000, 16_000, 20, (chunk) => chunks.push(chunk));
  chunker.muted = true;
  chunker.process(new Float32Array(320).fill(0.25));
  chunker.muted = false;
  chunker.process(new Float32Array(320).fill(0.25));
  assert.deepEqual([chunks[0].pcm, chunks[0].rms, chunks[1].pos], [null, 0.25, 320]);
  assert.notEqual(chunks[1].pcm, null);
});

test('two channels are mixed', () => {
  /** @type {import('../../static/js/lib/chunker.js').Chunk[]} */
  const chunks = [];
  const chunker = new Chunker(16_000, 16_000, 20, (chunk) => chunks.push(chunk));
  chunker.process(new Float32Array(320).fill(0.5), new Float32Array(320).fill(-0.25));
  assert.deepEqual([...new Int16Array(chunks[0].pcm ?? new ArrayBuffer(0))].slice(0, 2), [4096, 4096]);
});

/** A playout with what it reported and what it sounded. */
function rig(/** @type {number} */ outHz = 24_000) {
  /** @type {import('../../static/js/lib/playout.js').Report[]} */
  const reports = [];
  /** @type {number[]} */
  const sound = [];
  const playout = new Playout(24_000, outHz, (report) => reports.push({ ...report }));
  const block = new Float32Array(128);
  const run = (/** @type {number} */ seconds) => {
    for (let n = 0; n < seconds * outHz; n += block.length) {
      block.fill(7);
      playout.render(block);
      sound.push(...block);
    }
  };
  const events = () =>
    reports.filter(({ event }) => event !== 'pos').map(({ event, response }) => `${event} ${response}`);
  return { playout, reports, sound, run, events };
}

/** @param {number} seconds @param {number} [value] */
const steady = (seconds, value = 8000) => new Int16Array(24_000 * seconds).fill(value);

test('an answer in one burst is played to its last sample, and then it is silent', () => {
  const { playout, reports, sound, run, events } = rig(48_000);
  const answer = steady(15);
  for (let n = 0; n < answer.length; n += 960) playout.push(1, answer.slice(n, n + 960), false);
  playout.end(1);
  run(15.2);
  assert.deepEqual(events(), ['start 1', 'drained 1']);
  assert.equal(reports.at(-1)?.played, answer.length);
  assert.equal(reports.at(-1)?.underruns, 0);
  assert.equal(sound.findLastIndex((value) => Math.abs(value) > 1e-4) >= 48_000 * 15 - 200, true);
  assert.deepEqual(sound.slice(-4800), new Array(4800).fill(0));
});

test('playing begins when enough is there, or when it is all there is', () => {
  const { playout, run, events } = rig();
  playout.push(1, steady(0.05), false);
  run(0.2);
  assert.deepEqual(events(), []);
  playout.end(1);
  run(0.1);
  assert.deepEqual(events(), ['start 1', 'drained 1']);
});

test('a flush is silent within four milliseconds and its late frames stay out', () => {
  const { playout, sound, run, events } = rig(48_000);
  playout.push(3, steady(5), false);
  run(1);
  const at = sound.length;
  playout.flush(3);
  playout.push(3, steady(1), false);
  run(0.5);
  const last = sound.findLastIndex((value) => value !== 0);
  assert.ok(last - at <= 0.004 * 48_000, `${(last - at) / 48} ms`);
  assert.deepEqual(events(), ['start 3', 'flushed 3', 'silent 3']);
  for (let n = at; n < last; n++)
    assert.ok(Math.abs(sound[n]) <= Math.abs(sound[n - 1]) + 1e-3, 'it only gets quieter');
});

test('a flush says exactly how much was played, also of what had not begun', () => {
  const { playout, reports, run } = rig();
  playout.push(1, steady(2), true);
  playout.push(2, steady(2), false);
  run(0.5);
  playout.flush(2);
  const flushed = reports.filter(({ event }) => event === 'flushed');
  assert.deepEqual(flushed.map(({ response }) => response).sort(), [1, 2]);
  const first = flushed.find(({ response }) => response === 1);
  assert.ok(Math.abs((first?.played ?? 0) - 12_000) <= 256, String(first?.played));
  assert.equal(flushed.find(({ response }) => response === 2)?.played, 0);
  assert.equal(playout.queued, 0);
});

test('a flush that comes too late or twice does no harm', () => {
  const { playout, reports, run, events } = rig();
  playout.push(1, steady(0.2), true);
  run(0.5);
  playout.flush(1);
  playout.flush(1);
  assert.deepEqual(events(), ['start 1', 'drained 1', 'flushed 1', 'flushed 1']);
  assert.equal(reports.at(-1)?.played, 4800);
  playout.push(2, steady(0.2), true);
  run(0.5);
  assert.deepEqual(events().slice(-2), ['start 2', 'drained 2']);
});

test('an answer that follows a flush is played whole', () => {
  const { playout, reports, run, events } = rig();
  playout.push(1, steady(3), false);
  run(0.5);
  playout.flush(1);
  playout.push(2, steady(0.5), true);
  run(1);
  assert.deepEqual(events(), ['start 1', 'flushed 1', 'silent 1', 'start 2', 'drained 2']);
  assert.equal(reports.at(-1)?.played, 12_000);
});

test('one answer goes over into the next without a gap, and each is counted', () => {
  const { playout, reports, run, events } = rig();
  playout.push(1, steady(0.3), true);
  playout.push(2, steady(0.3), true);
  run(1);
  assert.deepEqual(events(), ['start 1', 'drained 1', 'start 2', 'drained 2']);
  const drained = reports.filter(({ event }) => event === 'drained');
  assert.deepEqual(
    drained.map(({ played }) => played),
    [7200, 7200],
  );
});

test('a hole in the stream is counted once, faded, and recovered from', () => {
  const { playout, reports, sound, run, events } = rig();
  playout.push(1, steady(0.3), false);
  run(0.6);
  playout.push(1, steady(0.5), true);
  run(1);
  assert.deepEqual(events(), ['start 1', 'underrun 1', 'drained 1']);
  assert.equal(reports.at(-1)?.played, 19_200);
  const steps = sound.slice(100, 24_000 * 0.9).map((value, n) => Math.abs(value - sound[99 + n]));
  assert.ok(Math.max(...steps) < 0.02, 'no click');
});

// report: A46
test('bursts with holes between them do not run dry once the buffer has learned', () => {
  const { playout, reports, run } = rig();
  for (let n = 0; n < 20; n++) {
    playout.push(1, steady(1), false);
    run(n === 0 ? 0.3 : 1);
  }
  assert.equal(reports.filter(({ event }) => event === 'underrun').length, 0);
});

test('a new live session may count from one again', () => {
  const { playout, run, events } = rig();
  playout.push(7, steady(1), false);
  run(0.3);
  playout.reset();
  run(0.1);
  playout.push(1, steady(0.2), true);
  run(0.5);
  assert.deepEqual(
    events().filter((event) => !event.startsWith('silent')),
    ['start 7', 'start 1', 'drained 1'],
  );
});
