const WORKLETS = ['capture-processor.js', 'playback-processor.js'];

/** Whether this browser gives this page the means to play the agent's voice: plain http from another host does not. */
export const canPlay = () => globalThis.isSecureContext && 'AudioWorkletNode' in globalThis;

/**
 * One context at the device's own rate for both directions; asking for a rate would fail in some browsers and break when
 * a headset changes its own. Call it from a click, before anything is awaited: only then may the page make a sound.
 * @returns {Promise<AudioContext>}
 */
export async function openAudioContext() {
  const session = /** @type {{audioSession?: {type: string}}} */ (navigator).audioSession;
  if (session !== undefined) session.type = 'play-and-record';
  const context = new AudioContext({ latencyHint: 'interactive' });
  const running = context.resume();
  await Promise.all(
    WORKLETS.map((name) => context.audioWorklet.addModule(new URL(`./worklets/${name}`, import.meta.url))),
  );
  await running;
  return context;
}
