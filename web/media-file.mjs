import { mixDown, toPcm16 } from "./pcm.mjs";

/** What files are decoded to. */
export const fileRate = 16_000;

const blockSamples = fileRate / 10;
const maxUnsentSeconds = 1;
const pauseMs = 20;

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** The 16-bit samples of anything that the browser can play, at fileRate, all channels in one. */
export async function decodeFile(file) {
  const context = new OfflineAudioContext(1, 1, fileRate);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const channels = Array.from({ length: audio.numberOfChannels }, (_, i) => audio.getChannelData(i));
  return toPcm16(mixDown(channels));
}

/**
 * Gives samples to a CaptionStream, no faster than it gets rid of them, and with `spoken` no faster than they were said.
 * Returns when all are given, or the stream is over, or `stopped()`.
 */
export async function sendFile(stream, pcm, { spoken, stopped, onBlock }) {
  const begin = performance.now();
  for (let at = 0; at < pcm.length; at += blockSamples) {
    const due = begin + (1000 * at) / fileRate;
    while (stream.unsent > maxUnsentSeconds || (spoken && performance.now() < due)) {
      if (stream.over || stopped()) return;
      await pause(spoken ? Math.max(pauseMs, due - performance.now()) : pauseMs);
    }
    if (stream.over || stopped()) return;
    const block = pcm.subarray(at, at + blockSamples);
    onBlock(block);
    stream.push(block);
  }
}
