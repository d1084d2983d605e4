import { locateWords } from "./words.mjs";

const lineLength = 42;
const cueLength = 2 * lineLength;
const longestCue = 6; // seconds
const shortestCue = 1; // unless the next one begins

/** Lines of at most lineLength where the words allow. */
function wrap(text) {
  const lines = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= lineLength) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.join("\n");
}

function cuesOfSegment(segment) {
  const words = locateWords(segment.text, segment.words);
  if (words.length === 0) return [{ start: segment.start, end: segment.end, text: segment.text }];
  const cues = [];
  let first = words[0];
  words.forEach((word, i) => {
    const next = words[i + 1];
    if (next && next.to - first.from <= cueLength && next.end - first.start <= longestCue) return;
    const from = first === words[0] ? 0 : first.from;
    const to = next ? next.from : segment.text.length;
    cues.push({ start: first.start, end: word.end, text: segment.text.slice(from, to).trim() });
    first = next;
  });
  return cues;
}

/** `[{ start, end, text }]` in seconds, short enough to be read at once. */
export function toCues(segments) {
  const cues = segments.flatMap(cuesOfSegment);
  return cues.map((cue, i) => {
    const latest = cues[i + 1]?.start ?? Infinity;
    const end = Math.max(cue.end, Math.min(latest, cue.start + shortestCue));
    return { start: cue.start, end, text: wrap(cue.text) };
  });
}

/** HH:MM:SS and milliseconds. */
function timestamp(seconds, point) {
  const ms = Math.round(seconds * 1000);
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const clock = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map(two).join(":");
  return clock + point + String(ms % 1000).padStart(3, "0");
}

export function toText(segments) {
  return segments.map(({ text }) => `${text}\n`).join("");
}

export function toSrt(segments) {
  return toCues(segments)
    .map(({ start, end, text }, i) => `${i + 1}\n${timestamp(start, ",")} --> ${timestamp(end, ",")}\n${text}\n`)
    .join("\n");
}

export function toVtt(segments) {
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const cues = toCues(segments).map(
    ({ start, end, text }) => `\n${timestamp(start, ".")} --> ${timestamp(end, ".")}\n${escaped(text)}\n`);
  return `WEBVTT\n${cues.join("")}`;
}
