/** The page at "/": wires microphone, files, stream, transcript and what is seen of them. */

import { CaptionStream } from "./caption-stream.mjs";
import { CaptionView } from "./caption-view.mjs";
import { acceptDrops } from "./file-drop.mjs";
import { KeyForm } from "./key-form.mjs";
import { decodeFile, fileRate, sendFile } from "./media-file.mjs";
import { explainMicrophone, openMicrophone } from "./microphone.mjs";
import { levelDb } from "./pcm.mjs";
import { saveFile } from "./save-file.mjs";
import { describeServer, openSocket } from "./server.mjs";
import { bindSettings, loadKey, loadSettings, saveSettings, streamQuery } from "./settings.mjs";
import { toSrt, toText, toVtt } from "./subtitles.mjs";
import { Transcript } from "./transcript.mjs";
import { giveWordTips } from "./word-tips.mjs";

const formats = {
  txt: { type: "text/plain", write: toText },
  srt: { type: "application/x-subrip", write: toSrt },
  vtt: { type: "text/vtt", write: toVtt },
};
const quietest = -60; // decibels of full scale
const at = (id) => document.getElementById(id);

const transcript = new Transcript();
const view = new CaptionView({
  list: at("segments"), scroller: at("transcript"), empty: at("empty"),
  slab: at("slab"), slabText: at("slab-text"), slabKind: at("slab-kind"),
});
let settings = loadSettings(localStorage);
let apiKey = loadKey(sessionStorage);
let recording = null; // { isFile, stop(), abort(), release() } while there is one
let isOpening = false; // a microphone or a file is, for the next one
const keyForm = new KeyForm(at("key-form"), (key) => {
  apiKey = key;
  greet();
});

function tell(text, tone = "") {
  const state = at("state");
  if (state.textContent !== text) state.textContent = text;
  state.dataset.tone = tone;
}

/** Asks who is there; false when it lets nobody in without another key. */
async function greet() {
  try {
    const { model, needsKey } = await describeServer(apiKey);
    if (needsKey) {
      tell("This server asks for a key", "bad");
      keyForm.ask();
      return false;
    }
    at("server-facts").textContent = `Model ${model}. Decoder and beam are the server's to choose.`;
    if (!recording) tell(`Ready, ${model}`);
  } catch {
    if (!recording) tell("The server cannot be reached", "bad");
  }
  return true;
}

function showControls() {
  const isOpen = recording !== null;
  at("talk").setAttribute("aria-pressed", isOpen);
  at("talk-label").textContent = isOpen ? "Stop" : "Speak";
  at("open").disabled = isOpen;
  const isEmpty = transcript.segments.length === 0;
  document.querySelectorAll("[data-save]").forEach((button) => { button.disabled = isEmpty; });
  at("clear").disabled = isEmpty;
}

function showLevel(decibels) {
  const shown = Math.round(Math.max(quietest, decibels));
  at("level").ariaValueNow = shown;
  at("level").style.setProperty("--share", 1 - shown / quietest);
}

function onEvent(event, delay) {
  if (event.type === "ready") {
    at("server-facts").textContent =
      `Model ${event.model}, a result for each ${event.chunk_ms} ms. Decoder and beam are the server's to choose.`;
  }
  const segment = transcript.apply(event);
  if (segment) view.addSegment(segment);
  if (event.type === "partial" && event.text) view.show("partial", event.text);
  if (event.type === "final" && event.text) view.show("final", event.text);
  if (delay !== null) at("latency").textContent = `${Math.round(delay)} ms`;
  if (segment) showControls();
}

const states = {
  connecting: () => tell("Connecting"),
  live: () => tell(recording.isFile ? "Listening to the recording" : "Listening", "live"),
  finishing: () => tell("Finishing"),
  waiting: ({ seconds, reason }) =>
    tell(`Connection lost${reason ? ` (${reason})` : ""}: trying again in ${seconds.toFixed(1)} s`, "bad"),
  done: () => endRecording("Done"),
  stopped: () => endRecording("Stopped"),
  failed: ({ reason }) => endRecording(reason, "bad"),
  locked: () => {
    endRecording("This server asks for a key", "bad");
    keyForm.ask();
  },
};

