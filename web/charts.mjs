import { between, mean, quantile } from "./histogram.mjs";
import { histogram, total } from "./prometheus.mjs";

/**
 * The charts of the monitor. A series' `value(now, then, seconds)` is of two readings of /metrics so far apart; null is a gap.
 */

const count = (name) => (now) => total(now, name);

/** Null where a counter fell: the server was started anew. */
function rate(name) {
  return (now, then, seconds) => {
    const difference = total(now, name) - total(then, name);
    return difference < 0 ? null : difference / seconds;
  };
}

function ofHistogram(name, statistic, scale = 1) {
  return (now, then) => {
    const observed = between(histogram(then, name), histogram(now, name));
    const value = observed && statistic(observed);
    return value === null ? null : value * scale;
  };
}

function percentiles(name) {
  return [50, 95, 99].map((percent) => ({
    label: `p${percent}`, value: ofHistogram(name, (observed) => quantile(observed, percent / 100), 1000),
  }));
}

export const charts = [
  {
    title: "Live", unit: "", digits: 0, least: 4,
    series: [
      { label: "streams", value: count("tutti_open_streams") },
      { label: "sessions", value: count("tutti_open_sessions") },
      { label: "uploads", value: count("tutti_open_uploads") },
    ],
  },
  {
    title: "Delay of results", unit: "ms", digits: 1, least: 10,
    series: percentiles("tutti_result_latency_seconds"),
  },
  {
    title: "Tick time", unit: "ms", digits: 1, least: 10,
    series: percentiles("tutti_tick_seconds"),
  },
  {
    title: "Batch size", unit: "lanes", digits: 1, least: 4,
    series: [
      { label: "mean", value: ofHistogram("tutti_batch_size", mean) },
      { label: "p99", value: ofHistogram("tutti_batch_size", (observed) => quantile(observed, 0.99)) },
    ],
  },
  {
    title: "Audio recognized", unit: "s each second", digits: 1, least: 4,
    series: [{ label: "audio", value: rate("tutti_audio_seconds_total") }],
  },
  {
    title: "Ticks", unit: "each second", digits: 1, least: 4,
    series: [{ label: "ticks", value: rate("tutti_ticks_total") }],
  },
];

/** What is shown as plain figures. */
export const totals = [
  { label: "Sessions", name: "tutti_sessions_total" },
  { label: "Files", name: "tutti_uploads_total" },
  { label: "Minutes of audio", name: "tutti_audio_seconds_total", scale: 1 / 60 },
  { label: "Refused", name: "tutti_refusals_total" },
  { label: "Failed", name: "tutti_failed_sessions_total" },
  { label: "Slow readers", name: "tutti_net_slow_readers_total" },
];
