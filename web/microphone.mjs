import { toPcm16 } from "./pcm.mjs";

// What people like to hear is not what was said: recognizers want the sound as it is.
const unprocessed = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };

/** What to tell somebody whose microphone cannot be opened. */
export function explainMicrophone(error) {
  if (!window.isSecureContext) return "The browser keeps the microphone from pages without HTTPS; recordings work.";
  if (error.name === "NotAllowedError") return "The browser does not let this page use the microphone.";
  if (error.name === "NotFoundError") return "No microphone was found.";
  return `The microphone does not work: ${error.message}`;
}

/**
 * Opens the microphone. Returns its rate, `start(onBlock, onEnd)`, which gives 16-bit samples, a tenth of a second at a time,
 * and tells when the microphone is taken away, and an asynchronous `stop()`, after which no more come.
 */
export async function openMicrophone() {
  if (!navigator.mediaDevices) throw new Error("there is none for this page");
  const media = await navigator.mediaDevices.getUserMedia({ audio: unprocessed });
  const context = new AudioContext();
  const close = () => {
    media.getTracks().forEach((track) => track.stop());
    return context.close();
  };
  try {
    await context.audioWorklet.addModule("/assets/recorder-worklet.mjs");
  } catch (error) {
    await close();
    throw error;
  }
  const recorder = new AudioWorkletNode(context, "recorder");
  return {
    rate: context.sampleRate,
    async start(onBlock, onEnd) {
      media.getTracks().forEach((track) => track.addEventListener("ended", onEnd));
      recorder.port.onmessage = ({ data }) => onBlock(toPcm16(data));
      context.createMediaStreamSource(media).connect(recorder).connect(context.destination); // it plays silence
      await context.resume();
    },
    async stop() {
      await new Promise((flushed) => {
        const onBlock = recorder.port.onmessage;
        recorder.port.onmessage = (message) => (message.data === "flushed" ? flushed() : onBlock(message));
        recorder.port.postMessage("flush");
      });
      await close();
    },
  };
}
