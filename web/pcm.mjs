/** Samples between floats in [-1, 1], as the browser has them, and 16-bit integers, as the server takes them. */

const scale = 32768;

/** 16-bit samples; what is out of range is clipped. A decoded 16-bit file comes back as it was. */
export function toPcm16(samples) {
  const pcm = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; ++i) {
    pcm[i] = Math.max(-scale, Math.min(scale - 1, Math.round(samples[i] * scale)));
  }
  return pcm;
}

/** The average of channels of one length. */
export function mixDown(channels) {
  if (channels.length === 1) return channels[0];
  const mix = new Float32Array(channels[0].length);
  for (const channel of channels) {
    for (let i = 0; i < mix.length; ++i) mix[i] += channel[i] / channels.length;
  }
  return mix;
}

/** Root mean square of 16-bit samples in decibels of full scale; -Infinity for silence. */
export function levelDb(pcm) {
  let sum = 0;
  for (const sample of pcm) sum += sample * sample;
  return 10 * Math.log10(sum / Math.max(1, pcm.length)) - 20 * Math.log10(scale);
}
