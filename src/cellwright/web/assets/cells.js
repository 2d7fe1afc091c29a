// What is in a cell, as nodes: code with its colours, prose, outputs.
//
// Everything a notebook says is untrusted. It becomes text nodes, never markup; links are checked; HTML and SVG that a notebook made
// are shown in frames that can run nothing.

const LONG_LINES = 40;
const COLOURED_CHARS = 60_000;
const PARAGRAPH_CHARS = 20_000;
const NESTING = 8;

export function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(Boolean)); // `condition && child` leaves nothing behind, not even a 0
  return node;
}

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// ---------------------------------------------------------------------------------------------- colouring of code

const PYTHON = "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const SCRIPT = "async|await|break|case|catch|class|const|continue|default|delete|do|else|export|extends|false|finally|for|from|function|if|import|in|instanceof|interface|let|new|null|of|return|static|struct|super|switch|this|throw|true|try|type|typeof|undefined|var|void|while|yield";
const OTHERS = "abstract|begin|case|do|done|echo|elif|else|elseif|end|esac|export|FALSE|false|fi|for|function|if|in|library|local|macro|module|mutable|NULL|return|struct|then|TRUE|true|using|while";
const QUERIES = "all|and|as|asc|by|case|count|create|delete|desc|distinct|drop|else|end|exists|from|full|group|having|in|inner|insert|into|is|join|left|like|limit|not|null|offset|on|or|order|outer|over|partition|right|select|set|table|then|union|update|values|view|when|where|with";
const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const TRIPLES = String.raw`"""(?:\\[\s\S]|[^\\])*?(?:"""|$)|'''(?:\\[\s\S]|[^\\])*?(?:'''|$)`;
const NUMBERS = String.raw`\b(?:0[xob][\da-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?j?)\b`;

const grammar = (comments, strings, keywords, flags = "g") =>
  new RegExp(`(${comments})|(${strings})|\\b(${keywords})\\b|(${NUMBERS})`, flags);
const PYTHON_LIKE = grammar("#.*", `\\b[rbfu]{0,2}(?:${TRIPLES}|${STRINGS})|${TRIPLES}|${STRINGS}`, PYTHON);
const SCRIPT_LIKE = grammar(String.raw`//.*|/\*[\s\S]*?(?:\*/|$)`, `\`[^\`]*\`?|${STRINGS}`, SCRIPT);
const HASH_LIKE = grammar("#.*", STRINGS, OTHERS);
const QUERY_LIKE = grammar(String.raw`--.*|/\*[\s\S]*?(?:\*/|$)`, STRINGS, QUERIES, "gi");
const GRAMMARS = {
  python: PYTHON_LIKE, python3: PYTHON_LIKE, ipython: PYTHON_LIKE, py: PYTHON_LIKE,
  javascript: SCRIPT_LIKE, js: SCRIPT_LIKE, typescript: SCRIPT_LIKE, ts: SCRIPT_LIKE, rust: SCRIPT_LIKE, go: SCRIPT_LIKE, java: SCRIPT_LIKE,
  c: SCRIPT_LIKE, cpp: SCRIPT_LIKE, "c++": SCRIPT_LIKE, json: SCRIPT_LIKE,
  r: HASH_LIKE, julia: HASH_LIKE, bash: HASH_LIKE, shell: HASH_LIKE, sh: HASH_LIKE, yaml: HASH_LIKE, toml: HASH_LIKE, ruby: HASH_LIKE,
  sql: QUERY_LIKE, postgresql: QUERY_LIKE, sqlite: QUERY_LIKE,
};
const CLASSES = ["", "c", "s", "k", "n"];

export function coloured(source, language) {
  const rule = Object.hasOwn(GRAMMARS, language) ? GRAMMARS[language] : null;
  if (!rule || source.length > COLOURED_CHARS) return [source];
  const pieces = [];
  let end = 0;
  for (const found of source.matchAll(rule)) {
    if (found.index > end) pieces.push(source.slice(end, found.index));
    pieces.push(el("span", { class: CLASSES[found.findIndex((group, n) => n > 0 && group !== undefined)] }, found[0]));
    end = found.index + found[0].length;
  }
  pieces.push(source.slice(end));
  return pieces;
}

