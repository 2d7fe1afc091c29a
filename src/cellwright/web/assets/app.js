// A notebook inside a chat: the view that hosts show beside the result of a tool. It is told which notebook by the host, reads it by the
// same tools as the agent, through the host, and runs nothing.

import { coloured, el, output, plural, prose } from "./cells.js";

const PROTOCOL = "2026-01-26";
const ANSWER_WITHIN_MS = 60_000;
const AGAIN_MS = 2_000;
const LOOKS = 300;
const MOST_PAGES = 60;
const MOST_LONE_CELLS = 40;
const CELL_CHARS = 8_000;
const MOST_HEIGHT = 760; // a chat is read by scrolling: a longer notebook scrolls inside its frame
const GOING_ON = new Set(["queued", "running"]);
const UNKNOWN_METHOD = -32601;

const $ = (id) => document.getElementById(id);
const state = {
  path: null, // of the notebook
  told: false, // the result has come
  canAsk: false, canOpen: false, canGrow: false, // what the host does for us
  mode: "inline",
  ran: new Set(), // the cells that the call ran
  execution: null, // the run that goes on
  shown: "", // what stands there, to leave it alone when it is the same
  inSight: false,
  looks: 0, timer: null, over: false,
};

// ---------------------------------------------------------------------------------------------- talking to the host

const waiting = new Map();
let last = 0;

const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

function request(method, params) {
  const id = ++last;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => answered(id, { error: { message: "the host did not answer" } }), ANSWER_WITHIN_MS);
    waiting.set(id, { resolve, reject, timer });
    post({ id, method, params });
  });
}

function answered(id, { result, error }) {
  const { resolve, reject, timer } = waiting.get(id) ?? {};
  if (!resolve) return;
  waiting.delete(id);
  clearTimeout(timer);
  if (error) reject(new Error(String(error.message ?? "refused")));
  else resolve(result);
}

const HEARD = {
  "ui/notifications/tool-input": ({ arguments: given }) => {
    if (state.path === null && typeof given?.path === "string") state.path = given.path;
    title();
  },
  // A view belongs to one call. Hosts may also announce the results of what the view itself asked for: those were answers already.
  "ui/notifications/tool-result": (result) => {
    if (!state.told) taken(result);
    state.told = true;
  },
  "ui/notifications/tool-cancelled": () => say("The call was cancelled."),
  "ui/notifications/host-context-changed": (context) => dress(context),
};

const ASKED = {
  ping: () => {},
  "ui/resource-teardown": () => stop(),
};

addEventListener("message", ({ source, data }) => {
  if (source !== parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) answered(data.id, data);
  else if (data.id === undefined) HEARD[data.method]?.(data.params ?? {});
  else if (Object.hasOwn(ASKED, data.method)) post({ id: data.id, result: ASKED[data.method]() ?? {} });
  else post({ id: data.id, error: { code: UNKNOWN_METHOD, message: `this view does not know ${data.method}` } });
});

/** What the host says of itself; it names only what has changed. */
function dress({ theme, displayMode, availableDisplayModes, safeAreaInsets: free }) {
  if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
  if (displayMode) state.mode = displayMode;
  if (availableDisplayModes) state.canGrow = availableDisplayModes.includes("fullscreen");
  $("grow").hidden = !state.canGrow;
  $("grow").textContent = state.mode === "fullscreen" ? "Smaller" : "Larger";
  for (const side of ["top", "right", "bottom", "left"]) {
    if (Number.isFinite(free?.[side])) document.documentElement.style.setProperty(`--free-${side}`, `${free[side]}px`);
  }
  measure();
}

// ---------------------------------------------------------------------------------------------- what is shown

const say = (sentence) => ($("said").textContent = sentence);

function title() {
  $("name").textContent = state.path ?? "Notebook";
  $("again").hidden = !(state.canAsk && state.path);
}

const listed = (given) => (Array.isArray(given) ? given.filter((one) => one && typeof one === "object") : []);

/** Outputs as tools give them, as the page's own. Pictures come beside the text, in the order in which it names them. */
function outputsOf(given, pictures) {
  return listed(given).flatMap((one) => {
    if (one.output_type === "stream") return [{ type: "text", text: one.text, stream: one.name }];
    if (one.output_type === "error") return [{ type: "error", name: one.name, value: one.value, traceback: [one.traceback ?? []].flat().join("\n") }];
    return one.data ? shownData(one.data, pictures) : [];
  });
}

