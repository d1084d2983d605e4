import { doubt, locateWords, sureness } from "./words.mjs";

const atBottomPixels = 80;

/** M:SS, as in "1:05". */
function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

const isCapitals = (text) => text === text.toUpperCase() && text !== text.toLowerCase();

function wordElement({ word, start, end, confidence }) {
  const span = element("span", "word", word);
  span.tabIndex = -1;
  span.dataset.tip = `${start.toFixed(2)} to ${end.toFixed(2)} s, ${sureness(confidence)}`;
  const doubts = doubt(confidence);
  if (doubts) span.dataset.sure = doubts;
  return span;
}

function textElement(segment) {
  const paragraph = element("p", "segment-text", "");
  const words = locateWords(segment.text, segment.words);
  let at = 0;
  for (const word of words) {
    paragraph.append(segment.text.slice(at, word.from), wordElement(word));
    at = word.to;
  }
  paragraph.append(segment.text.slice(at));
  paragraph.classList.toggle("capitals", isCapitals(segment.text));
  return paragraph;
}

function noteText({ confidence, words }) {
  const doubtful = words.filter((word) => doubt(word.confidence) !== "").length;
  const count = doubtful === 0 ? "" : `, ${doubtful} of ${words.length} words doubtful`;
  return confidence === undefined ? "" : sureness(confidence) + count;
}

/** The finals as a list, and the newest words on the slab. */
export class CaptionView {
  constructor({ list, scroller, empty, slab, slabText, slabKind }) {
    Object.assign(this, { list, scroller, empty, slab, slabText, slabKind });
  }

  addSegment(segment) {
    const wasAtBottom =
      this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < atBottomPixels;
    const item = element("li", "segment", "");
    const time = element("time", "segment-time", clock(segment.start));
    const note = element("p", "segment-note", noteText(segment));
    // A screen reader says the words when they come; time and confidence when asked.
    time.ariaLive = note.ariaLive = "off";
    item.append(time, textElement(segment));
    if (note.textContent) item.append(note);
    this.list.append(item);
    this.empty.hidden = true;
    if (wasAtBottom) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** `kind` is "partial", "final" or "empty". */
  show(kind, text) {
    this.slab.dataset.kind = kind;
    const line = element("span", kind === "partial" ? "dots" : "", text);
    line.classList.toggle("capitals", isCapitals(text));
    this.slabText.replaceChildren(...(text ? [line] : []));
    this.slabKind.textContent = { partial: "may still change", final: "final", empty: "Captions appear here" }[kind];
  }

  /** A recording begins. */
  begin(hint) {
    this.empty.hidden = true;
    this.show("empty", "");
    this.slabKind.textContent = hint;
  }

  clear() {
    this.list.replaceChildren();
    this.empty.hidden = false;
    this.show("empty", "");
  }
}
