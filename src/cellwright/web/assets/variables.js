// What the kernel of a notebook holds: a table of its variables, and what is told of one of them. Everything is shown as text.

import { el, plural } from "./cells.js";

const KNOWN = new Set(["type", "shape", "dtype", "length", "value", "columns", "rows", "items", "entries", "attributes", "more", "more_attributes", "more_columns", "image"]);
const PICTURE = /^data:image\/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]+$/;

const words = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const row = (tag, cells) => el("tr", null, ...cells.map((cell) => el(tag, tag === "th" ? { scope: "col" } : null, cell)));

function grid(head, lines, label) {
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label },
    el("table", null, el("thead", null, row("th", head)), el("tbody", null, ...lines.map((line) => row("td", line)))));
}

const size = (about) => about.shape ?? (about.length === undefined ? "" : Number(about.length).toLocaleString("en"));

/** A table of variables. `look` is called with a name, and gives what is told of it as nodes. */
export function variableTable(variables, look) {
  const body = el("tbody");
  for (const [name, about] of Object.entries(variables)) {
    const place = el("td", { colspan: 4 });
    const below = el("tr", { hidden: true, class: "depth" }, place);
    const button = el("button", { type: "button", class: "link", "aria-expanded": "false", click: async () => {
      const open = below.hidden;
      below.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      if (open) place.replaceChildren(...(await look(name)));
    } }, name);
    const type = String(about?.type ?? "").replace(/^builtins\./, "");
    body.append(
      el("tr", null, el("th", { scope: "row" }, button), el("td", null, type), el("td", null, String(size(about ?? {}))), el("td", { class: "value" }, String(about?.value ?? ""))),
      below);
  }
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Variables" },
    el("table", null, el("thead", null, row("th", ["Name", "Type", "Size", "Value"])), body));
}

/** What is told of one variable, as nodes. */
export function variableDepth(about) {
  const facts = Object.entries(about).filter(([key]) => !KNOWN.has(key) && key !== "elements");
  const nodes = [el("p", { class: "facts" }, ...facts.map(([key, value]) => el("span", null, `${key.replaceAll("_", " ")} ${words(value)}`)))];
  if (PICTURE.test(about.image ?? "")) nodes.push(el("img", { src: about.image, alt: `A picture of ${about.type}` }));
  if (Array.isArray(about.columns)) nodes.push(...tableParts(about));
  const parts = tree(about);
  if (parts) nodes.push(parts);
  else if (!about.columns && !about.image) nodes.push(el("pre", { class: "text", tabindex: 0 }, words(about.elements ? about.elements.join(", ") : about.value ?? "")));
  return nodes;
}

function tableParts({ columns, rows = [], more_columns: more }) {
  const range = (column) => (column.min === undefined ? "" : `${column.min} to ${column.max}`);
  const parts = [grid(["Column", "Type", "Nulls", "Range"], columns.map((column) => [column.name, column.dtype, String(column.nulls ?? ""), range(column)]), "Columns")];
  if (more) parts.push(el("p", { class: "hint" }, `and ${plural(more, "column")} more`));
  if (rows.length) parts.push(grid(columns.map((column) => column.name), rows, "First rows"));
  return parts;
}

/** Items, entries and attributes, each a line or a list of its own; null if there are none. */
function tree(about) {
  const lines = [
    ...(about.items ?? []).map((item, place) => [String(place), item]),
    ...Object.entries(about.entries ?? {}),
    ...Object.entries(about.attributes ?? {}),
  ];
  if (!lines.length) return null;
  const left = (about.more ?? 0) + (about.more_attributes ?? 0);
  return el("ul", { class: "parts" },
    ...lines.map(([name, part]) => {
      const plain = part === null || typeof part !== "object";
      const line = plain ? words(part) : [String(part.type ?? "").replace(/^builtins\./, ""), size(part), part.value].filter(Boolean).join(" ");
      return el("li", null, el("b", null, name), " ", el("span", null, line), plain ? null : tree(part));
    }),
    left > 0 && el("li", { class: "hint" }, `and ${left.toLocaleString("en")} more`));
}
