import { listDevices } from '../audio/devices.js';
import { byId, h } from './dom.js';
import { onLanguage, t } from './i18n.js';

/** @typedef {import('../pages/voice-call.js').VoiceCall} VoiceCall */

/** How the microphone is to be opened, by the choices on the page. @returns {import('../audio/capture.js').CaptureOptions} */
export function microphoneOptions() {
  return {
    deviceId: byId('device-in', HTMLSelectElement).value || undefined,
    echoCancellation: byId('echo', HTMLInputElement).checked,
    noiseSuppression: byId('noise', HTMLInputElement).checked,
    autoGainControl: byId('gain', HTMLInputElement).checked,
  };
}

/** Fills one list of devices and keeps the choice if it is still there. @param {string} id @param {MediaDeviceKind} kind */
async function fillDevices(id, kind) {
  const select = byId(id, HTMLSelectElement);
  const devices = await listDevices(kind);
  const chosen = select.value;
  select.replaceChildren(
    h('option', { value: '' }, t('sound.default')),
    ...devices.map(({ deviceId, label }, index) =>
      h('option', { value: deviceId }, label || t('sound.unnamed', { n: index + 1 })),
    ),
  );
  select.value = devices.some(({ deviceId }) => deviceId === chosen) ? chosen : '';
}

/** Lists the devices anew. Their names are known once the microphone was allowed. */
export async function refreshDevices() {
  await fillDevices('device-in', 'audioinput');
  byId('speaker-field', HTMLElement).hidden = !('AudioContext' in globalThis && 'setSinkId' in AudioContext.prototype);
  await fillDevices('device-out', 'audiooutput');
}

/** Connects the choices of the side panel to the call. @param {VoiceCall} call */
export function mountSettings(call) {
  const reopen = () => call.now.microphone === 'on' && call.openMicrophone();
  for (const id of ['echo', 'noise', 'gain']) byId(id, HTMLInputElement).addEventListener('change', reopen);
  byId('device-in', HTMLSelectElement).addEventListener('change', reopen);
  const speaker = byId('device-out', HTMLSelectElement);
  speaker.addEventListener('change', () => call.setSpeaker(speaker.value));
  const volume = byId('volume', HTMLInputElement);
  volume.addEventListener('input', () => call.agent.setVolume(volume.valueAsNumber / 100));
  for (const radio of document.querySelectorAll('input[name="input"]')) {
    radio.addEventListener('change', () => {
      call.setInput(/** @type {HTMLInputElement} */ (radio).value === 'ptt' ? 'ptt' : 'hands_free');
    });
  }
  const toggle = byId('toggle', HTMLInputElement);
  toggle.addEventListener('change', () => call.setToggle(toggle.checked));
  navigator.mediaDevices?.addEventListener('devicechange', refreshDevices);
  call.addEventListener('microphonelost', () => {
    byId('device-in', HTMLSelectElement).value = '';
  });
  onLanguage(refreshDevices);
  refreshDevices();
}
