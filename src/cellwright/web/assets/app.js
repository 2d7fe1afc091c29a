// A notebook inside a chat: the view that hosts show beside the result of a tool. It is told which notebook by the host, reads it by the
// same tools as the agent, through the host, and runs nothing.

import { coloured, el, output, prose } from "./cells.js";

const PROTOCOL = "2026-01-26";
const ANSWER_WITHIN_MS = 60_000;
const AGAIN_MS = 2_000;
const LOOKS = 300;
const SHAPE = { code: "code", markdown: "markdown" };

const $ = (id) => document.getElementById(id);
const state = { path: null, canAsk: false, looks: 0, timer: null, visit: 0 };

// ---------------------------------------------------------------------------------------------- talking to the host

const waiting = new Map();
let last = 0;

const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

function request(method, params) {
  const id = ++last;
  post({ id, method, params });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => answered(id, { error: { message: "the host did not answer" } }), ANSWER_WITHIN_MS);
    waiting.set(id, { resolve, reject, timer });
  });
}

function answered(id, { result, error }) {
  const { resolve, reject, timer } = waiting.get(id) ?? {};
  if (!resolve) return;
  waiting.delete(id);
  clearTimeout(timer);
  if (error) reject(new Error(error.message ?? "refused"));
  else resolve(result);
}

const HEARD = {
  "ui/notifications/tool-input": ({ arguments: given }) => {
    state.path = typeof given?.path === "string" ? given.path : state.path;
    title();
  },
  "ui/notifications/tool-result": (result) => taken(result),
  "ui/notifications/tool-cancelled": () => say("The call was cancelled."),
  "ui/notifications/host-context-changed": (context) => dress(context),
};

addEventListener("message", ({ source, data }) => {
  if (source !== parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) answered(data.id, data);
  else if (data.id !== undefined) post({ id: data.id, result: {} }); // ping, or the end: nothing here is lost by it
  else HEARD[data.method]?.(data.params ?? {});
});

function dress({ theme }) {
  if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
}

// ---------------------------------------------------------------------------------------------- what is shown

const say = (sentence) => ($("said").textContent = sentence);

function title() {
  $("name").textContent = state.path ?? "Notebook";
  $("again").hidden = !(state.canAsk && state.path);
}

/** Outputs as tools give them, as the page's own. Pictures come beside the text, in the order in which it names them. */
function outputsOf(given, pictures) {
  return given.flatMap((one) => {
    if (one.output_type === "stream") return [{ type: "text", text: one.text, stream: one.name }];
    if (one.output_type === "error") return [{ type: "error", name: one.name, value: one.value, traceback: (one.traceback ?? []).join("\n") }];
    return shownData(one.data ?? {}, pictures);
  });
}

function shownData(data, pictures) {
  const drawn = Object.values(data).filter((value) => value?.shown).map(() => pictures.shift()).filter(Boolean);
  if (drawn.length) return drawn.map(({ data: bytes, mimeType }) => ({ type: "image", src: `data:${mimeType};base64,${bytes}` }));
  if (typeof data["text/markdown"] === "string") return [{ type: "markdown", text: data["text/markdown"] }];
  const text = data["text/plain"] ?? data["text/html"] ?? Object.values(data).find((value) => typeof value === "string");
  return text === undefined ? [] : [{ type: "text", text: String(text), stream: "result" }];
}

function cellNode(cell, pictures) {
  const kind = SHAPE[cell.cell_type] ?? "raw";
  const source = String(cell.source ?? "");
  const body = kind === "markdown"
    ? prose(source)
    : el("pre", { class: "source", tabindex: 0, role: "group", "aria-label": "Source" }, el("code", null, ...coloured(source, "python")));
  const count = el("span", { class: "count" }, kind === "code" && !cell.running ? String(cell.execution_count ?? "") : "");
  const outputs = el("div", { class: "outputs" }, ...outputsOf(cell.outputs ?? [], pictures).map(output));
  return el("article", { class: `cell ${kind === "markdown" ? "prose-cell" : ""} ${cell.running ? "running" : ""}`, "data-cell": cell.id },
    el("div", { class: "margin" }, count), el("div", null, body, outputs));
}

/** A result of a tool: cells, or the results of a run, whose notebook is then read. */
function taken(result) {
  const data = result?.structuredContent ?? {};
  if (typeof data.path === "string") state.path = data.path;
  title();
  if (result?.isError) say(String(result.content?.find((part) => part.type === "text")?.text ?? "The call failed.").slice(0, 300));
  else say("");
  if (state.canAsk && state.path) read();
  else if (Array.isArray(data.cells)) show([result]);
}

function show(results) {
  const nodes = results.flatMap(({ structuredContent, content }) => {
    const pictures = (content ?? []).filter((part) => part.type === "image");
    return structuredContent.cells.map((cell) => cellNode(cell, pictures));
  });
  $("cells").replaceChildren(...nodes);
}

async function read() {
  const visit = ++state.visit;
  clearTimeout(state.timer);
  try {
    const pages = [];
    let ranges = null;
    do {
      const given = ranges ? { path: state.path, ranges } : { path: state.path };
      const page = await request("tools/call", { name: "read_nb_cells", arguments: given });
      if (visit !== state.visit) return;
      if (page.isError) throw new Error(page.content?.[0]?.text ?? "the notebook cannot be read");
      pages.push(page);
      ranges = page.structuredContent.next?.ranges ?? null;
      show(pages);
    } while (ranges);
    const runs = pages.some((page) => page.structuredContent.cells.some((cell) => cell.running));
    if (runs && state.looks++ < LOOKS) state.timer = setTimeout(read, AGAIN_MS);
  } catch (error) {
    say(error.message);
  }
}

// ---------------------------------------------------------------------------------------------- beginning

new ResizeObserver(() => {
  const { width, height } = document.documentElement.getBoundingClientRect();
  post({ method: "ui/notifications/size-changed", params: { width: Math.ceil(width), height: Math.ceil(height) } });
}).observe(document.documentElement);

$("again").addEventListener("click", () => {
  state.looks = 0;
  read();
});

const started = await request("ui/initialize", {
  protocolVersion: PROTOCOL,
  appInfo: { name: "cellwright", version: "1" },
  appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
});
state.canAsk = Boolean(started?.hostCapabilities?.serverTools);
dress(started?.hostContext ?? {});
post({ method: "ui/notifications/initialized", params: {} });
