/** Prometheus text format, version 0.0.4. */

const sampleLine = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+([-+]?[\d.]\S*|[-+]?Inf|NaN)(?:\s|$)/;
const labelPair = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const escapes = { "\\n": "\n", "\\\\": "\\", '\\"': '"' };

function number(text) {
  return { "+Inf": Infinity, "-Inf": -Infinity, NaN: NaN }[text] ?? Number(text);
}

/** A Map from each name to its samples, `[{ labels, value }]`. Comments and timestamps are left out. */
export function parseMetrics(text) {
  const metrics = new Map();
  for (const line of text.split("\n")) {
    const found = sampleLine.exec(line);
    if (!found) continue;
    const [, name, pairs = "", value] = found;
    const labels = {};
    for (const [, key, quoted] of pairs.matchAll(labelPair)) {
      labels[key] = quoted.replace(/\\[n\\"]/g, (escape) => escapes[escape]);
    }
    if (!metrics.has(name)) metrics.set(name, []);
    metrics.get(name).push({ labels, value: number(value) });
  }
  return metrics;
}

/** The sum over all labels; 0 for what is not there (a counter with labels that has not happened yet). */
export function total(metrics, name) {
  return (metrics.get(name) ?? []).reduce((sum, { value }) => sum + value, 0);
}

/** `{ bounds, counts, sum, count }` of a histogram without labels of its own; counts are cumulative, as they come. */
export function histogram(metrics, name) {
  const buckets = (metrics.get(`${name}_bucket`) ?? [])
    .map(({ labels, value }) => ({ bound: number(labels.le), value }))
    .sort((a, b) => a.bound - b.bound);
  return {
    bounds: buckets.map(({ bound }) => bound),
    counts: buckets.map(({ value }) => value),
    sum: total(metrics, `${name}_sum`),
    count: total(metrics, `${name}_count`),
  };
}