function shownData(data, pictures) {
  const drawn = Object.values(data).filter((value) => value?.shown).map(() => pictures.shift()).filter(Boolean);
  if (drawn.length) return drawn.map(({ data: bytes, mimeType }) => ({ type: "image", src: `data:${mimeType};base64,${bytes}` }));
  if (typeof data["text/markdown"] === "string") return [{ type: "markdown", text: data["text/markdown"] }];
  const text = data["text/plain"] ?? data["text/html"] ?? Object.values(data).find((value) => typeof value === "string");
  if (typeof text === "string") return [{ type: "text", text, stream: "result" }];
  const object = Object.values(data).find((value) => !value?.omitted);
  if (object !== undefined) return [{ type: "json", text: JSON.stringify(object, null, 2) }];
  const forms = Object.values(data).map((value) => value.omitted).join(", ");
  return forms ? [{ type: "text", text: `[${forms}: the notebook shows it]`, stream: "stderr" }] : [];
}

function sourceOf(cell) {
  if (cell.source === undefined) return null; // the result of a run does not repeat it
  const source = String(cell.source);
  if (cell.cell_type === "markdown") return prose(source);
  return el("pre", { class: "source", tabindex: 0, role: "group", "aria-label": "Source" }, el("code", null, ...coloured(source, cell.cell_type === "code" ? "python" : "")));
}

function cellNode(cell, pictures) {
  const kind = cell.cell_type ?? "code";
  const count = el("span", { class: "count" }, kind === "code" && !cell.running ? String(cell.execution_count ?? "") : "");
  const classes = ["cell", kind === "markdown" && "prose-cell", cell.running && "running", state.ran.has(cell.id) && "marked"];
  const outputs = el("div", { class: "outputs" }, ...outputsOf(cell.outputs, pictures).map(output));
  return el("article", { class: classes.filter(Boolean).join(" "), "data-cell": cell.id },
    el("div", { class: "margin" }, count), el("div", null, sourceOf(cell), outputs));
}

/** The result for which this view was made: cells, or how a run went. Where the host can ask for us, the whole notebook follows. */
function taken(result) {
  const data = result?.structuredContent ?? {};
  const ran = listed(data.execution_results);
  if (typeof data.path === "string") state.path = data.path;
  state.ran = new Set(ran.map(({ id }) => id));
  state.execution = GOING_ON.has(data.status) ? data.execution_id : null;
  title();
  say(ran.length ? runSentence(ran) : result?.isError ? failureSentence(result) : "");
  const cells = ran.length ? ran.map((one) => ({ ...one, running: GOING_ON.has(one.status) })) : listed(data.cells);
  if (cells.length) show([{ cells, pictures: picturesOf(result) }]);
  if (state.canAsk && state.path && !data.error) read();
}

function runSentence(ran) {
  const ends = new Set(ran.map(({ status }) => status));
  if (ends.has("error")) return "Stopped at an error.";
  if (ends.has("died")) return "The kernel died.";
  if (ends.has("interrupted")) return "Interrupted.";
  return [...GOING_ON].some((one) => ends.has(one)) ? "Running." : `Ran ${plural(ran.length, "cell")}.`;
}

const failureSentence = ({ structuredContent, content }) =>
  String(structuredContent?.error?.message ?? content?.find(({ type }) => type === "text")?.text ?? "The call failed.").slice(0, 300);

const picturesOf = (result) => listed(result?.content).filter(({ type }) => type === "image");

function show(pages) {
  const shown = JSON.stringify(pages);
  if (shown === state.shown) return;
  state.shown = shown;
  const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.closest("[data-cell]")?.dataset.cell));
  const nodes = pages.flatMap(({ cells, pictures }) => {
    const left = [...pictures];
    return cells.map((cell) => cellNode(cell, left));
  });
  for (const node of nodes) if (open.has(node.dataset.cell)) node.querySelectorAll("details").forEach((one) => (one.open = true));
  $("cells").replaceChildren(...nodes);
}

// ---------------------------------------------------------------------------------------------- reading the notebook

const call = (name, given) => request("tools/call", { name, arguments: given });

