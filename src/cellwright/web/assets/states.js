// Which cells are as a run from top to bottom would leave them, and which use names of which others. Everything is shown as text.

import { el, plural } from "./cells.js";

const SIGNS = { fresh: "•", edited: "△", stale: "◐", "not run": "○", lost: "◌", running: "●", unknown: "?" };
const ROW = 28; // of the picture, in its own units: 1.75rem
const LABEL = 12;
const MANY = 80;
const LONGEST_LABEL = 24;

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const stateNode = (state) => el("span", { class: "state", "data-state": state }, el("i", { "aria-hidden": "true" }, SIGNS[state] ?? "?"), " ", state);

/** A state with its reason, in a sentence. */
export const told = ({ state, because }) => (because ? `${state}: ${because}` : state);

/** What runs is marked already. */
export const isMarked = ({ state }) => state !== "fresh" && state !== "running";

/** The mark of a cell, which leads to the picture. */
export function mark(standing, open) {
  const title = told(standing);
  return el("button", { type: "button", class: "standing", title, "aria-label": `${title}. Show its dependencies`, click: open }, stateNode(standing.state));
}

export function verdict(text = "") {
  if (!text) return "";
  return text.startsWith("would") ? `A run from top to bottom ${text}` : `Whether a run from top to bottom would give what is shown is ${text}`;
}

/** The cells in their order with arcs to those that use their names, then the same as a list. `listed`: the list is open. `go` is called with the cell to go to. */
export function graph({ cells, links, undefined: missing = [] }, listed, go) {
  if (!cells.length) return [el("p", { class: "hint" }, "There are no code cells.")];
  const at = new Map(cells.map((cell, row) => [cell.id, { ...cell, row }]));
  const arcs = links.map((link) => ({ names: link.names.join(", "), from: at.get(link.source), to: at.get(link.target) }));
  return [
    picture(cells, arcs, go),
    links.length === 0 && el("p", { class: "hint" }, "No cell uses a name of another."),
    missing.length > 0 && el("details", { open: true }, el("summary", null, "Names that no cell above defines"), el("ul", { class: "points" }, ...missing.map((one) => el("li", null, one)))),
    el("details", { open: listed }, el("summary", null, "As a list"), el("ul", { class: "points" }, ...cells.map((cell) => line(cell, arcs)))),
  ].filter(Boolean);
}

function line(cell, arcs) {
  const used = arcs.filter((arc) => arc.to.id === cell.id).map((arc) => `${arc.names} from cell ${arc.from.index}`);
  const does = cell.opaque ? `may use and change any name (${cell.opaque})` : used.length ? `uses ${used.join(", ")}` : "uses no other cell";
  return el("li", null, `cell ${cell.index} ${does}; ${told(cell)}`);
}

function picture(cells, arcs, go) {
  const rows = cells.map((cell, row) => el("li", null, el("button", { type: "button", tabindex: row ? -1 : 0, "data-node": cell.id, title: told(cell), click: () => go(cell.id) },
    el("span", { class: "at" }, el("span", { class: "unseen" }, "cell "), String(cell.index)),
    el("code", null, cell.first || " "), el("span", null, cell.opaque && el("small", null, "any name "), stateNode(cell.state)))));
  const list = el("ol", null, ...rows);
  const drawing = svg("svg", { "aria-hidden": "true" });
  const box = el("div", { class: "picture", role: "group", "aria-label": "Code cells and what they use of each other" }, list, drawing);
  let chosen;
  const light = () => {
    for (const arc of arcs) arc.node?.classList.toggle("lit", arc.from.id === chosen || arc.to.id === chosen);
    drawing.classList.toggle("choosing", chosen !== undefined);
  };
  const choose = (event) => {
    chosen = event.target.closest("button")?.dataset.node;
    light();
  };
  list.addEventListener("pointerover", choose);
  list.addEventListener("focusin", choose);
  list.addEventListener("keydown", walk);
  new ResizeObserver(([{ contentRect: { width } }]) => {
    draw(drawing, arcs, cells.length, width < 560 ? 120 : 260);
    light();
  }).observe(box);
  return box;
}

function walk(event) {
  const nodes = [...event.currentTarget.querySelectorAll("button")];
  const here = nodes.indexOf(document.activeElement);
  const to = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, Home: 0, End: nodes.length - 1 }[event.key];
  if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  chooseNode(nodes, nodes[Math.min(Math.max(to, 0), nodes.length - 1)]);
}

/** One node can be reached with Tab, the others from there. */
export function chooseNode(nodes, chosen) {
  for (const node of nodes) node.tabIndex = node === chosen ? 0 : -1;
  chosen?.focus();
}

function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** An arc for each link, the longer the wider; its names where there is room for them, or else only while one of its cells is chosen. */
function draw(drawing, arcs, rows, width) {
  if (drawing.dataset.width === String(width)) return;
  drawing.dataset.width = width;
  drawing.classList.toggle("dense", arcs.length > MANY);
  drawing.setAttribute("viewBox", `0 0 ${width} ${rows * ROW}`);
  Object.assign(drawing.style, { width: `${width / 16}rem`, height: `${(rows * ROW) / 16}rem` });
  const taken = [];
  const longest = Math.max(...arcs.map((arc) => arc.to.row - arc.from.row));
  for (const arc of [...arcs].sort((one, other) => one.to.row - one.from.row - (other.to.row - other.from.row))) {
    const [top, end] = [arc.from.row * ROW + ROW / 2 + 3, arc.to.row * ROW + ROW / 2 - 3];
    const span = (arc.to.row - arc.from.row) / Math.max(longest, 8);
    const reach = 16 + width * 0.65 * span ** 0.6;
    const shown = cut(arc.names, Math.min(LONGEST_LABEL, Math.floor((width - 0.75 * reach) / 6.5)));
    const place = { x: 0.75 * reach + 4, y: (top + end) / 2 + 4, right: 0.75 * reach + 12 + shown.length * 6.5 };
    const free = !taken.some((other) => Math.abs(other.y - place.y) < LABEL && other.x < place.right && place.x < other.right);
    if (free) taken.push(place);
    arc.node = svg("g", { class: free ? "arc" : "arc crowded" },
      svg("path", { d: `M0 ${top}C${reach} ${top} ${reach} ${end} 2 ${end}` }),
      svg("path", { class: "head", d: `M0 ${end}l6 -3.5v7z` }),
      svg("text", { x: place.x, y: place.y }, shown));
  }
  drawing.replaceChildren(...arcs.map((arc) => arc.node));
}

/** What is shown of very many cells, in a sentence. */
export const extent = ({ total, cells, around }) => (around
  ? `This notebook has ${plural(total, "code cell")}, too many for one picture: shown are those that have to do with cell ${cells.find((cell) => cell.id === around)?.index}. Open this from another cell to see that cell's.`
  : "");
