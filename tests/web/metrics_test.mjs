import assert from "node:assert/strict";
import { test } from "node:test";
import { charts } from "../../web/charts.mjs";
import { between, mean, quantile } from "../../web/histogram.mjs";
import { niceCeiling, pathOf } from "../../web/plot.mjs";
import { histogram, parseMetrics, total } from "../../web/prometheus.mjs";
import { Readings } from "../../web/readings.mjs";

const scrape = `# HELP tutti_open_sessions Sessions
# TYPE tutti_open_sessions gauge
tutti_open_sessions{dialect="native"} 2
tutti_open_sessions{dialect="vosk",note="a \\"b\\", \\\\n\\n} c"} 3 1700000000000
tutti_tick_seconds_count 4
tutti_tick_seconds_sum 0.5
tutti_tick_seconds_bucket{le="0.1"} 1
tutti_tick_seconds_bucket{le="+Inf"} 4
tutti_tick_seconds_bucket{le="0.2"} 3
tutti_odd 1.5e-3
tutti_inf +Inf
not a sample
`;

test("samples are read with labels, escapes, timestamps and exponents", () => {
  const metrics = parseMetrics(scrape);
  assert.deepEqual(metrics.get("tutti_open_sessions"), [
    { labels: { dialect: "native" }, value: 2 },
    { labels: { dialect: "vosk", note: 'a "b", \\n\n} c' }, value: 3 },
  ]);
  assert.equal(total(metrics, "tutti_open_sessions"), 5);
  assert.equal(total(metrics, "tutti_odd"), 0.0015);
  assert.equal(total(metrics, "tutti_inf"), Infinity);
  assert.equal(total(metrics, "tutti_missing"), 0);
  assert.equal(metrics.has("not"), false);
});

test("buckets are in order, whatever theirs was", () => {
  assert.deepEqual(histogram(parseMetrics(scrape), "tutti_tick_seconds"),
    { bounds: [0.1, 0.2, Infinity], counts: [1, 3, 4], sum: 0.5, count: 4 });
});

test("a quantile is linear within its bucket", () => {
  const observed = { bounds: [1, 2, 4, Infinity], counts: [0, 10, 20, 20], sum: 45, count: 20 };
  assert.equal(quantile(observed, 0.25), 1.5);
  assert.equal(quantile(observed, 0.5), 2);
  assert.equal(quantile(observed, 0.75), 3);
  assert.equal(quantile(observed, 1), 4);
  assert.equal(mean(observed), 2.25);
});

test("a quantile below all is above zero, and beyond the last bound is that bound", () => {
  assert.equal(quantile({ bounds: [2, Infinity], counts: [4, 4], count: 4 }, 0.5), 1);
  assert.equal(quantile({ bounds: [2, Infinity], counts: [0, 4], count: 4 }, 0.5), 2);
});

test("nothing observed has no quantile and no mean", () => {
  const nothing = { bounds: [1, Infinity], counts: [0, 0], sum: 0, count: 0 };
  assert.equal(quantile(nothing, 0.5), null);
  assert.equal(mean(nothing), null);
});

test("the time between two readings is their difference, and a restart has none", () => {
  const before = { bounds: [1, Infinity], counts: [1, 2], sum: 3, count: 2 };
  const after = { bounds: [1, Infinity], counts: [2, 5], sum: 9, count: 5 };
  assert.deepEqual(between(before, after), { bounds: [1, Infinity], counts: [1, 3], sum: 6, count: 3 });
  assert.equal(between(after, before), null);
});

const reading = (value) => parseMetrics(`tutti_ticks_total ${value}\n`);
const ticks = charts.find(({ title }) => title === "Ticks").series[0];

test("a rate is per second, over the span before", () => {
  const readings = new Readings({ series: [ticks], windowSeconds: 60, spanSeconds: 5 });
  for (let time = 0; time <= 20; ++time) readings.add(time, reading(10 * time));
  assert.equal(readings.latest(0), 10);
  readings.add(21, reading(200 + 60));
  assert.equal(readings.latest(0), (260 - 160) / 5);
});

test("a restart and a lost answer are gaps", () => {
  const readings = new Readings({ series: [ticks], windowSeconds: 60, spanSeconds: 5 });
  readings.add(0, reading(100));
  readings.add(1, reading(110));
  readings.add(2, reading(0));
  assert.equal(readings.latest(0), null);
  readings.add(3, null);
  assert.equal(readings.latest(0), null);
  readings.add(4, reading(0));
  readings.add(5, reading(7));
  assert.deepEqual(readings.points(0).map(({ value }) => value), [null, 10, null, null, null, 7]);
});

test("only the window is kept", () => {
  const readings = new Readings({ series: [ticks], windowSeconds: 10, spanSeconds: 2 });
  for (let time = 0; time < 100; ++time) readings.add(time, reading(time));
  const points = readings.points(0);
  assert.equal(points.length, 11);
  assert.deepEqual([points[0].age, points.at(-1).age], [10, 0]);
});

test("axes end at round numbers", () => {
  assert.deepEqual([0.7, 1, 3, 4, 5.5, 7, 9, 10.1, 230].map(niceCeiling), [0.8, 1, 4, 4, 6, 8, 10, 20, 400]);
});

test("a path has gaps where there is nothing", () => {
  const points = [1, 2, null, 3].map((value, age) => ({ age, value }));
  assert.equal(pathOf(points, (age) => age, (value) => value), "M0.0 1.0L1.0 2.0M3.0 3.0");
});
