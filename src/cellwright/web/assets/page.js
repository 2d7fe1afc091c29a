// The page: what is in the workspace, one document of it as it is now, and what agents are doing.
// Looking never runs anything.

import { coloured, el, output, plural, prose, safeLink } from "./cells.js";
import { chooseNode, extent, graph, isMarked, mark, told, verdict } from "./states.js";
import { variableDepth, variableTable } from "./variables.js";

const PAGE_OF_CELLS = 100;
const CELLS_LOADED_UNASKED = 1000;
const CALLS_KEPT = 200;
const REFRESH_GAP_MS = 40;
const ANSWER_WITHIN_MS = 30_000;
const FRESH_MS = 1600;
const HIDDEN_FOR_MS = 60_000;

const $ = (id) => document.getElementById(id);

function say(sentence) {
  $("said").textContent = sentence;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => ($("said").textContent = ""), 2500);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say(text); // no clipboard outside https and loopback: show it, so that it can be selected
  }
}

// ---------------------------------------------------------------------------------------------- talking to the server

class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function ask(path, { body, token, method = body ? "POST" : "GET" } = {}) {
  const headers = { "X-Cellwright": "page" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const xsrf = /(?:^|;\s*)_xsrf=([^;]*)/.exec(document.cookie); // Jupyter's, where the page is inside Jupyter
  if (xsrf) headers["X-XSRFToken"] = decodeURIComponent(xsrf[1]);
  if (body) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store", signal });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, String(told.error?.message ?? told.error ?? `the server answered ${answer.status}`));
  }
  return answer.status === 204 ? null : answer.json();
}

const asked = (path, parameters) => ask(`${path}?${new URLSearchParams(parameters)}`);

// ---------------------------------------------------------------------------------------------- the address: #uri=…&cell=…

const place = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const linkTo = (uri, cell) => `#${new URLSearchParams(cell ? { uri, cell } : { uri })}`;

/** The token of the link, which leaves the address at once; also Jupyter's, which it takes from the query. */
function takeToken() {
  const { token = null, ...rest } = place();
  const query = new URLSearchParams(location.search);
  if (token === null && !query.has("token")) return null;
  query.delete("token");
  const [before, after] = [query.toString(), new URLSearchParams(rest).toString()];
  history.replaceState(null, "", location.pathname + (before && `?${before}`) + (after && `#${after}`));
  return token;
}

// ---------------------------------------------------------------------------------------------- saying how much and when

function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const tokens = (n) => (n < 1000 ? `${n} tokens` : `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k tokens`);

function clock(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.valueOf()) ? "" : time.toLocaleTimeString("en-GB");
}

function ago(iso) {
  const seconds = (Date.now() - new Date(iso).valueOf()) / 1000;
  if (Number.isNaN(seconds)) return "";
  for (const [size, unit] of [[86_400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return "just now";
}

const nameOf = (uri) => {
  const last = uri.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? uri;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
};

// ---------------------------------------------------------------------------------------------- the document in the middle

const NO_STATES = { revision: "", cells: new Map() };
const shown = { uri: null, about: null, heard: null, order: [], cells: new Map(), people: [], states: NO_STATES, visit: 0 };

const tools = el("div", { class: "cell-tools" },
  el("button", { type: "button", title: "Copy the cell's id (c)", click: () => copy(tools.cell.id, "Cell id") }, "id"),
  el("button", { type: "button", title: "Copy a link to this cell", click: () => {
    keepInAddress(tools.cell.id);
    copy(location.href, "Link");
  } }, "link"));

function offerTools(event) {
  const cell = cellOf(event.target);
  if (!cell || tools.cell === cell) return;
  tools.cell = cell;
  cell.node.append(tools);
}

const cellOf = (target) => shown.cells.get(target.closest?.(".cell")?.dataset.cell) ?? null;

// Colour and frames cost nodes, so a cell has them while it is near the window and gives the colour back when it is not.
const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const cell = cellOf(target);
    if (!cell) continue;
    cell.near = isIntersecting;
    if (!cell.data && isIntersecting) loadAround(shown.order.indexOf(cell.id));
    else paint(cell);
  }
}, { rootMargin: "1000px 0px" });

function paint(cell) {
  if (!cell.code || cell.painted === cell.near) return;
  cell.painted = cell.near;
  cell.code.replaceChildren(...(cell.near ? coloured(cell.data.source, cell.data.language) : [cell.data.source]));
}

function shell(id, lines = 3) {
  const node = el("article", { class: "cell", tabindex: -1, "data-cell": id });
  node.style.containIntrinsicBlockSize = `auto ${Math.min(lines, 200) * 20 + 44}px`;
  const cell = { id, node, data: null, near: false, painted: null, code: null };
  shown.cells.set(id, cell);
  near.observe(node);
  return cell;
}

function forget(cell) {
  near.unobserve(cell.node);
  cell.node.remove();
  shown.cells.delete(cell.id);
}