function endRecording(text, tone) {
  recording?.release();
  recording = null;
  showLevel(quietest);
  if (transcript.segments.length === 0) view.clear();
  showControls();
  tell(text, tone);
}

function makeStream(rate) {
  transcript.beginRecording();
  return new CaptionStream({
    rate,
    connect: () => openSocket(streamQuery(settings, rate), apiKey),
    admitted: async () => {
      try {
        return !(await describeServer(apiKey)).needsKey;
      } catch {
        return true;
      }
    },
    onState: (state, detail) => states[state](detail),
    onEvent,
  });
}

/** What `open` gives; null when it fails, which `explain` puts in words. */
async function opened(open, explain) {
  isOpening = true;
  try {
    return await open();
  } catch (error) {
    tell(explain(error), "bad");
    return null;
  } finally {
    isOpening = false;
  }
}

async function startMicrophone() {
  tell("Opening the microphone");
  const microphone = await opened(openMicrophone, explainMicrophone);
  if (!microphone) return;
  const stream = makeStream(microphone.rate);
  const release = once(() => microphone.stop());
  recording = {
    isFile: false,
    release,
    async stop() {
      await release();
      stream.finish();
    },
    abort: () => stream.stop(),
  };
  view.begin("Speak now");
  showControls();
  stream.start();
  const onBlock = (pcm) => {
    showLevel(levelDb(pcm));
    stream.push(pcm);
  };
  await microphone.start(onBlock, () => recording?.stop());
}

async function startFile(file) {
  if (recording || isOpening || !mayDiscard(`Replace the transcript by that of ${file.name}?`)) return;
  clear();
  tell(`Reading ${file.name}`);
  const pcm = await opened(() => decodeFile(file), () => `${file.name} is nothing that this browser can play`);
  if (!pcm) return;
  const stream = makeStream(fileRate);
  let stopped = false;
  recording = {
    isFile: true,
    release: () => {},
    stop: () => { stopped = true; },
    abort: () => stream.stop(),
  };
  view.begin(file.name);
  showControls();
  stream.start();
  await sendFile(stream, pcm, {
    spoken: settings.pace === "spoken",
    stopped: () => stopped,
    onBlock: (block) => showLevel(levelDb(block)),
  });
  stream.finish();
}

/** Speak, stop, and when it will not stop, give up. */
function talk() {
  if (!recording) {
    if (!isOpening) startMicrophone();
  } else if (!recording.stopping) {
    recording.stopping = true;
    recording.stop();
  } else {
    recording.abort();
  }
}

function once(action) {
  let result = null;
  return () => (result ??= action());
}

function mayDiscard(question) {
  return transcript.saved || confirm(question);
}

function clear() {
  transcript.clear();
  view.clear();
  at("latency").textContent = "–";
  showControls();
}

function save(format) {
  const { type, write } = formats[format];
  saveFile(`transcript.${format}`, type, write(transcript.segments));
  transcript.saved = true;
}

at("talk").addEventListener("click", talk);
at("open").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", ({ target }) => {
  if (target.files[0]) startFile(target.files[0]);
  target.value = "";
});
at("clear").addEventListener("click", () => {
  if (mayDiscard("Throw the transcript away?")) clear();
});
document.querySelectorAll("[data-save]").forEach((button) =>
  button.addEventListener("click", () => save(button.dataset.save)));
at("settings-open").addEventListener("click", () => at("settings").showModal());
bindSettings(at("settings").querySelector("form"), settings, (changed) => {
  settings = changed;
  saveSettings(localStorage, settings);
});
addEventListener("keydown", (event) => {
  const isTaken = event.target.closest("button, a, input, select, dialog");
  if (event.code !== "Space" || event.repeat || isTaken) return;
  event.preventDefault();
  talk();
});
addEventListener("beforeunload", (event) => {
  if (!transcript.saved) event.preventDefault();
});
acceptDrops(at("drop"), startFile);
giveWordTips(at("segments"), at("tip"));
showControls();
greet();
