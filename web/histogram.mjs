/** What a histogram, as prometheus.mjs reads it, says of the time between two readings. */

/** What was observed between them; null when the server was started anew, or has other buckets. */
export function between(before, after) {
  if (after.count < before.count || before.bounds.length !== after.bounds.length) return null;
  return {
    bounds: after.bounds,
    counts: after.counts.map((count, i) => count - before.counts[i]),
    sum: after.sum - before.sum,
    count: after.count - before.count,
  };
}

/** The mean of what was observed; null when nothing was. */
export function mean({ sum, count }) {
  return count > 0 ? sum / count : null;
}

/**
 * The quantile q in [0, 1], as Prometheus' histogram_quantile estimates it: linear within a bucket that begins at 0 or the bound
 * before, and the highest finite bound for what lies beyond it. Null when nothing was observed.
 */
export function quantile({ bounds, counts, count }, q) {
  if (!(count > 0)) return null;
  const rank = q * count;
  const at = counts.findIndex((cumulative) => cumulative >= rank);
  const low = at > 0 ? bounds[at - 1] : 0;
  if (at < 0 || bounds[at] === Infinity) return bounds.filter(Number.isFinite).at(-1) ?? null;
  const below = at > 0 ? counts[at - 1] : 0;
  const inside = counts[at] - below;
  return inside > 0 ? low + (bounds[at] - low) * ((rank - below) / inside) : low;
}
