/**
 * Binary frames of the wire, both directions: a 24-byte little endian header, then the payload.
 * The offset of the payload is a multiple of two, so PCM16 can be viewed in place.
 */

export const SUBPROTOCOL = 'live-gateway.v1';
export const VERSION = 1;
export const HEADER_BYTES = 24;
/** Sample rate of the microphone's audio on the wire, Hz. */
export const UP_HZ = 16_000;
/** Sample rate of the agent's voice on the wire, Hz. */
export const DOWN_HZ = 24_000;

export const KIND = Object.freeze({ AUDIO_UP: 1, AUDIO_DOWN: 2, IMAGE_UP: 3 });
export const FLAG = Object.freeze({ DISCONTINUITY: 1, END: 2, START: 4, BACKLOG: 8 });
export const CODEC = Object.freeze({ PCM16: 0, OPUS: 1, JPEG: 16, WEBP: 17 });

/**
 * @typedef {object} FrameHeader
 * @property {number} kind one of KIND
 * @property {number} [flags] bits of FLAG
 * @property {number} [codec] one of CODEC
 * @property {number} stream up: number of the capture stream; down: number of the response
 * @property {number} frameNo counts the frames of one direction of one connection, from 0
 * @property {number} pos index of the first sample inside the stream
 * @property {number} t epoch ms: up, when the last sample was captured; down, when the frame was sent
 */

/** @typedef {Required<FrameHeader> & {payload: ArrayBuffer}} Frame */

/**
 * @param {FrameHeader} header
 * @param {ArrayBuffer | ArrayBufferView} payload
 * @returns {ArrayBuffer}
 */
export function encodeFrame(header, payload) {
  const bytes = ArrayBuffer.isView(payload)
    ? new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength)
    : new Uint8Array(payload);
  const frame = new ArrayBuffer(HEADER_BYTES + bytes.byteLength);
  const view = new DataView(frame);
  view.setUint8(0, VERSION);
  view.setUint8(1, header.kind);
  view.setUint8(2, header.flags ?? 0);
  view.setUint8(3, header.codec ?? CODEC.PCM16);
  view.setUint32(4, header.stream, true);
  view.setUint32(8, header.frameNo, true);
  view.setUint32(12, header.pos, true);
  view.setFloat64(16, header.t, true);
  new Uint8Array(frame, HEADER_BYTES).set(bytes);
  return frame;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Frame}
 * @throws {RangeError} for a frame that is too short or of another version
 */
export function decodeFrame(buffer) {
  if (buffer.byteLength < HEADER_BYTES) throw new RangeError(`a frame of ${buffer.byteLength} bytes has no header`);
  const view = new DataView(buffer);
  const version = view.getUint8(0);
  if (version !== VERSION) throw new RangeError(`a frame of version ${version}`);
  return {
    kind: view.getUint8(1),
    flags: view.getUint8(2),
    codec: view.getUint8(3),
    stream: view.getUint32(4, true),
    frameNo: view.getUint32(8, true),
    pos: view.getUint32(12, true),
    t: view.getFloat64(16, true),
    payload: buffer.slice(HEADER_BYTES),
  };
}
