// Many small cells on one canvas: a thousand elements would make every change of the page slow.

import { speak } from "./dom.js";

const LABEL = 18;
const MOST_GROUPS = 64;

// Cells are { key, kind, group, text }: `group` puts neighbours into a block, `text` is said when a cell is chosen.
export class Grid {
  constructor(name, chosen) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "grid";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "grid");
    this.name = name;
    this.chosen = chosen;
    this.cells = [];
    this.places = [];
    this.selected = null;
    this.hovered = null;
    this.canvas.addEventListener("pointermove", (event) => this.#hover(this.#at(event)));
    this.canvas.addEventListener("pointerleave", () => this.#hover(null));
    this.canvas.addEventListener("click", (event) => this.#choose(this.#at(event)));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("focus", () => this.draw());
    this.canvas.addEventListener("blur", () => this.draw());
    addEventListener("themechange", () => this.draw());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.canvas);
  }

  update(cells, summary) {
    this.cells = cells;
    this.canvas.setAttribute("aria-label", `${this.name}: ${summary}. Arrow keys move from one to the next.`);
    this.draw();
  }

  select(key) {
    this.selected = key;
    this.draw();
  }

  #size() {
    const count = this.cells.length;
    return count <= 80 ? 20 : count <= 400 ? 15 : count <= 1500 ? 11 : 7;
  }

  #layout(width) {
    const size = this.#size();
    const pitch = size + (size > 10 ? 3 : 2);
    const runs = [];
    for (const cell of this.cells) {
      if (!runs.length || runs.at(-1).group !== cell.group) runs.push({ group: cell.group, cells: [] });
      runs.at(-1).cells.push(cell);
    }
    const blocks = runs.length <= MOST_GROUPS && runs.some((run) => run.group) && runs.length < this.cells.length;
    const groups = blocks ? runs : [{ group: "", cells: this.cells }];
    const columns = Math.max(1, Math.floor(width / pitch));
    this.places = [];
    this.labels = [];
    let top = 2;
    for (const { group, cells } of groups) {
      if (blocks) {
        this.labels.push({ text: group || "no slice yet", count: cells.length, y: top + 12 });
        top += LABEL;
      }
      cells.forEach((cell, index) => {
        const x = 2 + (index % columns) * pitch;
        this.places.push({ cell, x, y: top + Math.floor(index / columns) * pitch });
      });
      top += Math.ceil(cells.length / columns) * pitch + (blocks ? 8 : 0);
    }
    return { size, height: top + 2 };
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const { size, height } = this.#layout(width - 4);
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.setProperty("height", `${height}px`);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this.canvas);
    const colours = new Map();
    const colour = (kind) => {
      if (!colours.has(kind)) colours.set(kind, style.getPropertyValue(`--${kind}`).trim() || "gray");
      return colours.get(kind);
    };
    pen.font = `12px ${style.fontFamily}`;
    pen.fillStyle = colour("quiet");
    for (const label of this.labels) pen.fillText(`${label.text}  ·  ${label.count.toLocaleString()}`, 2, label.y, width - 4);
    this.size = size;
    for (const { cell, x, y } of this.places) drawCell(pen, cell.kind, colour, x, y, size);
    const ring = (key, name, thick) => {
      const place = this.places.find(({ cell }) => cell.key === key);
      if (!place) return;
      pen.strokeStyle = colour(name);
      pen.lineWidth = thick;
      pen.strokeRect(place.x - 1, place.y - 1, size + 2, size + 2);
    };
    if (this.hovered !== null) ring(this.hovered, "quiet", 1.5);
    if (this.selected !== null) ring(this.selected, "text", 2);
    this.canvas.dataset.drawn = this.cells.length;
  }

  #at(event) {
    const { offsetX, offsetY } = event;
    const reach = this.size + 2;
    const found = this.places.find(({ x, y }) => offsetX >= x && offsetX < x + reach && offsetY >= y && offsetY < y + reach);
    return found?.cell ?? null;
  }

  #hover(cell) {
    const key = cell?.key ?? null;
    if (key === this.hovered) return;
    this.hovered = key;
    this.canvas.title = cell?.text ?? "";
    this.draw();
  }

  #choose(cell) {
    if (!cell) return;
    this.selected = cell.key;
    this.draw();
    speak(cell.text);
    this.chosen(cell.key);
  }

  #key(event) {
    const at = this.places.findIndex(({ cell }) => cell.key === this.selected);
    const to = this.#next(event.key, at);
    if (to === null) return;
    event.preventDefault();
    this.#choose(this.places[to]?.cell);
  }

  #next(key, at) {
    const last = this.places.length - 1;
    if (key === "Home") return 0;
    if (key === "End") return last;
    if (key === "ArrowRight") return Math.min(last, at + 1);
    if (key === "ArrowLeft") return Math.max(0, at - 1);
    if (key !== "ArrowUp" && key !== "ArrowDown") return null;
    if (at < 0) return 0;
    const { x, y } = this.places[at];
    const beyond = this.places.filter((place) => (key === "ArrowDown" ? place.y > y : place.y < y));
    if (!beyond.length) return at;
    const row = key === "ArrowDown" ? Math.min(...beyond.map((place) => place.y)) : Math.max(...beyond.map((place) => place.y));
    const near = beyond.filter((place) => place.y === row).reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    return this.places.indexOf(near);
  }
}

// Form as well as colour tells the states apart: hollow waits, a cross went wrong, a bar was lost.
function drawCell(pen, kind, colour, x, y, size) {
  const hollow = kind === "waiting" || kind === "free" || kind === "unknown";
  pen.lineWidth = 1.5;
  pen.strokeStyle = colour(kind);
  pen.fillStyle = colour(kind);
  if (hollow) pen.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
  else pen.fillRect(x, y, size, size);
  if (size < 9 || hollow) return;
  pen.strokeStyle = colour("mark");
  pen.lineWidth = Math.max(1.5, size / 9);
  const [near, far, middle] = [size * 0.28, size * 0.72, size / 2];
  pen.beginPath();
  if (kind === "bad" || kind === "failed") {
    pen.moveTo(x + near, y + near);
    pen.lineTo(x + far, y + far);
    pen.moveTo(x + far, y + near);
    pen.lineTo(x + near, y + far);
  } else if (kind === "lost" || kind === "killed" || kind === "degraded") {
    pen.moveTo(x + near, y + middle);
    pen.lineTo(x + far, y + middle);
  } else if (kind === "good") {
    pen.moveTo(x + near, y + middle);
    pen.lineTo(x + size * 0.44, y + far - size * 0.04);
    pen.lineTo(x + far, y + near + size * 0.04);
  } else if (kind === "starting" || kind === "booting") {
    pen.arc(x + middle, y + middle, size / 6, 0, 2 * Math.PI);
  }
  pen.stroke();
}