// ---------------------------------------------------------------------------------------------- prose: Markdown into nodes

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;
const SAFE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

export function safeLink(address) {
  try {
    // The URL as the browser will take it: what stands before the colon is its scheme, whatever was hidden in it.
    return SAFE_LINK.test(address) && SAFE_LINK.test(new URL(address).href) ? new URL(address).href : null;
  } catch {
    return null;
  }
}

function link(address, children) {
  const href = safeLink(address);
  return href ? el("a", { href, rel: "noopener noreferrer", target: "_blank" }, ...children) : el("span", null, ...children);
}

function picture(address, text, attachments) {
  const given = address.startsWith("attachment:") ? attachments?.[address.slice("attachment:".length)] : address;
  if (typeof given === "string" && SAFE_IMAGE.test(given)) return el("img", { src: given, alt: text });
  return el("span", { class: "hint" }, `[image: ${text || address}]`);
}

const INLINE = new RegExp(
  [
    String.raw`\\([!-/:-@[-\`{-~])`, // 1: an escape
    "(`+)(?!`)([\\s\\S]{0,2000}?[^`])\\2(?!`)", // 2, 3: code
    String.raw`\$\$?(?!\s)([^$\n]{1,400}?[^\s\\$])\$\$?(?!\d)`, // 4: mathematics
    String.raw`(!?)\[((?:\\.|[^\[\]\\]){0,400}(?:\[[^\[\]]{0,200}\][^\[\]]{0,200})?)\]\(\s{0,40}<?([^\s()<>]{0,4000}(?:\([^\s()<>]{0,400}\)[^\s()<>]{0,400})?)>?(?:\s{1,40}["'(][^"')]{0,400}["')])?\s{0,40}\)`, // 5, 6, 7: link or image
    String.raw`<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>`, // 8: an address in angles
    String.raw`(<br\s*\/?>)`, // 9
    String.raw`\*\*\*(?=\S)([^*]{0,1000}\S)\*\*\*`, // 10: both
    String.raw`(\*\*|__)(?=\S)([\s\S]{0,1000}?\S)\11`, // 11, 12: strong
    String.raw`(\*|_)(?=\S)((?:\*\*[^*]*\*\*|[^*_]){0,2000}?\S)\13(?!\w)`, // 13, 14: stressed
    String.raw`~~(?=\S)([\s\S]{0,1000}?\S)~~`, // 15: struck
    String.raw`(https?:\/\/[^\s<>"')\]]{1,2000}[^\s<>"')\].,;:!?])`, // 16: a bare address
  ].join("|"),
  "gi",
);

function inline(text, attachments, depth = 0) {
  if (text.length > PARAGRAPH_CHARS || depth > NESTING) return [text];
  const nodes = [];
  const within = (piece) => inline(piece, attachments, depth + 1);
  let end = 0;
  for (const m of text.matchAll(INLINE)) {
    if (m[13] === "_" && /\w/.test(text[m.index - 1] ?? "")) continue; // snake_case is no stress
    nodes.push(text.slice(end, m.index));
    end = m.index + m[0].length;
    if (m[1] !== undefined) nodes.push(m[1]);
    else if (m[3] !== undefined) nodes.push(el("code", null, m[3].replace(/^ (.*) $/s, "$1")));
    else if (m[4] !== undefined) nodes.push(el("span", { class: "math" }, m[4]));
    else if (m[7] !== undefined) nodes.push(m[5] ? picture(m[7], m[6], attachments) : link(m[7], within(m[6])));
    else if (m[8] !== undefined) nodes.push(link(m[8], [m[8]]));
    else if (m[9] !== undefined) nodes.push(el("br"));
    else if (m[10] !== undefined) nodes.push(el("strong", null, el("em", null, ...within(m[10]))));
    else if (m[12] !== undefined) nodes.push(el("strong", null, ...within(m[12])));
    else if (m[14] !== undefined) nodes.push(el("em", null, ...within(m[14])));
    else if (m[15] !== undefined) nodes.push(el("del", null, ...within(m[15])));
    else nodes.push(link(m[16], [m[16]]));
  }
  nodes.push(text.slice(end));
  return nodes;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+([^\n]*))?$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const QUOTE = /^ {0,3}>\s?/;

const rowOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
const isTableRule = (line) => rowOf(line).every((cell) => /^:?-+:?$/.test(cell));
const isBroken = (line) => line.endsWith("  ") || line.endsWith("\\");

function tableAt(lines, at, attachments) {
  const row = (name, line) => el("tr", null, ...rowOf(line).slice(0, 64).map((cell) => el(name, null, ...inline(cell, attachments))));
  const table = el("table", null, el("thead", null, row("th", lines[at])));
  const body = table.appendChild(el("tbody"));
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|"); next++) body.append(row("td", lines[next]));
  return [el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table" }, table), next];
}

function listAt(lines, at, attachments, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const list = el(ordered ? "ol" : "ul", { start: ordered && parseInt(first[2], 10) !== 1 ? parseInt(first[2], 10) : null });
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || /\d/.test(item[2]) !== ordered || RULE.test(lines[next])) break;
    const inset = Math.min(item[0].length || 2, item[1].length + item[2].length + 4);
    const own = [lines[next].slice(item[0].length)];
    for (next++; next < lines.length; next++) {
      const line = lines[next];
      const blank = line.trim() === "";
      if (!blank && line.search(/\S/) < inset && (ITEM.test(line) || own.at(-1) === "" || FENCE.test(line) || HEADING.test(line))) break;
      own.push(blank ? "" : line.slice(Math.min(inset, line.search(/\S/))));
    }
    list.append(listItem(own, attachments, depth));
  }
  return [list, next];
}

function listItem(lines, attachments, depth) {
  while (lines.at(-1) === "") lines.pop();
  const task = /^\[([ xX])\]\s+/.exec(lines[0]);
  if (task) lines[0] = `${task[1] === " " ? "☐" : "☑"} ${lines[0].slice(task[0].length)}`;
  const blocks = blocksOf(lines, attachments, depth + 1);
  // A tight item is a line, not a paragraph.
  const children = !lines.includes("") && blocks[0]?.tagName === "P" ? [...blocks[0].childNodes, ...blocks.slice(1)] : blocks;
  return el("li", { class: task && "task" }, ...children);
}

