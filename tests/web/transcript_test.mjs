import assert from "node:assert/strict";
import { test } from "node:test";
import { loadKey, loadSettings, saveKey, saveSettings, streamQuery } from "../../web/settings.mjs";
import { Transcript } from "../../web/transcript.mjs";
import { doubt, locateWords, sureness } from "../../web/words.mjs";

const final = (text, start, end) => (
  { type: "final", text, start, end, confidence: 0.9, words: [{ word: text, start, end, confidence: 0.9 }] });

test("partials replace each other and a final closes them", () => {
  const transcript = new Transcript();
  transcript.beginRecording();
  transcript.apply({ type: "partial", text: "HEL", start: 0, end: 1 });
  transcript.apply({ type: "partial", text: "HELLO", start: 0, end: 2 });
  assert.equal(transcript.partial, "HELLO");
  assert.equal(transcript.segments.length, 0);
  assert.equal(transcript.apply(final("HELLO", 0, 2)), transcript.segments[0]);
  assert.equal(transcript.partial, "");
});

test("an empty final is no segment", () => {
  const transcript = new Transcript();
  assert.equal(transcript.apply({ type: "final", text: "", start: 0, end: 0 }), null);
  assert.ok(transcript.saved);
});

test("the next recording goes on where the last one ended", () => {
  const transcript = new Transcript();
  transcript.beginRecording();
  transcript.apply(final("ONE", 0.5, 1));
  transcript.apply({ type: "done", audio_seconds: 4 });
  transcript.beginRecording();
  const { start, end, words } = transcript.apply(final("TWO", 0.5, 1));
  assert.deepEqual([start, end, words[0].start, words[0].end], [4.5, 5, 4.5, 5]);
});

test("a cleared transcript begins at zero, and has nothing to save", () => {
  const transcript = new Transcript();
  transcript.apply(final("ONE", 0.5, 1));
  assert.equal(transcript.saved, false);
  transcript.clear();
  transcript.beginRecording();
  assert.equal(transcript.apply(final("TWO", 0.25, 1)).start, 0.25);
});

test("words are found in their text in order, repeated ones too", () => {
  const words = ["THE", "CAT", "THE"].map((word) => ({ word }));
  assert.deepEqual(locateWords("THE CAT, THE", words).map(({ from, to }) => [from, to]), [[0, 3], [4, 7], [9, 12]]);
  assert.deepEqual(locateWords("THE DOG", words), []);
});

test("doubt begins below 80 %", () => {
  assert.deepEqual([1, 0.8, 0.79, 0.5, 0.49, 0, undefined].map(doubt), ["", "", "less", "less", "little", "little", ""]);
  assert.equal(sureness(0.876), "88 % sure");
});

/** As the browser's. */
function memory() {
  const entries = new Map();
  return { getItem: (name) => entries.get(name) ?? null, setItem: (name, value) => entries.set(name, value), entries };
}

test("settings come back, and what cannot be read is the default", () => {
  const storage = memory();
  assert.equal(loadSettings(storage).interim, true);
  saveSettings(storage, { ...loadSettings(storage), endpointing: "500" });
  assert.equal(loadSettings(storage).endpointing, "500");
  storage.setItem("tutti.settings", "{");
  assert.equal(loadSettings(storage).endpointing, "");
});

test("the key is apart from the settings", () => {
  const storage = memory();
  assert.equal(loadKey(storage), "");
  saveKey(storage, "secret");
  assert.equal(loadKey(storage), "secret");
});

test("a query has what was chosen and leaves the rest to the server", () => {
  const settings = { ...loadSettings(memory()), words: false, endpointing: "0" };
  assert.equal(streamQuery(settings, 48000),
    "encoding=pcm_s16le&sample_rate=48000&interim=true&words=false&endpointing=0");
});
