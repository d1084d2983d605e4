import { Plot, svgElement } from "./plot.mjs";

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function swatch(index) {
  const line = svgElement("svg", { viewBox: "0 0 24 8", "aria-hidden": "true" });
  line.append(svgElement("path", { class: `series series-${index + 1}`, d: "M1 4H23" }));
  return line;
}

/** A card with a plot, and a table that is its legend and says what is now. */
export class ChartView {
  constructor(chart, windowSeconds) {
    this.chart = chart;
    this.plot = new Plot({ seriesCount: chart.series.length, windowSeconds, least: chart.least });
    this.cells = chart.series.map(() => element("td", "", "–"));
    const heads = chart.series.map(({ label }, i) => {
      const head = element("th", "", swatch(i), label);
      head.scope = "col";
      return head;
    });
    const title = element("h2", "", chart.title, " ", element("small", "", chart.unit));
    const caption = element("caption", "visually-hidden", `${chart.title} now${chart.unit ? `, in ${chart.unit}` : ""}`);
    const table = element("table", "now", caption,
      element("thead", "", element("tr", "", ...heads)), element("tbody", "", element("tr", "", ...this.cells)));
    this.node = element("section", "chart", title, table, this.plot.node);
  }

  show(readings, firstSeries) {
    const indices = this.chart.series.map((_, i) => firstSeries + i);
    this.plot.draw(indices.map((index) => readings.points(index)));
    indices.forEach((index, i) => {
      const value = readings.latest(index);
      this.cells[i].textContent = value === null ? "–" : value.toFixed(this.chart.digits);
    });
  }
}
