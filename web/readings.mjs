/** Readings of /metrics, one a second, and what series were at each; the oldest goes. */
export class Readings {
  #recent = []; // { time, metrics }, to compare with
  #rows = []; // { time, values }

  constructor({ series, windowSeconds, spanSeconds }) {
    Object.assign(this, { series, windowSeconds, spanSeconds });
  }

  /** `time` is in seconds; `metrics` null when there was no answer: a gap. */
  add(time, metrics) {
    if (metrics === null) this.#recent = [];
    else this.#recent.push({ time, metrics });
    while (this.#recent.length > 2 && this.#recent[1].time <= time - this.spanSeconds) this.#recent.shift();
    const [then] = this.#recent;
    const seconds = then ? time - then.time : 0;
    const values = this.series.map(({ value }) => (seconds > 0 ? value(metrics, then.metrics, seconds) : null));
    this.#rows.push({ time, values });
    while (this.#rows[0].time < time - this.windowSeconds) this.#rows.shift();
  }

  /** `[{ age, value }]` of one series, with the age in seconds before the newest reading. */
  points(index) {
    const newest = this.#rows.at(-1).time;
    return this.#rows.map(({ time, values }) => ({ age: newest - time, value: values[index] }));
  }

  latest(index) {
    return this.#rows.at(-1).values[index];
  }
}
