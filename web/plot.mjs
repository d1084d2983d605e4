const namespace = "http://www.w3.org/2000/svg";
const height = 150;
const inset = { left: 38, right: 6, top: 8, bottom: 22 };

/** The least of 1, 2, 4, 6, 8, 10, 20, 40, ... that is not less than a value. */
export function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value * (1 - 1e-9));
}

/** SVG path data through points; nulls leave gaps. */
export function pathOf(points, toX, toY) {
  let isOpen = false;
  return points.map(({ age, value }) => {
    const step = value === null ? "" : `${isOpen ? "L" : "M"}${toX(age).toFixed(1)} ${toY(value).toFixed(1)}`;
    isOpen = value !== null;
    return step;
  }).join("");
}

export function svgElement(name, attributes = {}, text = "") {
  const made = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** Lines over the time up to now. The figures are elsewhere, as text: a screen reader passes this over. */
export class Plot {
  constructor({ seriesCount, windowSeconds, least }) {
    Object.assign(this, { windowSeconds, least });
    this.node = svgElement("svg", { class: "plot", height, "aria-hidden": "true" });
    this.grid = svgElement("g");
    this.lines = Array.from({ length: seriesCount }, (_, i) => svgElement("path", { class: `series series-${i + 1}` }));
    this.node.append(this.grid, ...this.lines);
    this.top = 0;
    this.width = 0;
  }

  draw(allPoints) {
    const highest = Math.max(this.least, ...allPoints.flat().map(({ value }) => value ?? 0));
    const top = niceCeiling(highest);
    const width = this.node.clientWidth;
    if (top !== this.top || width !== this.width) this.#drawGrid(top, width);
    const toX = (age) => width - inset.right - (age / this.windowSeconds) * (width - inset.left - inset.right);
    allPoints.forEach((points, i) => this.lines[i].setAttribute("d", pathOf(points, toX, (value) => this.#toY(value))));
  }

  #toY(value) {
    return height - inset.bottom - (value / this.top) * (height - inset.top - inset.bottom);
  }

  #drawGrid(top, width) {
    this.top = top;
    this.width = width;
    const marks = [0, top / 2, top].flatMap((value) => [
      svgElement("line", {
        class: "rule", x1: inset.left, x2: width - inset.right, y1: this.#toY(value), y2: this.#toY(value),
      }),
      svgElement("text", { x: inset.left - 8, y: this.#toY(value) + 4, "text-anchor": "end" }, String(value)),
    ]);
    const minutes = this.windowSeconds / 60;
    this.grid.replaceChildren(
      ...marks,
      svgElement("text", { x: inset.left, y: height - 4 }, `${minutes} min ago`),
      svgElement("text", { x: width - inset.right, y: height - 4, "text-anchor": "end" }, "now"),
    );
  }
}
