/** When which audio was sent, to tell how long its caption took. */
export class SendClock {
  #sent = [];

  /** Everything up to `seconds` of the recording was on its way at `now`, in milliseconds. */
  note(seconds, now) {
    this.#sent.push({ seconds, now });
    if (this.#sent.length > 1000) this.#sent.shift();
  }

  /** Milliseconds since the audio at `seconds` was sent; null when that is not known any more. */
  delay(seconds, now) {
    const sent = this.#sent.find((entry) => entry.seconds >= seconds);
    return sent ? now - sent.now : null;
  }
}