function blocksOf(lines, attachments, depth = 0) {
  if (depth > NESTING) return [el("p", null, lines.join("\n"))];
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      at++;
    } else if (fence) {
      let end = at + 1;
      while (end < lines.length && !(lines[end].trim().startsWith(fence[1]) && /^\s*[`~]+\s*$/.test(lines[end]))) end++;
      blocks.push(el("pre", { tabindex: 0 }, el("code", null, ...coloured(lines.slice(at + 1, end).join("\n"), fence[2].toLowerCase()))));
      at = end + 1;
    } else if (heading) {
      blocks.push(el(`h${heading[1].length}`, null, ...inline((heading[2] ?? "").trim().replace(/(?:^|\s)#+$/, "").trimEnd(), attachments)));
      at++;
    } else if (RULE.test(line)) {
      blocks.push(el("hr"));
      at++;
    } else if (QUOTE.test(line)) {
      let end = at;
      while (end < lines.length && lines[end].trim() !== "" && (QUOTE.test(lines[end]) || end > at)) end++;
      blocks.push(el("blockquote", null, ...blocksOf(lines.slice(at, end).map((one) => one.replace(QUOTE, "")), attachments, depth + 1)));
      at = end;
    } else if (ITEM.test(line)) {
      const [list, next] = listAt(lines, at, attachments, depth);
      blocks.push(list);
      at = next;
    } else if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) {
      const [table, next] = tableAt(lines, at, attachments);
      blocks.push(table);
      at = next;
    } else if (/^ {4}\S/.test(line)) {
      let end = at;
      while (end < lines.length && (/^ {4}/.test(lines[end]) || lines[end].trim() === "")) end++;
      blocks.push(el("pre", { tabindex: 0 }, el("code", null, lines.slice(at, end).map((one) => one.slice(4)).join("\n").trimEnd())));
      at = end;
    } else {
      at = paragraphAt(lines, at, blocks, attachments);
    }
  }
  return blocks;
}

function paragraphAt(lines, at, blocks, attachments) {
  let end = at + 1;
  const stops = (line) => line.trim() === "" || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line) || ITEM.test(line);
  while (end < lines.length && !/^ {0,3}(?:=+|-+)\s*$/.test(lines[end]) && !stops(lines[end])) end++;
  // By hand, as all that looks for spaces at an end: a pattern tries each of a thousand spaces anew.
  const line = (one) => (isBroken(one) ? `${one.replace(/\\$/, "").trim()}<br>` : `${one.trimStart()}\n`);
  const text = lines.slice(at, end - 1).map(line).join("") + lines[end - 1].trimStart();
  const under = /^ {0,3}(=+|-+)\s*$/.exec(lines[end] ?? "");
  blocks.push(el(under ? (under[1][0] === "=" ? "h1" : "h2") : "p", null, ...inline(text.trimEnd(), attachments)));
  return under ? end + 1 : end;
}

export const prose = (text, attachments) =>
  el("div", { class: "prose" }, ...blocksOf(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), attachments));

// ---------------------------------------------------------------------------------------------- outputs

const pre = (text, label) => el("pre", { class: "text", tabindex: 0, role: "group", "aria-label": label }, text);

function textOutput(text, { stream, truncated }) {
  const box = el("div", { class: `output ${stream === "stderr" ? "stderr" : ""}` }, pre(text.replace(/\n$/, ""), stream === "stderr" ? "Error stream" : "Output"));
  const lines = text.split("\n").length;
  if (lines > LONG_LINES) {
    box.classList.add("long");
    box.append(el("button", { type: "button", class: "link more", click: (event) => {
      box.classList.remove("long");
      event.currentTarget.remove();
    } }, `Show all ${plural(lines, "line")}`));
  }
  if (truncated) box.append(el("p", { class: "hint" }, "Cut here; the notebook holds the whole output."));
  return box;
}

function failure({ name, value, traceback }) {
  const told = el("p", null, el("b", null, name || "Error"), value ? `: ${value}` : "");
  const box = el("div", { class: "output failure", role: "group", "aria-label": "Error" }, told);
  if (traceback) box.append(el("details", null, el("summary", null, "Traceback"), pre(traceback, "Traceback")));
  return box;
}

function frame({ frame: src, text, type }) {
  const lines = (text ?? "").split("\n").length;
  const shown = el("iframe", { sandbox: "", src, loading: "lazy", title: type === "svg" ? "Drawing made by the notebook" : "HTML made by the notebook", referrerpolicy: "no-referrer" });
  shown.style.height = `${type === "svg" ? 360 : Math.min(Math.max(lines * 24 + 32, 96), 480)}px`;
  const box = el("div", { class: "output" }, shown);
  if (text) box.append(el("details", { class: "hint" }, el("summary", null, "As text"), pre(text, "The same as text")));
  return box;
}

export function output(out) {
  if (out.type === "text") return textOutput(String(out.text ?? ""), out);
  if (out.type === "error") return failure(out);
  if (out.type === "image" && SAFE_IMAGE.test(out.src)) return el("div", { class: "output" }, el("img", { src: out.src, alt: out.alt || "Picture made by the notebook", decoding: "async" }));
  if ((out.type === "html" || out.type === "svg") && /^api\/frame\?/.test(out.frame)) return frame(out);
  if (out.type === "markdown") return el("div", { class: "output" }, prose(String(out.text ?? "")));
  if (out.type === "json") return el("div", { class: "output" }, el("pre", { class: "text", tabindex: 0, role: "group", "aria-label": "JSON" }, ...coloured(String(out.text ?? ""), "json")));
  return textOutput(String(out.text ?? ""), {});
}
