/** Hands the microphone's samples to the page in blocks of a tenth of a second; "flush" asks for what is left. */
class Recorder extends AudioWorkletProcessor {
  #block = new Float32Array(Math.round(sampleRate / 10));
  #filled = 0;

  constructor() {
    super();
    this.port.onmessage = () => {
      this.#send();
      this.port.postMessage("flushed");
    };
  }

  #send() {
    if (this.#filled > 0) this.port.postMessage(this.#block.slice(0, this.#filled));
    this.#filled = 0;
  }

  process([channels]) {
    if (channels.length === 0) return true;
    for (let i = 0; i < channels[0].length; ++i) {
      this.#block[this.#filled++] = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
      if (this.#filled === this.#block.length) this.#send();
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
