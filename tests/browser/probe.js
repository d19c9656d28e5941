/**
 * Runs in the page before its own code, and only watches: what the page sends and gets over its socket, when, and what
 * reaches the speaker. So a test sees the truth and the page holds nothing that is there for tests.
 */
(() => {
  /** @typedef {{at: number, message: any}} Line */
  const probe = {
    /** @type {Line[]} */
    sent: [],
    /** @type {Line[]} */
    got: [],
    /** Context time at which each `interrupted` came. @type {number[]} */
    interruptedAt: [],
    /** Samples of the voice that came, by response. @type {Record<number, number>} */
    samples: {},
    /** The voice that came, by response. @type {Record<number, Int16Array[]>} */
    voices: {},
    /** When each microphone frame was captured (epoch ms) and how loud it was. @type {{t: number, rms: number}[]} */
    spoken: [],
    sockets: 0,
    /** @type {string[]} */
    violations: [],
    /** @type {AudioContext | undefined} */
    context: undefined,
    /** @type {Promise<AudioWorkletNode> | undefined} */
    tap: undefined,
    /** @type {MediaStream[]} */
    microphones: [],
    async recording() {
      const node = await probe.tap;
      if (node === undefined) throw new Error('nothing was ever played');
      /** @type {Promise<any>} */
      const answer = new Promise((resolve) => {
        node.port.onmessage = ({ data }) => resolve(data);
      });
      node.port.postMessage('stop');
      const { pcm, rate, first } = await answer;
      return { pcm: base64(pcm), rate, first };
    },
    /** @param {number} response */
    voice: (response) => base64(Int16Array.from(probe.voices[response].flatMap((piece) => [...piece]))),
  };
  Object.assign(globalThis, { probe });

  /** @param {Float32Array | Int16Array} samples */
  function base64(samples) {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    let text = '';
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  }

  document.addEventListener('securitypolicyviolation', (event) => {
    probe.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
  });

  const NativeSocket = WebSocket;
  globalThis.WebSocket = class extends NativeSocket {
    /** @param {string | URL} url @param {string | string[]} [protocols] */
    constructor(url, protocols) {
      super(url, protocols);
      probe.sockets += 1;
      this.addEventListener('message', ({ data }) => {
        if (typeof data === 'string') note(JSON.parse(data));
        else count(data);
      });
    }

    /** @override @param {string | ArrayBufferLike | Blob | ArrayBufferView<ArrayBufferLike>} data */
    send(data) {
      if (typeof data === 'string') probe.sent.push({ at: performance.now(), message: JSON.parse(data) });
      else if (data instanceof ArrayBuffer) spoke(data);
      super.send(/** @type {string} */ (data));
    }
  };

  /** @param {any} message */
  function note(message) {
    probe.got.push({ at: performance.now(), message });
    if (message.type === 'interrupted' && probe.context) probe.interruptedAt.push(probe.context.currentTime);
  }

  /** @param {ArrayBuffer} data */
  function count(data) {
    const view = new DataView(data);
    const response = view.getUint32(4, true);
    const piece = new Int16Array(data.slice(24));
    probe.samples[response] = (probe.samples[response] ?? 0) + piece.length;
    probe.voices[response] ??= [];
    probe.voices[response].push(piece);
  }

  /** @param {ArrayBuffer} data */
  function spoke(data) {
    const pcm = new Int16Array(data, 24);
    const energy = pcm.reduce((sum, value) => sum + (value / 32768) ** 2, 0);
    probe.spoken.push({ t: new DataView(data).getFloat64(16, true), rms: Math.sqrt(energy / pcm.length) });
  }

  const connect = AudioNode.prototype.connect;
  /** @type {any} */ (AudioNode.prototype).connect = new Proxy(connect, {
    apply(target, node, args) {
      if (args[0] === node.context.destination) tapInto(node);
      return Reflect.apply(target, node, args);
    },
  });

  /** @param {AudioNode} node */
  async function tapInto(node) {
    const context = /** @type {AudioContext} */ (node.context);
    if (probe.context !== context) {
      probe.context = context;
      probe.tap = context.audioWorklet
        .addModule('/tap-processor.js')
        .then(() => new AudioWorkletNode(context, 'tap-processor', { numberOfOutputs: 0 }));
    }
    const tap = await probe.tap;
    if (tap !== undefined) Reflect.apply(connect, node, [tap]);
  }

  const devices = navigator.mediaDevices;
  if (devices) {
    const open = devices.getUserMedia.bind(devices);
    devices.getUserMedia = async (constraints) => {
      const stream = await open(constraints);
      probe.microphones.push(stream);
      return stream;
    };
  }
})();
