/**
 * The devices of one kind. Their names are empty until the microphone was allowed once.
 * @param {MediaDeviceKind} kind
 */
export async function listDevices(kind) {
  const all = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return all.filter((device) => device.kind === kind && !['', 'default'].includes(device.deviceId));
}