function arrange(order, lines = new Map()) {
  const wanted = new Set(order);
  for (const cell of [...shown.cells.values()]) if (!wanted.has(cell.id)) forget(cell);
  const list = $("cells");
  let at = list.firstElementChild;
  for (const id of wanted) {
    const { node } = shown.cells.get(id) ?? shell(id, lines.get(id));
    if (node === at) {
      at = at.nextElementSibling;
    } else if (at && at.nextElementSibling === node) {
      at.remove(); // it went further down: moving it alone leaves the others, and their frames, in place
      at = node.nextElementSibling;
    } else {
      list.insertBefore(node, at);
    }
  }
  shown.order = [...wanted];
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function fill(cell, data, fresh) {
  const old = cell.data;
  cell.data = data;
  if (!old) build(cell);
  else if (old.kind !== data.kind || old.language !== data.language) showSource(cell);
  else if (old.source !== data.source || !same(old.attachments, data.attachments)) showSource(cell);
  if (!old || !same(old.outputs, data.outputs)) showOutputs(cell, old?.outputs ?? []);
  cell.notes.textContent = (data.notes ?? []).join(" · ");
  showState(cell);
  // Output that grows needs no mark: what runs is marked already.
  if (fresh && (!old || old.source !== data.source || (data.state !== "running" && !same(old.outputs, data.outputs)))) flash(cell, "fresh", FRESH_MS);
}

function flash(cell, name, ms) {
  cell.node.classList.remove(name);
  requestAnimationFrame(() => cell.node.classList.add(name));
  clearTimeout(cell[name]);
  cell[name] = setTimeout(() => cell.node.classList.remove(name), ms);
}

function build(cell) {
  cell.count = el("span", { class: "count" });
  cell.standing = el("div");
  cell.who = el("div", { class: "who" });
  cell.body = el("div", { class: "source-box" });
  cell.outputs = el("div", { class: "outputs" });
  cell.notes = el("p", { class: "notes" });
  cell.node.replaceChildren(
    el("div", { class: "margin" }, cell.count, cell.standing, cell.who),
    el("div", null, cell.body, cell.outputs, cell.notes));
  if (tools.cell === cell) cell.node.append(tools);
  showSource(cell);
}

function showSource(cell) {
  const { kind, source, attachments } = cell.data;
  cell.node.classList.toggle("prose-cell", kind === "markdown");
  cell.code = cell.painted = null;
  if (kind === "markdown" && source.trim()) {
    cell.body.replaceChildren(prose(source, attachments));
    return;
  }
  if (kind === "markdown") {
    cell.body.replaceChildren(el("p", { class: "hint" }, "An empty text cell"));
    return;
  }
  cell.code = el("code");
  cell.body.replaceChildren(el("pre", { class: "source", tabindex: 0, role: "group", "aria-label": kind === "raw" ? "Raw text" : "Source" }, cell.code));
  paint(cell);
  if (cell.painted === null) paint(Object.assign(cell, { painted: !cell.near }));
}

function showOutputs(cell, before) {
  const now = cell.data.outputs ?? [];
  // A growing stream changes only its last output: the others, and what was opened in them, stay.
  let kept = 0;
  while (kept < before.length && kept < now.length && same(before[kept], now[kept])) kept++;
  while (cell.outputs.children.length > kept) cell.outputs.lastElementChild.remove();
  cell.outputs.append(...now.slice(kept).map(output));
}

function showState(cell) {
  const { kind, state, count } = cell.data;
  const busy = state === "running" || state === "queued";
  for (const name of ["running", "queued"]) cell.node.classList.toggle(name, state === name);
  cell.count.textContent = kind !== "code" ? "" : state === "running" ? "" : state === "queued" ? "…" : count ?? "";
  const ran = busy ? `, ${state}` : count ? `, run ${count}` : "";
  const known = kind === "code" && !busy && shown.states.cells.get(cell.id);
  const standing = known && isMarked(known) ? known : null;
  if (!same(standing, cell.standing.shown ?? null)) {
    cell.standing.shown = standing;
    cell.standing.replaceChildren(...(standing ? [mark(standing, () => openGraph(cell.id))] : []));
  }
  cell.node.setAttribute("aria-label", `${{ code: "Code", markdown: "Text", raw: "Raw" }[kind] ?? "Cell"} cell ${shown.order.indexOf(cell.id) + 1} of ${shown.order.length}${ran}${standing ? `, ${told(standing)}` : ""}`);
}

function showPeople() {
  const box = $("head").querySelector(".people");
  if (!box) return;
  box.replaceChildren(...shown.people.map((person) => {
    const dot = el("i", { "aria-hidden": "true" });
    dot.style.backgroundColor = person.colour ?? "";
    const chip = el("span", { class: `person ${person.agent ? "agent" : ""}` }, dot, person.name);
    if (!person.cell || !shown.cells.has(person.cell)) return chip;
    return el("a", { class: chip.className, href: linkTo(shown.uri, person.cell), title: "Go to their cell" }, ...chip.childNodes);
  }));
  for (const cell of shown.cells.values()) if (cell.who?.firstChild) cell.who.replaceChildren();
  for (const person of shown.people) {
    const cell = shown.cells.get(person.cell);
    if (!cell?.who) continue;
    const flag = el("span", { title: person.name }, person.name);
    flag.style.borderColor = person.colour ?? "";
    cell.who.append(flag);
  }
}

function headings(outline) {
  const found = outline.filter((entry) => entry.kind === "markdown").map((entry) => {
    const heading = /^(#{1,3})\s+(.+)/.exec(entry.first ?? entry.line ?? "");
    return heading && { id: entry.id, level: heading[1].length, text: heading[2].replace(/[*_`]/g, "") };
  });
  return found.filter(Boolean);
}

function showHead(about) {
  const facts = [
    about.path && about.path !== about.title && el("span", { class: "path" }, about.path),
    el("span", null, { notebook: "notebook", pad: "scratch pad", thinking: "thinking notebook" }[about.kind] ?? about.kind),
    about.language && el("span", null, about.language),
    el("span", null, plural(about.total ?? shown.order.length, "cell")),
    typeof about.saved === "string" && el("span", { title: about.saved }, `changed ${ago(about.saved)}`),
    ...(about.tags ?? []).map((tag) => el("span", null, `#${tag}`)),
  ];
  const parts = headings(about.outline ?? []);
  $("head").replaceChildren(...[
    el("h1", null, about.title || nameOf(about.uri)),
    about.description && el("p", { class: "about" }, about.description),
    el("p", { class: "facts" }, ...facts.filter(Boolean)),
    el("p", { class: "actions" },
      about.lab && safeLink(new URL(about.lab, location.href).href) && el("a", { href: new URL(about.lab, location.href).href, target: "_blank", rel: "noopener noreferrer" }, "Open in JupyterLab"),
      el("button", { type: "button", click: () => copy(about.uri, "URI") }, "Copy URI")),
    el("div", { class: "people", role: "group", "aria-label": "Who is here" }),
    parts.length > 2 && el("details", { class: "outline" }, el("summary", null, "Outline"),
      el("ol", null, ...parts.map((part) => el("li", null, el("a", { class: `l${part.level}`, href: linkTo(shown.uri, part.id) }, part.text))))),
  ].filter(Boolean));
  document.title = `${about.title || nameOf(about.uri)} · cellwright`;
}

function take(answer, fresh) {
  const { cells: changed, ...about } = answer;
  shown.about = { ...shown.about, ...about };
  const order = answer.order ?? answer.outline?.map((entry) => entry.id);
  if (order) arrange(order, new Map((answer.outline ?? []).map((entry) => [entry.id, entry.lines])));
  for (const data of changed) {
    const cell = shown.cells.get(data.id);
    if (cell) fill(cell, data, fresh);
  }
  if (answer.people) shown.people = answer.people;
  showPeople();
  $("foot").textContent = shown.order.length ? "" : "There are no cells yet. What is written here appears at once.";
}

/** Loads the page of cells around `index`, from its first one that is neither here nor asked for. An answer may be shorter than asked. */
async function loadAround(index) {
  const first = Math.max(0, index - (index % PAGE_OF_CELLS));
  const page = shown.order.slice(first, first + PAGE_OF_CELLS).map((id) => shown.cells.get(id));
  const offset = page.findIndex((cell) => !cell.data && !cell.asked);
  if (offset < 0) return;
  const wanted = page.slice(offset);
  for (const cell of wanted) cell.asked = true;
  const visit = shown.visit;
  const got = await loadPage(visit, shown.uri, first + offset);
  for (const cell of wanted) cell.asked = false;
  if (got && got < wanted.length && visit === shown.visit) await loadAround(first + offset + got);
}

async function loadPage(visit, uri, start) {
  try {
    const answer = await asked("api/document", { uri, start, count: PAGE_OF_CELLS });
    if (visit === shown.visit) take({ cells: answer.cells });
    return answer.cells.length;
  } catch (error) {
    if (visit === shown.visit) refusedDuring(error);
    return 0;
  }
}

const missing = () => shown.order.findIndex((id) => !shown.cells.get(id).data && !shown.cells.get(id).asked);

async function loadTheRest(visit) {
  for (let at = missing(), before = -1; at > before && at < CELLS_LOADED_UNASKED && visit === shown.visit; before = at, at = missing()) {
    await loadAround(at);
    await new Promise((resume) => (window.requestIdleCallback ?? setTimeout)(resume, { timeout: 300 }));
  }
}

async function openDocument(uri, cell) {
  const visit = ++shown.visit;
  show("reader");
  for (const one of [...shown.cells.values()]) forget(one);
  tools.remove();
  Object.assign(shown, { uri, about: null, heard: null, order: [], people: [], states: NO_STATES });
  showVerdict("");
  $("graph").close();
  tools.cell = null;
  $("head").replaceChildren(el("h1", null, nameOf(uri)), el("p", { class: "facts" }, "Opening…"));
  $("foot").textContent = "";
  offerVariables(uri);
  listen();
  markCurrent();
  try {
    const answer = await asked("api/document", { uri, start: 0, count: PAGE_OF_CELLS });
    if (visit !== shown.visit) return;
    take(answer);
    showHead(shown.about);
    showPeople();
    markCurrent();
    if (cell) goTo(cell);
    else scrollTo(0, 0);
    refreshStates();
    if (shown.heard && shown.heard !== shown.about.revision) refresh();
    await loadTheRest(visit);
  } catch (error) {
    if (visit === shown.visit) cannotOpen(uri, error);
  }
}

function cannotOpen(uri, error) {
  if (refusedDuring(error)) return;
  shown.uri = null;
  $("trouble").replaceChildren(
    el("h1", null, error.status === 404 ? "It is not there" : "It does not open"),
    el("p", null, error.status === 404 ? `Nothing that you may read is at ${uri}. It may have been renamed or removed.` : error.message),
    el("p", null, el("button", { type: "button", class: "primary", click: () => openDocument(uri) }, "Try again")));
  show("trouble");
}

/** An action of which one is under way at a time. Asked for meanwhile, it is done once more. */
function oneByOne(action) {
  let [under, again] = [false, false];
  return async () => {
    again = true;
    if (under) return;
    under = true;
    try {
      while (again) {
        again = false;
        await action();
        await new Promise((resume) => setTimeout(resume, REFRESH_GAP_MS));
      }
    } finally {
      under = false;
    }
  };
}

/** What the server knows to be newer than what is shown. */
const refresh = oneByOne(async () => {
  const { visit, uri, about } = shown;
  if (!about) return; // what is being opened looks at what was heard meanwhile
  try {
    const answer = await asked("api/document", { uri, since: about.revision, count: PAGE_OF_CELLS });
    if (visit !== shown.visit) return;
    const total = shown.order.length;
    const loaded = shown.order.filter((id) => shown.cells.get(id)?.data).length;
    take(answer, true);
    if (answer.outline || shown.about.title !== about.title || shown.order.length !== total) showHead({ ...shown.about, total: shown.order.length });
    showPeople();
    // The first page in full: what else was here may be old.
    for (let at = answer.cells.length, n = 1; n && answer.outline && at < loaded; at += n) n = await loadPage(visit, uri, at);
    await loadTheRest(visit);
    followTheRun();
  } catch (error) {
    if (visit === shown.visit && !refusedDuring(error) && error.status === 404) cannotOpen(uri, error);
  }
});

/** Sizes of cells not seen yet are guesses, so the way to a far one is corrected until it stays. */
function goTo(id) {
  const cell = shown.cells.get(id);
  if (!cell) {
    say("That cell is not in this notebook");
    return;
  }
  showColumn("document");
  let steps = 12;
  const visit = shown.visit;
  const step = () => {
    if (visit !== shown.visit) return;
    const before = cell.node.getBoundingClientRect().top;
    cell.node.scrollIntoView({ block: "start" });
    if (steps-- > 0 && (Math.abs(cell.node.getBoundingClientRect().top - before) > 1 || steps > 8)) requestAnimationFrame(step);
  };
  step();
  focusCell(cell);
  flash(cell, "marked", 4000);
}

function focusCell(cell) {
  shown.cells.get(focusCell.last)?.node.setAttribute("tabindex", "-1");
  cell.node.setAttribute("tabindex", "0");
  focusCell.last = cell.id;
  cell.node.focus({ preventScroll: true });
}

function keepInAddress(cell) {
  history.replaceState(null, "", linkTo(shown.uri, cell));
}

// ---------------------------------------------------------------------------------------------- the list at the left

const things = { all: [], more: false, tag: null, found: null };
const KINDS = [["notebook", "Notebooks"], ["pad", "Pads"], ["thinking", "Thinking"]];

async function loadThings() {
  const query = $("search").value.trim();
  const turn = (loadThings.turn = (loadThings.turn ?? 0) + 1);
  try {
    const answer = await asked("api/things", { q: query });
    if (turn !== loadThings.turn) return;
    Object.assign(things, { all: answer.things, more: answer.more, query });
    showThings();
    if (!$("welcome").hidden) welcome();
  } catch (error) {
    refusedDuring(error);
  }
}

function soon(action, ms) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}

const thingsSoon = soon(loadThings, 300);
const searchSoon = soon(loadThings, 120);

function thingRow(thing) {
  const under = thing.snippet
    ? el("span", { class: "under snippet" }, thing.snippet)
    : el("span", { class: "under" }, [thing.path && thing.path !== thing.title ? thing.path : "", thing.changed ? ago(thing.changed) : ""].filter(Boolean).join(" · "));
  const live = thing.live && el("span", { class: "dot", title: thing.people ? `open, ${plural(thing.people, "person", "people")} here` : "open now" }, el("span", { class: "unseen" }, "open now"));
  return el("li", null, el("a", { href: linkTo(thing.uri, thing.cell), "data-uri": thing.uri }, el("span", { class: "name" }, thing.title || nameOf(thing.uri)), live, under));
}

function showThings() {
  const tags = new Map();
  for (const thing of things.all) for (const tag of thing.tags ?? []) tags.set(tag, (tags.get(tag) ?? 0) + 1);
  if (things.tag && !tags.has(things.tag)) things.tag = null;
  const most = [...tags].sort((one, other) => other[1] - one[1]).slice(0, 12).map(([tag]) => tag);
  $("tags").hidden = !most.length;
  $("tags").replaceChildren(...most.map((tag) => el("button", { type: "button", "aria-pressed": String(tag === things.tag), click: () => {
    things.tag = things.tag === tag ? null : tag;
    showThings();
  } }, tag)));
  const wanted = things.tag ? things.all.filter((thing) => thing.tags?.includes(things.tag)) : things.all;
  const groups = KINDS.map(([kind, title]) => [title, wanted.filter((thing) => thing.kind === kind)]).filter(([, group]) => group.length);
  const had = document.activeElement?.dataset?.uri;
  $("things-list").replaceChildren(
    ...groups.flatMap(([title, group]) => [el("h2", null, title, " ", el("span", null, group.length)), el("ul", null, ...group.map(thingRow))]),
    ...(wanted.length ? [] : [nothingThere()]),
    ...(things.more ? [el("p", { class: "hint" }, "There are more: search narrows the list.")] : []));
  markCurrent();
  if (had) [...document.querySelectorAll("#things-list a")].find((row) => row.dataset.uri === had)?.focus();
}

const nothingThere = () => el("p", { class: "hint" }, things.query
  ? `Nothing found for “${things.query}”.`
  : "Nothing here yet. A notebook in the workspace folder, or a pad that an agent makes, appears here at once.");

function markCurrent() {
  for (const row of document.querySelectorAll("#things-list a")) {
    if (row.dataset.uri === (shown.about?.uri ?? shown.uri)) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
}

function welcome() {
  document.title = "cellwright";
  const recent = things.query ? [] : things.all.filter((thing) => thing.changed).sort((one, other) => other.changed.localeCompare(one.changed)).slice(0, 8);
  $("welcome").replaceChildren(...[
    el("h1", null, things.all.length || things.query ? "Nothing is open" : "An empty workspace"),
    el("p", null, things.all.length || things.query
      ? "Choose a notebook to watch it as it is now: what agents write and run in it appears here while they do. Looking never runs anything."
      : "Ask an agent that is connected to cellwright to make a notebook or a pad. It appears here while it is written."),
    recent.length && el("ul", { class: "recent" }, ...recent.map((thing) => el("li", null, el("a", { href: linkTo(thing.uri) },
      el("span", { class: "name" }, thing.title || nameOf(thing.uri)), el("span", { class: "when" }, ago(thing.changed)))))),
  ].filter(Boolean));
}

// ---------------------------------------------------------------------------------------------- the activity at the right

const calls = new Map();
const runs = new Map();

function callRow(call) {
  const now = call.outcome === "running";
  const bad = !now && call.outcome !== "ok";
  const took = now ? "running" : [call.ms !== null && call.ms !== undefined && span(call.ms)].filter(Boolean).join("");
  const tool = call.thing
    ? el("a", { class: "tool", href: linkTo(call.thing), tabindex: -1 }, call.tool)
    : el("span", { class: "tool" }, call.tool);
  const about = [clock(call.began), call.thing && nameOf(call.thing), call.client].filter(Boolean).join(" · ");
  return el("li", { class: `call ${now ? "now" : ""} ${bad ? "bad" : ""}`, tabindex: -1, "data-call": call.n },
    el("div", { class: "row" }, tool, el("span", { class: "took" }, took)),
    el("div", { class: "row" }, el("small", { class: "what", title: about }, about), el("small", { class: "took" }, call.tokens ? tokens(call.tokens) : "")),
    bad && el("p", { class: "why" }, call.error || call.outcome));
}

function takeCall(call) {
  const row = callRow(call);
  const old = calls.get(call.n);
  calls.set(call.n, row);
  if (old) {
    const focused = old === document.activeElement;
    old.replaceWith(row);
    if (focused) row.focus();
  } else {
    const list = $("calls");
    const after = [...list.children].find((other) => Number(other.dataset.call) < call.n);
    list.insertBefore(row, after ?? null);
    if (list.children.length > CALLS_KEPT) {
      calls.delete(Number(list.lastElementChild.dataset.call));
      list.lastElementChild.remove();
    }
  }
  $("no-calls").hidden = calls.size > 0;
}

function takeRun(run) {
  if (run.state === "running" || run.state === "queued") runs.set(run.execution, run);
  else runs.delete(run.execution);
  showRuns();
}

function showRuns() {
  $("running").hidden = !runs.size;
  const name = (run) => (run.uri ? nameOf(run.uri) : "code");
  $("runs").replaceChildren(...[...runs.values()].map((run) => el("li", null,
    el(run.uri ? "a" : "span", { href: run.uri && linkTo(run.uri, run.cell) }, name(run), el("small", { "data-began": run.began, "data-state": run.state }, elapsed(run.state, run.began))),
    me.scopes.includes("run") && el("button", { type: "button", "aria-label": `Cancel what runs in ${name(run)}`, click: (event) => cancel(run, event.currentTarget) }, "Cancel"))));
}

const elapsed = (state, began) => (state === "queued" ? "queued" : span(Math.max(0, Date.now() - new Date(began).valueOf()) || 0));

setInterval(() => {
  for (const one of document.querySelectorAll("#runs small")) one.textContent = elapsed(one.dataset.state, one.dataset.began);
}, 1000);

async function cancel(run, button) {
  button.disabled = true;
  try {
    await ask("api/cancel", { body: { execution: run.execution } });
    say("Cancelled");
  } catch (error) {
    button.disabled = false;
    if (!refusedDuring(error)) say(error.message);
  }
}

async function loadActivity() {
  try {
    const answer = await ask("api/activity");
    calls.clear();
    runs.clear();
    $("calls").replaceChildren();
    for (const call of [...answer.calls].sort((one, other) => one.n - other.n)) takeCall(call);
    for (const run of answer.running) takeRun(run);
    showRuns();
    const sessions = answer.sessions ?? [];
    $("sessions-box").hidden = !sessions.length;
    $("sessions").replaceChildren(...sessions.map((one) => el("li", null,
      el("span", null, one.client || "an agent"), el("small", null, `${plural(one.calls, "call")} · ${one.status === "active" ? "active" : ago(one.last)}`))));
  } catch (error) {
    refusedDuring(error);
  }
}

const following = () => $("follow").getAttribute("aria-pressed") === "true";

function followTheCall(call) {
  const { uri } = place();
  if (following() && call.thing && call.thing !== uri && call.outcome === "running") location.hash = linkTo(call.thing);
}

function followTheRun() {
  if (!following()) return;
  const running = shown.order.map((id) => shown.cells.get(id)).find((cell) => cell?.data?.state === "running");
  running?.node.scrollIntoView({ block: "nearest" });
}

// ---------------------------------------------------------------------------------------------- the project

const small = (...parts) => el("small", null, parts.filter(Boolean).join(" · "));
const some = (list, make) => (list?.length ? el("ul", { class: "entries" }, ...list.map(make)) : null);
const listed = (title, list) => list?.length && el("p", null, el("span", { class: "hint" }, `${title} `), list.join(", "));

function moduleEntry(one) {
  return el("li", null, el("b", null, one.name), one.description && el("p", null, one.description),
    one.rules?.length && el("ul", { class: "points" }, ...one.rules.map((rule) => el("li", null, rule))),
    ...(one.issues ?? []).map((issue) => el("p", null, issue.description, issue.solution && el("span", { class: "hint" }, ` ${issue.solution}`))),
    listed("patterns", one.patterns), listed("needs", one.dependencies),
    one.files?.length && el("details", null, el("summary", null, plural(one.files.length, "file")),
      el("ul", { class: "points" }, ...one.files.map((file) => el("li", null, el("code", null, file.path), " ", el("span", { class: "hint" }, [file.role, file.description].filter(Boolean).join(", ")))))));
}

const discoveryEntry = (one) => el("li", null,
  small(one.type, one.module, ago(one.created), one.times > 1 && `seen ${one.times} times`),
  el("p", null, one.content), one.solution && el("p", { class: "hint" }, one.solution));

const sessionEntry = (one) => el("li", null, el("b", null, one.client || "an agent"), " ",
  small(one.status, `began ${ago(one.began)}`, plural(one.calls, "call"), one.failures && plural(one.failures, "failure"), one.discoveries && plural(one.discoveries, "discovery", "discoveries")),
  one.topics?.length && el("p", null, one.topics.join(", ")),
  one.touched?.length && el("p", { class: "touched" }, ...one.touched.map((thing) => (thing.uri ? el("a", { href: linkTo(thing.uri) }, thing.path || nameOf(thing.uri)) : el("span", null, thing.path)))));

const PARTS_OF_PROJECT = [
  ["discoveries", "Discoveries", discoveryEntry, "Nothing is recorded yet. Agents record what they learn, and find it again in their next session."],
  ["modules", "Modules", moduleEntry, "No modules are known yet. An agent finds them with context_scan."],
  ["sessions", "Sessions", sessionEntry, "No agent has worked here yet."],
];

async function openProject() {
  show("project");
  try {
    const project = await ask("api/project");
    const { name = "Project", description, stack = [], ...facts } = project.overview ?? {};
    $("project").replaceChildren(...[
      el("h1", null, name || "Project"),
      description && el("p", null, description),
      el("p", { class: "facts" }, ...[...new Set([...Object.values(facts), ...stack])].filter(Boolean).map((fact) => el("span", null, String(fact)))),
      project.error && el("p", { class: "error" }, project.error),
      ...PARTS_OF_PROJECT.flatMap(([key, title, entry, nothing]) => [el("h2", null, title), some(project[key], entry) ?? el("p", { class: "hint" }, nothing)]),
    ].filter(Boolean));
    document.title = `${name} · cellwright`;
  } catch (error) {
    if (!refusedDuring(error)) $("project").replaceChildren(el("h1", null, "Project"), el("p", null, error.message));
  }
}

// ---------------------------------------------------------------------------------------------- what is stale, and why

const hasStates = () => Boolean(shown.about && shown.uri?.startsWith("jupyter://"));

const refreshStates = oneByOne(async () => {
  if (!hasStates()) return;
  const { visit, uri, states } = shown;
  try {
    const { revision, whole, cells, top_to_bottom: given } = await asked("api/states", { uri, since: states.revision });
    if (visit !== shown.visit) return;
    const changed = new Map(Object.entries(cells));
    shown.states = { revision, cells: new Map([...(whole ? [] : states.cells), ...changed]) };
    for (const id of whole ? shown.order : changed.keys()) if (shown.cells.get(id)?.data) showState(shown.cells.get(id));
    showVerdict(given);
    drawGraphSoon();
  } catch (error) {
    if (visit === shown.visit) refusedDuring(error);
  }
});

function showVerdict(given) {
  $("standing").hidden = !given;
  $("verdict").textContent = verdict(given);
}

function openGraph(cell) {
  if (!hasStates() || $("graph").open) return;
  const from = cell ?? cellOf(document.activeElement)?.id;
  const cells = shown.order.map((id) => shown.cells.get(id));
  const first = from ? shown.order.indexOf(from) : cells.findIndex((one) => one.node.getBoundingClientRect().bottom > 80);
  const near = [...cells.slice(first), ...cells.slice(0, first).reverse()].find((one) => one.data?.kind === "code");
  $("graph-body").replaceChildren();
  Object.assign(drawGraph, { drawn: null, cell: near?.id ?? "", chosen: from && near?.id });
  $("graph").showModal();
  drawGraph();
}

const nodes = () => [...$("graph-body").querySelectorAll("[data-node]")];

async function drawGraph() {
  if (!$("graph").open) return;
  const { uri } = shown;
  try {
    const answer = await asked("api/graph", { uri, cell: drawGraph.cell });
    if (shown.uri !== uri || same(answer, drawGraph.drawn)) return;
    const focused = drawGraph.drawn ? document.activeElement.dataset.node : drawGraph.chosen;
    drawGraph.drawn = answer;
    $("graph-told").textContent = [verdict(answer.top_to_bottom), extent(answer)].filter(Boolean).join(". ");
    const listed = $("graph-body").querySelector("details:last-child")?.open;
    $("graph-body").replaceChildren(...graph(answer, listed, (id) => {
      $("graph").close();
      goTo(id);
    }));
    const node = nodes().find((one) => one.dataset.node === focused);
    if (node) chooseNode(nodes(), node);
  } catch (error) {
    if (!refusedDuring(error)) $("graph-told").textContent = error.message;
  }
}

const drawGraphSoon = soon(drawGraph, 200);

// ---------------------------------------------------------------------------------------------- what the kernel holds

/** Only notebooks have kernels, and only who may run code in one may look into it. */
function offerVariables(uri) {
  $("variables").open = false;
  $("variables").hidden = !uri.startsWith("jupyter://") || !me.scopes.includes("run");
  $("variables-body").replaceChildren();
}

async function variablesOf(uri, name) {
  return asked("api/variables", name === undefined ? { uri } : { uri, name });
}

const sorry = (error) => el("p", { class: "hint" }, error.message);

async function lookAtVariable(uri, name) {
  try {
    const { variables, missing } = await variablesOf(uri, name);
    return variables[name] ? variableDepth(variables[name]) : [el("p", { class: "hint" }, missing?.[name] ?? "It is not there any more")];
  } catch (error) {
    refusedDuring(error);
    return [sorry(error)];
  }
}

async function showVariables() {
  if (!$("variables").open) return;
  const { uri } = shown;
  $("variables-body").replaceChildren(el("p", { class: "hint" }, "Looking …"));
  let nodes;
  try {
    const { variables, more, note } = await variablesOf(uri);
    nodes = Object.keys(variables).length ? [variableTable(variables, (name) => lookAtVariable(uri, name))] : [el("p", { class: "hint" }, "The kernel has no variables yet")];
    if (more) nodes.push(el("p", { class: "hint" }, `and ${more.toLocaleString("en")} more`));
    if (note) nodes.push(el("p", { class: "hint" }, note));
  } catch (error) {
    if (refusedDuring(error)) return;
    nodes = [sorry(error)];
  }
  if (shown.uri === uri) $("variables-body").replaceChildren(...nodes);
}

// ---------------------------------------------------------------------------------------------- live, by server-sent events

const live = { source: null, last: "", epoch: null, wait: 500, timer: null };

const HEARD = {
  hello(data) {
    const restarted = live.epoch !== null && live.epoch !== data.epoch;
    live.epoch = data.epoch;
    if (me.version && data.version !== me.version) location.reload(); // the page itself may have changed
    else if (restarted) reloadAll();
  },
  reset: reloadAll,
  call(data) {
    takeCall(data);
    followTheCall(data);
  },
  run: takeRun,
  changed(data) {
    if (!isShown(data.uri)) return;
    shown.heard = data.revision;
    if (data.revision !== shown.about?.revision) refresh();
    drawGraphSoon();
  },
  states(data) {
    if (isShown(data.uri) && data.revision !== shown.states.revision) refreshStates();
  },
  things: thingsSoon,
  people(data) {
    if (!isShown(data.uri)) return;
    shown.people = data.people;
    showPeople();
  },
};

const isShown = (uri) => Boolean(shown.uri) && (uri === shown.uri || uri === shown.about?.uri || !shown.about);

function listen() {
  clearTimeout(live.timer);
  live.source?.close();
  if (!me.version) return;
  const parameters = new URLSearchParams({ uri: shown.uri ?? "", last: live.last });
  const source = (live.source = new EventSource(`api/events?${parameters}`));
  source.addEventListener("open", () => {
    live.wait = 500;
    showLive(true);
  });
  source.addEventListener("error", () => {
    showLive(false);
    if (source.readyState === EventSource.CLOSED) retryLater();
  });
  for (const [name, hear] of Object.entries(HEARD)) {
    source.addEventListener(name, (event) => {
      if (event.lastEventId) live.last = event.lastEventId;
      hear(JSON.parse(event.data || "{}"));
    });
  }
}

function retryLater() {
  live.wait = Math.min(live.wait * 2, 8000);
  clearTimeout(live.timer);
  live.timer = setTimeout(async () => {
    try {
      // A stream that was refused does not say why; the state does.
      const state = await ask("api/state");
      if (state.version !== me.version) location.reload();
      listen();
    } catch (error) {
      if (!refusedDuring(error)) retryLater();
    }
  }, live.wait);
}

function showLive(on) {
  $("live").classList.toggle("on", on);
  $("live-text").textContent = on ? "live" : "reconnecting";
}

function reloadAll() {
  loadThings();
  loadActivity();
  if (!$("project").hidden) openProject();
  if (shown.about) {
    refresh();
    refreshStates();
  } else if (shown.uri) openDocument(shown.uri, place().cell);
}

// A hidden tab gives its connection back: browsers allow six to a server, and a person has many tabs.
document.addEventListener("visibilitychange", () => {
  clearTimeout(live.hidden);
  if (document.hidden) live.hidden = setTimeout(() => live.source?.close(), HIDDEN_FOR_MS);
  else if (live.source?.readyState === EventSource.CLOSED) listen();
});

// ---------------------------------------------------------------------------------------------- what is in front

const me = { version: null, scopes: [] };
const SECTIONS = ["enter", "welcome", "trouble", "project", "reader"];

function show(section) {
  document.body.classList.toggle("out", section === "enter");
  for (const id of SECTIONS) $(id).hidden = id !== section;
  const project = section === "project";
  for (const [tab, current] of [["tab-project", project], ["tab-notebooks", !project]]) {
    if (current) $(tab).setAttribute("aria-current", "page");
    else $(tab).removeAttribute("aria-current");
  }
}

function showColumn(name) {
  document.body.dataset.view = name;
  for (const button of document.querySelectorAll(".views button")) {
    if (button.dataset.show === name) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Whether the failure was that nobody knows us here: then the way in is shown instead. */
function refusedDuring(error) {
  if (error.status !== 401) return false;
  live.source?.close();
  showLive(false);
  $("live-text").textContent = "signed out";
  if ($("enter").hidden) {
    $("enter-error").textContent = me.version ? "The server does not know this page any more: it was restarted, or its token was revoked." : "";
    show("enter");
    showColumn("document");
    $("token").focus();
  }
  return true;
}

async function enter(token) {
  try {
    await ask("api/enter", { body: {}, token });
    $("token").value = "";
    $("enter-error").textContent = "";
    return true;
  } catch (error) {
    if (error.status === 404) location.reload(); // inside Jupyter there is nothing to enter: its login is
    show("enter");
    $("enter-error").textContent = error.status === 401 ? "That token is not known here. A server that was started again has a new one." : error.message;
    return false;
  }
}

async function start() {
  let state;
  try {
    state = await ask("api/state");
  } catch (error) {
    if (!refusedDuring(error)) {
      showLive(false);
      setTimeout(start, (live.wait = Math.min(live.wait * 2, 8000)));
    }
    return;
  }
  Object.assign(me, state);
  $("you").textContent = state.workspace ?? "";
  $("you").title = `You are ${state.you}`;
  $("leave").hidden = !state.enter;
  $("tab-project").hidden = !state.parts.includes("project");
  shown.uri = null;
  loadThings();
  loadActivity();
  follow();
}

/** Show what the address says. */
function follow() {
  const { uri, cell, tab } = place();
  if (!me.version) return;
  if (uri) {
    showColumn("document");
    if (uri === shown.uri && shown.about) {
      show("reader");
      if (cell) goTo(cell);
    } else openDocument(uri, cell);
    return;
  }
  Object.assign(shown, { uri: null, about: null, visit: shown.visit + 1 });
  markCurrent();
  listen();
  if (tab === "project") openProject();
  else {
    show("welcome");
    welcome();
  }
  showColumn(tab ? "document" : innerWidth < 736 ? "things" : "document");
}

// ---------------------------------------------------------------------------------------------- keys

function rows() {
  const focus = document.activeElement;
  if ($("things").contains(focus)) return [...document.querySelectorAll("#things-list a")];
  if ($("activity").contains(focus)) return [...$("calls").children];
  if (!$("reader").hidden) return shown.order.map((id) => shown.cells.get(id).node);
  return [...document.querySelectorAll(".recent a, #things-list a")];
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const visible = all.findIndex((row) => row.getBoundingClientRect().bottom > 80);
  const next = all[at < 0 ? Math.max(0, visible) : Math.min(Math.max(at + by, 0), all.length - 1)];
  const cell = cellOf(next);
  if (cell) focusCell(cell);
  else next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function openRow() {
  const focus = document.activeElement;
  const cell = cellOf(focus);
  if (cell && focus === cell.node) {
    keepInAddress(cell.id);
    flash(cell, "marked", 4000);
    say("The address leads to this cell");
  } else if (focus?.classList.contains("call")) focus.querySelector("a")?.click();
}

const KEYS = {
  "/": () => {
    showColumn(getComputedStyle($("things")).display === "none" ? "things" : document.body.dataset.view);
    $("search").focus();
    $("search").select();
  },
  j: () => step(1),
  k: () => step(-1),
  c: () => {
    const cell = cellOf(document.activeElement) ?? tools.cell;
    if (cell) copy(cell.id, "Cell id");
  },
  d: () => openGraph(),
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches?.("input, textarea, select");
  if (event.key === "Escape" && typing) {
    if (event.target === $("search") && $("search").value) {
      $("search").value = "";
      loadThings();
    }
    event.target.blur();
    if (!$("reader").hidden) showColumn("document");
  } else if (event.key === "Enter" && !typing && !event.target.matches?.("a, button, summary")) openRow();
  else if (event.key === "ArrowDown" && event.target === $("search")) document.querySelector("#things-list a")?.focus();
  else if (typing || document.querySelector("dialog[open]") || !Object.hasOwn(KEYS, event.key)) return;
  else KEYS[event.key]();
  if (event.key !== "Enter" && event.key !== "Escape" && !typing) event.preventDefault();
});

// ---------------------------------------------------------------------------------------------- begin

$("cells").addEventListener("pointerover", offerTools);
$("cells").addEventListener("focusin", offerTools);
$("search").addEventListener("input", searchSoon);
$("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  document.querySelector("#things-list a")?.click();
});
$("enter-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await enter($("token").value.trim())) start();
});
$("leave").addEventListener("click", async () => {
  await ask("api/leave", { body: {} }).catch(() => null);
  location.reload();
});
$("variables").addEventListener("toggle", showVariables);
$("show-graph").addEventListener("click", () => openGraph());
$("close-graph").addEventListener("click", () => $("graph").close());
$("ask-help").addEventListener("click", () => $("help").showModal());
$("close-help").addEventListener("click", () => $("help").close());
$("follow").addEventListener("click", () => {
  $("follow").setAttribute("aria-pressed", String(!following()));
  followTheRun();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("document").focus();
});
for (const button of document.querySelectorAll(".views button")) button.addEventListener("click", () => showColumn(button.dataset.show));
addEventListener("hashchange", begin);

async function begin() {
  const token = takeToken();
  if (token === null) return me.version ? follow() : start();
  if (await enter(token)) await start();
}

begin();
