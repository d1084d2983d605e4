import assert from "node:assert/strict";
import { test } from "node:test";
import { toCues, toSrt, toText, toVtt } from "../../web/subtitles.mjs";

/** A segment whose words take half a second each. */
function segment(text, start = 0) {
  const words = text.split(" ").map((word, i) => ({ word, start: start + i / 2, end: start + i / 2 + 0.4, confidence: 1 }));
  return { text, start, end: words.at(-1).end, confidence: 1, words };
}

test("a short segment is one cue", () => {
  assert.equal(toSrt([segment("HELLO WIDE WORLD", 1.28)]), "1\n00:00:01,280 --> 00:00:02,680\nHELLO WIDE WORLD\n");
});

test("cues are numbered and apart", () => {
  assert.equal(
    toSrt([segment("ONE TWO THREE"), segment("FOUR FIVE SIX", 3661.5)]),
    "1\n00:00:00,000 --> 00:00:01,400\nONE TWO THREE\n\n2\n01:01:01,500 --> 01:01:02,900\nFOUR FIVE SIX\n");
});

test("WebVTT has its header, points for commas, and no markup", () => {
  assert.equal(
    toVtt([segment("A <b> & C", 0.0004)]),
    "WEBVTT\n\n00:00:00.000 --> 00:00:01.900\nA &lt;b&gt; &amp; C\n");
  assert.equal(toVtt([]), "WEBVTT\n");
});

test("rounding carries into seconds and minutes", () => {
  const rounded = { text: "X", start: 59.9996, end: 61.9996, words: [] };
  assert.match(toSrt([rounded]), /00:01:00,000 --> 00:01:02,000/);
});

test("a long segment becomes cues of at most two lines and six seconds, and no word is lost", () => {
  const text = Array.from({ length: 60 }, (_, i) => `WORD${i}`).join(" ");
  const cues = toCues([segment(text, 10)]);
  assert.ok(cues.length > 4);
  for (const { start, end, text: lines } of cues) {
    assert.ok(end - start <= 6 + 1e-9, `${start} to ${end}`);
    assert.ok(lines.split("\n").length <= 2, lines);
    for (const line of lines.split("\n")) assert.ok(line.length <= 42, line);
  }
  assert.equal(cues.map((cue) => cue.text.replaceAll("\n", " ")).join(" "), text);
  cues.slice(1).forEach((cue, i) => assert.ok(cue.start >= cues[i].end, "cues overlap"));
});

test("a word that is longer than a line has a line of its own", () => {
  const word = "A".repeat(60);
  assert.equal(toCues([segment(`X ${word} Y`)])[0].text, `X\n${word}\nY`);
});

test("a cue stays for a second, but not into the next one", () => {
  const short = (start) => ({ text: "X", start, end: start + 0.1, words: [] });
  assert.deepEqual(toCues([short(0), short(0.5), short(5)]).map(({ start, end }) => [start, end]),
    [[0, 0.5], [0.5, 1.5], [5, 6]]);
});

test("words without spaces between them keep their text", () => {
  const words = ["你", "好"].map((word, i) => ({ word, start: i, end: i + 0.5, confidence: 1 }));
  assert.equal(toCues([{ text: "你好", start: 0, end: 1.5, words }])[0].text, "你好");
});

test("words that are not those of the text leave it whole", () => {
  const odd = { ...segment("HELLO WORLD"), text: "HELLO, WORLD!" };
  odd.words[1].word = "WORLDS";
  assert.equal(toCues([odd])[0].text, "HELLO, WORLD!");
});

test("text is a line for each segment", () => {
  assert.equal(toText([segment("ONE TWO"), segment("THREE", 9)]), "ONE TWO\nTHREE\n");
});
