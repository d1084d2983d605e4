/**
 * Audio that may have to be sent again: everything since the last final. Samples are counted from the first one of the
 * recording. Beyond the capacity the oldest goes.
 */
export class Backlog {
  #blocks = [];

  constructor(capacity) {
    this.capacity = capacity;
    this.begin = 0;
    this.end = 0;
  }

  append(pcm) {
    this.#blocks.push(pcm);
    this.end += pcm.length;
    if (this.end - this.begin > this.capacity) this.forget(this.end - this.capacity);
  }

  /** Lets go of what lies before a sample. */
  forget(sample) {
    const target = Math.min(sample, this.end);
    while (this.begin < target) {
      const first = this.#blocks[0];
      const gone = Math.min(first.length, target - this.begin);
      if (gone === first.length) this.#blocks.shift();
      else this.#blocks[0] = first.subarray(gone);
      this.begin += gone;
    }
  }

  /** The rest of the block that holds a sample of [begin, end). */
  blockAt(sample) {
    let at = this.begin;
    for (const block of this.#blocks) {
      if (sample < at + block.length) return block.subarray(sample - at);
      at += block.length;
    }
    throw new RangeError(`sample ${sample} is not in [${this.begin}, ${this.end})`);
  }
}
