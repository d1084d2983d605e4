/** What was understood: finals of any number of recordings, one after the other, and the partial that is open. */
export class Transcript {
  segments = [];
  partial = "";
  saved = true; // nothing would be lost with it
  #begin = 0; // of the recording, in the time of the transcript
  #heard = 0;

  /** The next events are those of another recording; its time goes on where the last one's ended. */
  beginRecording() {
    this.#begin = this.#heard;
    this.partial = "";
  }

  /** Takes an event of a CaptionStream; returns the segment that it added, else null. */
  apply(event) {
    this.#heard = Math.max(this.#heard, this.#begin + (event.end ?? event.audio_seconds ?? 0));
    if (event.type === "partial") this.partial = event.text;
    if (event.type !== "final") return null;
    this.partial = "";
    if (!event.text) return null;
    const segment = {
      text: event.text,
      start: event.start + this.#begin,
      end: event.end + this.#begin,
      confidence: event.confidence,
      words: (event.words ?? []).map((word) => ({
        ...word, start: word.start + this.#begin, end: word.end + this.#begin,
      })),
    };
    this.segments.push(segment);
    this.saved = false;
    return segment;
  }

  clear() {
    this.segments = [];
    this.partial = "";
    this.saved = true;
    this.#begin = this.#heard = 0;
  }
}