async function ask(ranges) {
  // What a person looks at here is not what the agent was shown: its indexes go on to mean what it saw.
  const wanted = { path: state.path, maxCellData: CELL_CHARS, view: "aside", ...(ranges && { ranges }) };
  const result = await call("read_nb_cells", wanted);
  if (result?.isError) throw new Error(failureSentence(result));
  const data = result?.structuredContent ?? {};
  return { cells: listed(data.cells), pictures: picturesOf(result), next: data.next?.ranges ?? null };
}

async function wholeNotebook() {
  const pages = [];
  let ranges = null;
  do {
    pages.push(await ask(ranges));
    ranges = pages.at(-1).next;
  } while (ranges && pages.length < MOST_PAGES);
  return { pages: await withPictures(pages), cut: Boolean(ranges) };
}

/** A result carries a few pictures only: cells whose pictures it had no room for are asked for alone. */
async function withPictures(pages) {
  let left = MOST_LONE_CELLS;
  const made = [];
  for (const page of pages) {
    for (const cell of page.cells) {
      const own = picturesIn(cell).filter((one) => one.shown).length;
      const pictures = page.pictures.splice(0, own);
      const lacking = picturesIn(cell).length > own && left-- > 0;
      made.push(lacking ? await ask([{ start: cell.index, end: cell.index + 1 }]) : { cells: [cell], pictures });
    }
  }
  return made;
}

const picturesIn = (cell) =>
  listed(cell.outputs).flatMap(({ data }) => Object.values(data ?? {})).filter((one) => one?.shown || (/^image\/(?!svg)/.test(one?.omitted ?? "") && !one.why));

/** Between two cells of a run none is running, and a run may wait for another: only the run itself knows whether it has ended. */
async function goesOn() {
  if (!state.execution) return false;
  const { structuredContent: data } = await call("get_execution", { execution_id: state.execution, maxCellOutputSize: 1 });
  const ran = listed(data?.execution_results);
  if (ran.length) say(runSentence(ran));
  if (!GOING_ON.has(data?.status)) state.execution = null;
  return state.execution !== null;
}

async function read() {
  clearTimeout(state.timer);
  $("again").disabled = true;
  try {
    const going = await goesOn(); // before the cells are read, so that the last reading sees the end
    const { pages, cut } = await wholeNotebook();
    const runs = going || pages.some(({ cells }) => cells.some((cell) => cell.running));
    show(pages);
    bringIntoSight();
    if (cut) say("The notebook goes on; this is its beginning.");
    else if (!pages.length) say("The notebook has no cells.");
    if (runs && !state.over && state.looks++ < LOOKS) state.timer = setTimeout(read, AGAIN_MS);
  } catch (error) {
    say(error.message);
  } finally {
    $("again").disabled = false;
  }
}

/** Once: from then on a person may have scrolled. Never by scrollIntoView, which would scroll the chat as well. */
function bringIntoSight() {
  const first = document.querySelector(".marked");
  if (first && !state.inSight) scrollTo(0, scrollY + first.getBoundingClientRect().top - document.querySelector("header").offsetHeight);
  state.inSight = true;
}

function stop() {
  state.over = true;
  clearTimeout(state.timer);
}

// ---------------------------------------------------------------------------------------------- beginning

let reported = "";

function measure() {
  const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
  const params = { width: innerWidth, height: state.mode === "inline" ? Math.min(height, MOST_HEIGHT) : height };
  if (reported === JSON.stringify(params)) return;
  reported = JSON.stringify(params);
  post({ method: "ui/notifications/size-changed", params });
}

$("again").addEventListener("click", () => {
  state.looks = 0;
  say("");
  read();
});

$("grow").addEventListener("click", async () => {
  try {
    const { mode } = await request("ui/request-display-mode", { mode: state.mode === "fullscreen" ? "inline" : "fullscreen" });
    dress({ displayMode: mode });
  } catch (error) {
    say(error.message);
  }
});

// A sandbox may not open windows: the host is asked to.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || !state.canOpen) return;
  event.preventDefault();
  request("ui/open-link", { url: link.href }).catch((error) => say(error.message));
});

try {
  const { hostCapabilities, hostContext } = await request("ui/initialize", {
    protocolVersion: PROTOCOL,
    appInfo: { name: "cellwright", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  });
  state.canAsk = Boolean(hostCapabilities?.serverTools);
  state.canOpen = Boolean(hostCapabilities?.openLinks);
  post({ method: "ui/notifications/initialized", params: {} });
  dress(hostContext ?? {});
  new ResizeObserver(measure).observe(document.documentElement);
} catch (error) {
  say(error.message);
}
