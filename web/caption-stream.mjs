import { Backlog } from "./backlog.mjs";
import { retryDelay } from "./backoff.mjs";
import { SendClock } from "./send-clock.mjs";

const backlogSeconds = 60;
const maxBufferedBytes = 64 << 10;
const flushAgainMs = 20;
const refusals = [1008, 1009]; // close codes that the next attempt would get too: docs/protocol.md

/**
 * One recording on its way to the server, over as many connections as it takes. When one breaks, the next gets all audio
 * since the last final once more; times always count from the begin of the recording.
 *
 * `connect()` opens a WebSocket of the native protocol; `admitted()` tells, when one could not be opened, whether that was
 * for want of a key. Tells `onState(state, detail)`:
 *
 *     connecting           live                      waiting {seconds, reason}      finishing
 *     done                 failed {reason}           locked (a key is needed)       stopped
 *
 * where those of the last line are the last, and `onEvent(event, delay)` for each `ready`, `partial`, `final` and `done` of
 * the server. A partial with new words has the milliseconds since their audio was sent; otherwise `delay` is null.
 */
export class CaptionStream {
  #socket = null;
  #state = "";
  #timer = 0;
  #attempt = 0;
  #live = false; // the connection has said `ready`
  #origin = 0; // the sample of the recording at which the connection's time is 0
  #cursor = 0; // the next sample to send
  #ended = false;
  #eofSent = false;
  #fault = "";
  #clock = new SendClock();
  #captioned = 0; // seconds that a partial has covered

  constructor({ rate, connect, admitted, onState, onEvent, now = () => performance.now() }) {
    Object.assign(this, { rate, connect, admitted, onState, onEvent, now });
    this.backlog = new Backlog(backlogSeconds * rate);
  }

  get over() {
    return ["done", "failed", "locked", "stopped"].includes(this.#state);
  }

  /** Seconds of audio that wait to be sent. */
  get unsent() {
    return (this.backlog.end - this.#cursor) / this.rate;
  }

  start() {
    this.#tell("connecting");
    this.#live = false;
    this.#eofSent = false;
    this.#fault = "";
    this.#origin = this.#cursor = this.backlog.begin;
    this.#clock = new SendClock();
    this.#socket = this.connect();
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.#socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  push(pcm) {
    if (this.over || this.#ended) return;
    this.backlog.append(pcm);
    this.#flush();
  }

  /** No more audio comes: `done` follows when everything has its caption. */
  finish() {
    if (this.over || this.#ended) return;
    this.#ended = true;
    if (this.#live) this.#tell("finishing");
    this.#flush();
  }

  stop() {
    if (!this.over) this.#end("stopped");
  }

  #tell(state, detail = {}) {
    this.#state = state;
    this.onState(state, detail);
  }

  #end(state, detail) {
    clearTimeout(this.#timer);
    this.#live = false;
    if (this.#socket) {
      this.#socket.onmessage = this.#socket.onclose = null;
      this.#socket.close();
    }
    this.#tell(state, detail);
  }

  #flush() {
    if (!this.#live) return; // the timer is then that of the next attempt
    clearTimeout(this.#timer);
    if (this.#cursor < this.backlog.begin) {
      // The backlog overflowed: the connection never hears that part, and its time goes on without it.
      this.#origin += this.backlog.begin - this.#cursor;
      this.#cursor = this.backlog.begin;
    }
    while (this.#cursor < this.backlog.end) {
      if (this.#socket.bufferedAmount > maxBufferedBytes) {
        this.#timer = setTimeout(() => this.#flush(), flushAgainMs);
        return;
      }
      const block = this.backlog.blockAt(this.#cursor);
      this.#socket.send(block);
      this.#cursor += block.length;
      this.#clock.note(this.#cursor / this.rate, this.now());
    }
    if (this.#ended && !this.#eofSent) {
      this.#eofSent = true;
      this.#socket.send('{"type":"eof"}');
    }
  }

  #receive(event) {
    if (event.type === "error") {
      this.#fault = event.message;
      return;
    }
    if (event.type === "ready") {
      this.#live = true;
      this.#attempt = 0;
      this.#tell(this.#ended ? "finishing" : "live");
      this.#flush();
    }
    const moved = this.#inRecording(event);
    if (event.type === "final") this.backlog.forget(Math.floor(moved.end * this.rate));
    this.onEvent(moved, this.#delayOf(moved));
    if (event.type === "done") this.#end("done");
  }

  #delayOf(event) {
    if (event.type !== "partial" || event.end <= this.#captioned) return null;
    this.#captioned = event.end;
    return this.#clock.delay(event.end, this.now());
  }

  /** The event with times of the recording instead of the connection. */
  #inRecording(event) {
    const offset = this.#origin / this.rate;
    const moved = { ...event };
    for (const name of ["start", "end", "audio_seconds"]) {
      if (name in moved) moved[name] += offset;
    }
    if (moved.words) {
      moved.words = moved.words.map((word) => ({ ...word, start: word.start + offset, end: word.end + offset }));
    }
    return moved;
  }

  async #closed(code, reason) {
    const opened = this.#live || this.#fault;
    this.#live = false;
    const why = this.#fault || reason;
    if (refusals.includes(code)) return this.#end("failed", { reason: why || "the server closed the stream" });
    if (!opened && !(await this.admitted())) return this.over ? undefined : this.#end("locked");
    if (this.over) return undefined;
    const delay = retryDelay(this.#attempt++);
    this.#tell("waiting", { seconds: delay / 1000, reason: why });
    this.#timer = setTimeout(() => this.start(), delay);
    return undefined;
  }
}
