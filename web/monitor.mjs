/** The page at "/monitor": reads /metrics each second. */

import { ChartView } from "./chart-view.mjs";
import { charts, totals } from "./charts.mjs";
import { KeyForm } from "./key-form.mjs";
import { parseMetrics, total } from "./prometheus.mjs";
import { Readings } from "./readings.mjs";
import { authorization } from "./server.mjs";
import { loadKey } from "./settings.mjs";

const windowSeconds = 180;
const spanSeconds = 5;
const periodMs = 1000;
const patienceMs = 3000;
const at = (id) => document.getElementById(id);

let apiKey = loadKey(sessionStorage);
const readings = new Readings({ series: charts.flatMap(({ series }) => series), windowSeconds, spanSeconds });
const views = charts.map((chart) => new ChartView(chart, windowSeconds));
const figures = totals.map(({ label }) => {
  const entry = document.createElement("div");
  const name = entry.appendChild(document.createElement("dt"));
  name.textContent = label;
  at("totals").append(entry);
  return entry.appendChild(document.createElement("dd"));
});
const keyForm = new KeyForm(at("key-form"), (key) => {
  apiKey = key;
  watch();
});

function tell(text, tone) {
  if (at("state").textContent !== text) at("state").textContent = text;
  at("state").dataset.tone = tone;
}

/** The metrics; null without an answer. */
async function read() {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), patienceMs);
  try {
    const response = await fetch("/metrics", { headers: authorization(apiKey), cache: "no-store", signal: abort.signal });
    // Without a key, or with one that is for something else.
    if (response.status === 401 || response.status === 403) return "locked";
    return response.ok ? parseMetrics(await response.text()) : null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

function show(metrics) {
  readings.add(performance.now() / 1000, metrics);
  let first = 0;
  for (const view of views) {
    view.show(readings, first);
    first += view.chart.series.length;
  }
  if (!metrics) return;
  totals.forEach(({ name, scale = 1 }, i) => {
    figures[i].textContent = Math.floor(total(metrics, name) * scale).toLocaleString("en");
  });
}

async function watch() {
  const metrics = await read();
  if (metrics === "locked") {
    tell("This server asks for a key", "bad");
    keyForm.ask();
    return;
  }
  tell(metrics ? "Watching" : "The server cannot be reached: trying again", metrics ? "live" : "bad");
  show(metrics);
  setTimeout(watch, periodMs);
}

at("charts").append(...views.map(({ node }) => node));
watch();
