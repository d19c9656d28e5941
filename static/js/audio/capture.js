/**
 * @typedef {import('../i18n/en.js').Key} Key
 * @typedef {import('../lib/chunker.js').Chunk & {t: number, stream: number}} CapturedChunk
 * @typedef {object} CaptureOptions
 * @property {string} [deviceId]
 * @property {boolean} echoCancellation
 * @property {boolean} noiseSuppression
 * @property {boolean} autoGainControl
 */

/** Why there is no microphone, as a key of the texts. @param {unknown} error @returns {Key} */
export function microphoneProblem(error) {
  if (!globalThis.isSecureContext) return 'mic.insecure';
  const name = error instanceof Error ? error.name : '';
  if (name === 'NotAllowedError') return 'mic.denied';
  if (name === 'NotFoundError' || name === 'OverconstrainedError') return 'mic.missing';
  if (name === 'NotReadableError' || name === 'AbortError') return 'mic.busy';
  if (name === 'SecurityError') return 'mic.insecure';
  return 'mic.other';
}

/**
 * The microphone. Events: `chunk` (detail: CapturedChunk), `lost` when the device went away, `broken` when the worklet
 * failed.
 */
export class Capture extends EventTarget {
  /** @param {AudioContext} context */
  constructor(context) {
    super();
    this.context = context;
    this.stream = 0;
    this.muted = false;
    /** @type {{media: MediaStream, source: MediaStreamAudioSourceNode, node: AudioWorkletNode} | undefined} */
    this.graph = undefined;
  }

  /**
   * Opens a device; called again, it changes to another one without a pause. Rejects as `getUserMedia` does.
   * @param {CaptureOptions} options @param {number} chunkMs
   */
  async start({ deviceId, ...processing }, chunkMs) {
    const media = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: { ideal: 1 }, ...processing, ...(deviceId ? { deviceId: { exact: deviceId } } : {}) },
    });
    this.stop();
    this.stream += 1;
    const source = this.context.createMediaStreamSource(media);
    const node = new AudioWorkletNode(this.context, 'capture-processor', {
      numberOfOutputs: 0,
      processorOptions: { chunkMs },
    });
    this.graph = { media, source, node };
    this.#listen(this.graph, this.stream);
    node.port.postMessage({ muted: this.muted });
    source.connect(node);
  }

  /** @param {NonNullable<Capture['graph']>} graph @param {number} stream */
  #listen({ media, node }, stream) {
    node.port.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent('chunk', { detail: { ...data, stream } }));
    node.onprocessorerror = () => this.dispatchEvent(new Event('broken'));
    media.getAudioTracks()[0].addEventListener('ended', () => {
      if (this.graph?.media === media) this.dispatchEvent(new Event('lost'));
    });
  }

  /** @param {boolean} muted */
  mute(muted) {
    this.muted = muted;
    this.graph?.node.port.postMessage({ muted });
  }

  /** Gives the device back, so that the system's own sign goes out. */
  stop() {
    if (this.graph === undefined) return;
    const { media, source, node } = this.graph;
    this.graph = undefined;
    source.disconnect();
    node.port.onmessage = null;
    node.port.postMessage({ stop: true });
    for (const track of media.getTracks()) track.stop();
  }
}
