"""Requests that no schema foresaw: valid arguments made from the schemas of tools, then spoilt; and a wire that carries any bytes.

Each request is made from the seed and its number alone, and from the names of what exists at the time.
"""

import asyncio
import base64
import copy
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from adversarial_support import LEGACY, META, MODERN
from fuzz_texts import (
    CELL_SCHEMAS,
    FRACTIONS,
    HARMLESS,
    IDS,
    LANGUAGES,
    MARKDOWN,
    METHODS,
    NOTEBOOK,
    NUMBERS,
    PAD,
    PATHS,
    PATTERNS,
    PLACES,
    PROGRAMS,
    RAW_NUMBERS,
    RAW_VALUES,
    SCHEMES,
    SHAPES,
    WORDS,
    Raw,
)

OLDER = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY)
"""Versions of the protocol that begin with a handshake."""
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods of the stateless era whose subject is repeated in a header."""
LONGEST_HEADER = 4_000
EMPTY: tuple[Any, ...] = (None, True, False, [], {})
DEPTHS = (3, 20, 60, 90, 95, 96, 97, 98, 99, 100, 101, 200, 3_000)
"""Around 100 levels the gate says no."""
LONGEST_LIST = 20_000
"""Characters of a list that repeats itself."""
TASKS = "io.modelcontextprotocol/tasks"


class Pairs(list[tuple[str, Any]]):
    """An object whose names may stand twice."""

    __slots__ = ()


def written(value: Any) -> str:
    """JSON of a value, of what is `Raw` as it is."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        value = Pairs(cast("dict[str, Any]", value).items())
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(name)}:{written(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(inner) for inner in cast("list[Any]", value)) + "]"
    return json.dumps(value)


def nested(depth: int, begin: str = "[", end: str = "]", inside: str = "0") -> Raw:
    return Raw(begin * depth + inside + end * depth)


def repeated(value: Any, times: int) -> Raw:
    """A list of the same value, again and again, if not too long."""
    text = written(value)
    return Raw("[" + ",".join([text] * max(1, min(times, LONGEST_LIST // (len(text) + 1)))) + "]")


KINDS = {"valid": 15, "hostile": 30, "malformed": 55}
"""How the arguments of a call are made, and how many of a hundred so."""
RUNS = "openWorldHint"
RUN_SHARE = 0.006
"""How many of the calls that would run code are let reach a kernel: each costs as much as hundreds of others."""
COSTLY_SHARE = 0.1
COSTLY = frozenset({"workspace_doctor", "context_scan", "context_enrich", "search", "search_workspace", "search_nbs"})
"""Tools that look at everything there is, or start a kernel to see whether that works: so many calls may do so, the others cannot pass."""
MISSING = {
    "path": "nowhere/at/all.ipynb",
    "notebook": "nowhere",
    "notebook_name": "nowhere",
    "notebookId": "nowhere",
}
"""What tools that run code are given instead of something that exists; nothing is ever made under these names."""
WAITS = {"timeout": 0.3, "timeout_seconds": 0.3, "timeoutMs": 300, "progress_interval": 0.1}
"""Arguments that say how long a tool may wait, with what is asked for here."""
PATH_NAMES = frozenset(
    {"path", "notebook_path", "copyPath", "newPath", "to", "into", "source", "root_path", "url", "file_pattern", "id"}
)
SCHEMA_NAMES = frozenset({"json_schema", "schema"})
CODE_NAMES = frozenset({"source", "content", "cell_source", "code", "new", "old", "text"})


@dataclass
class Things:
    """What exists now, by the names of the arguments that point at it."""

    known: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def set(self, **named: Sequence[Any]) -> None:
        self.known.update({name: list(values) for name, values in named.items()})


@dataclass(frozen=True, slots=True)
class Offer:
    """What the server offers: its tools as JSON, its prompts, its templates of addresses."""

    tools: Sequence[Mapping[str, Any]]
    prompts: Sequence[Mapping[str, Any]]
    templates: Sequence[str]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it goes on the wire, but for the headers of the connection."""

    number: int
    modern: bool
    method: str
    subject: str
    """The tool, prompt or address that it is about."""
    kind: str
    """How it was made."""
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def told(self, seed: int) -> str:
        """Everything that is needed to send it again."""
        era = "stateless" if self.modern else "handshake"
        return (
            f"#{self.number} of seed {seed}, {era} era, {self.kind}: {self.method} {self.subject[:80]!a}: {self.body!r}"
        )


class Requests:
    """Makes requests, the same ones for the same seed."""

    def __init__(self, offer: Offer, things: Things, seed: int) -> None:
        self._offer = offer
        self._things = things
        self._seed = seed

    def make(self, number: int) -> Request:
        return _Making(random.Random(f"{self._seed}:{number}"), self._offer, self._things, number).request()


class _Making:
    """One request in the making, with the chance that decides about it."""

    def __init__(self, chance: random.Random, offer: Offer, things: Things, number: int) -> None:
        self._chance = chance
        self._offer = offer
        self._known = things.known
        self._number = number
        self._modern = chance.random() < 0.85

    def request(self) -> Request:
        (make,) = self._chance.choices(
            (self._tool_call, self._read, self._prompt, self._completion, self._other), (88, 5, 3, 3, 1)
        )
        method, params, subject, kind = make()
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        if self._modern and isinstance(params, dict):
            capabilities: dict[str, Any] = {"extensions": {TASKS: {}}} if self._chance.random() < 0.03 else {}
            meta: dict[str, Any] = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": capabilities}
            given = cast("dict[str, Any]", params)
            message["params"] = {**given, "_meta": {**given.get("_meta", {}), **meta}}
        spoils = self._chance.random()
        text: Any = message
        if spoils < 0.04:
            kind, text = "odd envelope", self._odd_envelope(message)
        raw = written(text)
        # What is beyond ASCII comes as escapes, and sometimes as bytes.
        body = raw.encode("utf-8", "surrogatepass")
        if self._chance.random() < 0.1 and "\\u" in raw and "\\\\" not in raw:
            body = _unescaped(raw)
        if 0.04 <= spoils < 0.08:
            kind, body = "odd bytes", self._odd_bytes(body)
        if len(subject) > LONGEST_HEADER:
            self._modern = False
        return Request(self._number, self._modern, method, subject, kind, body, tuple(self._headers(method, subject)))

    def _headers(self, method: str, subject: str) -> Iterator[tuple[str, str]]:
        if not self._modern:
            return
        odd = self._chance.random()
        yield ("MCP-Protocol-Version", MODERN)
        yield ("Mcp-Method", "tools/call" if odd < 0.003 else as_header(method))
        if method in NAMED_BY and not 0.003 < odd < 0.006:
            yield ("Mcp-Name", self._odd_header() if 0.006 < odd < 0.009 else as_header(subject))

    def _odd_header(self) -> str:
        """What may stand in a header and is not the name."""
        return re.sub(r"[^ -~]", "", self._chance.choice(WORDS)).strip()

    # -- tools ---------------------------------------------------------------------------------------------------------------

    def _tool_call(self) -> tuple[str, Any, str, str]:
        tool = self._chance.choice(self._offer.tools)
        name = str(tool["name"])
        kind = self._chance.choices(tuple(KINDS), tuple(KINDS.values()))[0]
        refused = name in COSTLY and self._chance.random() > COSTLY_SHARE
        kind = "malformed" if refused else kind
        arguments: Any = self.arguments(tool)
        if kind == "hostile":
            arguments = self._hostile(arguments)
        elif kind == "malformed":
            arguments = self._malformed(arguments, tool)
        if refused and (isinstance(arguments, dict) or not arguments):
            arguments = {**cast("dict[str, Any]", arguments or {}), "refused": self._any()}
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self._chance.random() < 0.02:
            params["_meta"] = {"progressToken": self._chance.choice((1, "x", "", None, [], 1.5, True, "\u202e"))}
        return "tools/call", params, name, kind

    def arguments(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that the tool takes, about things that exist."""
        schema = cast("Mapping[str, Any]", tool["inputSchema"])
        made = self._object(schema, schema.get("$defs", {}))
        properties = schema.get("properties", {})
        may_run = self._chance.random() < RUN_SHARE
        if "exec" in properties:
            made["exec"] = may_run
        for name in WAITS.keys() & properties.keys():
            made[name] = WAITS[name]
        if cast("Mapping[str, Any]", tool.get("annotations", {})).get(RUNS) and not may_run:
            made |= {name: missing for name, missing in MISSING.items() if name in properties}
        return made

    def _object(self, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
        needed = schema.get("required", ())
        return {
            name: self._valid(name, described, definitions)
            for name, described in schema.get("properties", {}).items()
            if name in needed or self._chance.random() < 0.35
        }

    def _valid(self, name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
        reference = schema.get("$ref", "")
        schema = definitions[reference.rpartition("/")[2]] if reference else schema
        if "anyOf" in schema:
            return self._valid(name, self._chance.choice(schema["anyOf"]), definitions)
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "array":
            count = self._chance.choice((0, 1, 1, 2, 3))
            return [self._valid(name, schema.get("items", {}), definitions) for _ in range(count)]
        if kind == "object" and "properties" in schema:
            return self._object(schema, definitions)
        return self._valid_single(name, schema)

    def _valid_single(self, name: str, schema: Mapping[str, Any]) -> Any:
        match schema.get("type"):
            case "object" if name in SCHEMA_NAMES:
                made = copy.deepcopy(self._chance.choice(CELL_SCHEMAS))
            case "object":
                made = {self._chance.choice(("a", "c0", "type")): self._chance.choice((1, "x", None, [1], {"b": 2}))}
            case "integer":
                low, high = schema.get("minimum", 0), schema.get("maximum", 5)
                made = self._chance.randint(low, max(low, min(high, low + 5)))
            case "number":
                made = float(schema.get("minimum", 0.1))
            case "boolean":
                made = self._chance.random() < 0.5
            case _:
                made = self._valid_text(name)
        return made

    def _valid_text(self, name: str) -> str:
        if name in self._known:
            return str(self._chance.choice(self._known[name]))
        if name == "language":
            return self._chance.choice(LANGUAGES)
        if name in CODE_NAMES:
            return self._chance.choice(HARMLESS)
        if name in {"query", "pattern", "filter"}:
            return self._chance.choice(("x", "print", "one", "text", "a b c"))
        return self._chance.choice(("x", "one", "c0", "pad"))

    # -- right types, wrong contents -------------------------------------------------------------------------------------------

    def _hostile(self, arguments: dict[str, Any]) -> dict[str, Any]:
        places = list(_leaves(arguments))
        for holder, key, name in self._chance.sample(places, min(len(places), self._chance.choice((1, 1, 1, 2, 3)))):
            holder[key] = self._like(holder[key], name)
        return arguments

    def _like(self, value: Any, name: str) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._chance.choice(NUMBERS)
        if isinstance(value, float):
            # Not longer than was asked for, where it says how long to wait.
            return self._chance.choice([one for one in FRACTIONS if name not in WAITS or one < 2])
        if isinstance(value, str):
            return self._text(name)
        return value

    def _text(self, name: str = "") -> str:
        sort = self._chance.random()
        if name in PATH_NAMES and sort < 0.75:
            return self._chance.choice(PATHS) if sort < 0.6 else self._uri()
        if name in {"pattern", "query", "filter", "file_pattern"} and sort < 0.6:
            return self._chance.choice(PATTERNS)
        if name in CODE_NAMES and sort < 0.5:
            return self._chance.choice(PROGRAMS) if sort < 0.25 else self._file()
        if sort < 0.9:
            return self._chance.choice(WORDS)
        if sort < 0.95:
            return self._chance.choice(WORDS) + self._chance.choice(WORDS) * self._chance.randint(1, 5)
        shape = self._chance.choice(SHAPES)
        return shape(self._chance.choices((60, 500, 3_000, 20_000, 100_000), (50, 30, 15, 4, 1))[0])

    def _file(self) -> str:
        """A notebook or a pad as a file holds it, with something wrong in it."""
        if self._chance.random() < 0.3:
            at = self._chance.randrange(len(MARKDOWN))
            odd = self._chance.choice((*WORDS, "```", "######", "<!--"))
            return MARKDOWN[:at] + odd + MARKDOWN[self._chance.choice((at, at + 1, at + 40)) :]
        spoilt = copy.deepcopy(self._chance.choice((NOTEBOOK, PAD)))
        places = list(_leaves(spoilt)) if self._chance.random() < 0.6 else list(_holders(spoilt))
        for holder, key, _ in self._chance.sample(places, self._chance.choice((1, 1, 2))):
            if self._chance.random() < 0.2 and isinstance(holder, dict):
                cast("dict[str, Any]", holder).pop(key, None)
            else:
                holder[key] = self._any()
        return written(spoilt)

    # -- wrong types and names -------------------------------------------------------------------------------------------------

    def _malformed(self, arguments: dict[str, Any], tool: Mapping[str, Any]) -> Any:
        names = list(tool["inputSchema"].get("properties", {}))
        ways = (self._about_one, self._about_one, self._wrong_values, self._wrong_values, self._about_all)
        return self._chance.choice(ways)(arguments, names)

    def _about_one(self, arguments: dict[str, Any], names: Sequence[str]) -> Any:
        """One argument is missing, too many, misspelt, given twice or in a wrapping."""
        if not arguments:
            return {self._odd_name(names): self._any()}
        name = self._chance.choice(list(arguments))
        value = arguments[name]
        others = {other: one for other, one in arguments.items() if other != name}
        wrapped = self._chance.choice(([value], {name: value}, None, [], {}))
        return self._chance.choice(
            (
                others,
                {**arguments, self._odd_name(names): self._any()},
                {**others, self._misspelt(name): value},
                Pairs([*arguments.items(), (name, self._any())]),
                {**others, name: wrapped},
            )
        )

    def _about_all(self, arguments: dict[str, Any], names: Sequence[str]) -> Any:
        """No object, or one with too much in it."""
        return self._chance.choice(
            (
                self._any(),
                [arguments],
                list(arguments.values()),
                list(arguments),
                written(arguments),
                {name: repeated(self._any(), self._chance.choice((1, 5, 100))) for name in names},
            )
        )

    def _wrong_values(self, arguments: dict[str, Any], names: Sequence[str]) -> Any:
        places = list(_leaves(arguments))
        if not places:
            return {self._odd_name(names): self._any()}
        for holder, key, _ in self._chance.sample(places, min(len(places), self._chance.choice((1, 1, 2)))):
            holder[key] = self._any()
        return arguments

    def _any(self) -> Any:
        """A value of any type."""
        ways: tuple[Callable[[], Any], ...] = (
            lambda: self._chance.choice(EMPTY),
            lambda: self._chance.choice(NUMBERS),
            lambda: self._chance.choice(FRACTIONS),
            lambda: Raw(self._chance.choice(RAW_NUMBERS)),
            lambda: Raw(self._chance.choice(RAW_VALUES)) if self._chance.random() < 0.3 else "",
            lambda: [self._text() for _ in range(self._chance.randrange(4))],
            lambda: {self._odd_name(["a"]): self._text()},
            lambda: nested(self._chance.choice(DEPTHS)),
            lambda: nested(self._chance.choice(DEPTHS), '{"a":', "}"),
            lambda: repeated({}, self._chance.choice((1, 50, 2_000))),
            self._text,
            self._text,
        )
        return self._chance.choice(ways)()

    def _odd_name(self, names: Sequence[str]) -> str:
        if names and self._chance.random() < 0.4:
            return self._misspelt(self._chance.choice(names))
        return self._text()

    def _misspelt(self, name: str) -> str:
        at = self._chance.randrange(len(name) + 1)
        return self._chance.choice(
            (
                name[:at] + name[at + 1 :],
                name[:at] + self._chance.choice("xX_ \x00\u202e\u0301\ud800") + name[at:],
                name.upper(),
                name.title(),
                name.replace("_", "-"),
                re.sub(r"_(\w)", lambda found: found[1].upper(), name),
                f" {name}",
                f"{name}.{name}",
                f"{name}[]",
                name[::-1],
            )
        )

    # -- the other methods -----------------------------------------------------------------------------------------------------

    def _uri(self) -> str:
        sort = self._chance.random()
        if sort < 0.15:
            return self._chance.choice(WORDS)
        if sort < 0.3:
            return re.sub(
                r"\{[^}]*\}", lambda _: self._chance.choice(PLACES)[:300], self._chance.choice(self._offer.templates)
            )
        return (
            self._chance.choice(SCHEMES)
            + self._chance.choice(("://", "://", "://", ":", ":/", "", "%3a//"))
            + self._chance.choice(PLACES)
        )

    def _read(self) -> tuple[str, Any, str, str]:
        uri: Any = self._uri() if self._chance.random() < 0.9 else self._chance.choice(self._known.get("uri", ["x"]))
        params: Any = {"uri": uri}
        if self._chance.random() < 0.1:
            params = self._chance.choice(({}, {"uri": self._any()}, {"uri": uri, "more": self._any()}, [uri], None))
        return "resources/read", params, uri, "address"

    def _prompt(self) -> tuple[str, Any, str, str]:
        prompt = self._chance.choice(self._offer.prompts)
        name = str(prompt["name"]) if self._chance.random() < 0.9 else self._chance.choice(WORDS)
        given: Any = {
            str(one["name"]): self._chance.choice(("n.ipynb", "0, 1-2", "c0"))
            if self._chance.random() < 0.5
            else self._text("path")
            for one in prompt.get("arguments", ())
            if self._chance.random() < 0.8
        }
        if self._chance.random() < 0.2:
            given = self._chance.choice(
                (self._any(), {self._odd_name(["path"]): self._text()}, {**given, "path": self._any()})
            )
        return "prompts/get", {"name": name, "arguments": given}, name, "prompt"

    def _completion(self) -> tuple[str, Any, str, str]:
        prompt = self._chance.choice(self._offer.prompts)
        reference: Any = self._chance.choice(
            (
                {"type": "ref/prompt", "name": prompt["name"]},
                {"type": "ref/resource", "uri": self._chance.choice(self._offer.templates)},
                {"type": "ref/resource", "uri": self._uri()},
            )
        )
        wanted = (
            "path",
            "id",
            "cell",
            "session",
            "notebook",
            "code",
            "name",
            "format",
            "n",
            "limit",
            "type",
            "module",
            "pattern",
        )
        argument: Any = {"name": self._chance.choice(wanted), "value": self._text("path")}
        params: Any = {"ref": reference, "argument": argument}
        if self._chance.random() < 0.3:
            chosen = {self._chance.choice(wanted): self._text("path") for _ in range(2)}
            params["context"] = {"arguments": chosen}
        if self._chance.random() < 0.2:
            params[self._chance.choice(("ref", "argument", "context"))] = self._any()
        return "completion/complete", params, "", "completion"

    def _other(self) -> tuple[str, Any, str, str]:
        # What stays open by design has a test of its own.
        method = self._chance.choice(METHODS)
        cursor = self._chance.choice(("0", "200", "-1", "x", "9" * 30, "\u0660", ""))
        params = self._chance.choice(
            ({}, {"cursor": cursor}, {"cursor": self._any()}, {"taskId": self._text()}, {"uri": self._uri()})
        )
        return method, params, "", "method"

    # -- around the arguments --------------------------------------------------------------------------------------------------

    def _odd_envelope(self, message: dict[str, Any]) -> Any:
        odd = self._any()
        ways: tuple[Any, ...] = (
            {**message, "id": self._chance.choice(IDS)},
            {**message, "jsonrpc": self._chance.choice(("1.0", "2", 2, None, "", odd))},
            {**message, "params": odd},
            {**message, "method": odd},
            {name: value for name, value in message.items() if name != self._chance.choice(list(message))},
            {**message, self._text(): odd},
            Pairs([*message.items(), (self._chance.choice(list(message)), odd)]),
            [message],
            [message, message],
            [],
            odd,
            {"jsonrpc": "2.0", "id": self._number, "result": odd},
            {"jsonrpc": "2.0", "id": self._number, "error": {"code": odd, "message": odd}},
        )
        return self._chance.choice(ways)

    def _odd_bytes(self, body: bytes) -> bytes:
        at = self._chance.randrange(len(body) + 1)
        odd = self._chance.choice(
            (
                b"",
                b"\xff",
                b"\xc0\xaf",
                b"\xed\xa0\x80",
                b"\xf5\x80\x80\x80",
                b"\x00",
                b"\xef\xbb\xbf",
                b'"',
                b"}",
                b"[",
                b"\\",
                b",",
            )
        )
        return self._chance.choice(
            (
                body[:at],
                body[:at] + odd + body[at:],
                body[:at] + odd + body[at + 1 :],
                body[at:],
                b"\xef\xbb\xbf" + body,
                body + body,
                body.decode("utf-8", "replace").encode("utf-16"),
                body.replace(b'"', b"'"),
                b" " * 2_000 + body + b"\n" * 2_000,
                b"[" * self._chance.choice((50, 101, 50_000)),
                bytes(self._chance.randrange(256) for _ in range(40)),
            )
        )


def _leaves(holder: Any, name: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Where single values stand: the list or object that holds one, its place there, the name of the argument."""
    places: list[Any] = list(cast("dict[str, Any]", holder) if isinstance(holder, dict) else range(len(holder)))
    for place in places:
        known_as = place if isinstance(place, str) else name
        if isinstance(holder[place], dict | list) and holder[place]:
            yield from _leaves(holder[place], known_as)
        else:
            yield holder, place, known_as


def _holders(holder: Any, name: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Where lists and objects stand, as in `_leaves`; inner ones after those that hold them."""
    places: list[Any] = list(cast("dict[str, Any]", holder) if isinstance(holder, dict) else range(len(holder)))
    for place in places:
        if isinstance(holder[place], dict | list):
            yield holder, place, name
            yield from _holders(holder[place], name)


def _unescaped(text: str) -> bytes:
    """The same JSON with what was escaped beyond ASCII as bytes, also where there is no such character."""
    return re.sub(
        r"\\u(?!00[01])([0-9a-f]{4})",
        lambda found: chr(int(found[1], 16)).replace('"', '\\"').replace("\\", "\\\\"),
        text,
    ).encode("utf-8", "surrogatepass")


def as_header(value: str) -> str:
    """How the stateless era writes a name into a header."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


# -- the wire ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    def message(self) -> Any:
        """The message of the protocol in it; the last one, where it came as events. None if there is none."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in self.body.splitlines() if line.startswith(b"data: {")]
            return json.loads(lines[-1][6:]) if lines else None
        return json.loads(self.body) if self.body else None


class Line:
    """One connection that is used again and again, and the session of the handshake era on it."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        common = {
            "Host": f"127.0.0.1:{port}",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self._common = "".join(f"{name}: {value}\r\n" for name, value in common.items())
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._session: tuple[tuple[str, str], ...] = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def send(self, request: Request) -> Reply:
        """Send it. One of the handshake era goes into a session, which is begun where there is none."""
        if request.modern:
            return await self._exchange(request.body, request.headers)
        if not self._session:
            await self._shake_hands(OLDER[request.number % len(OLDER)])
        reply = await self._exchange(request.body, self._session)
        if reply.status == 404 and b"ession" in reply.body:
            self._session = ()
        return reply

    async def _shake_hands(self, version: str) -> None:
        info = {"name": "fuzz", "version": "0"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        reply = await self._exchange(json.dumps(opening).encode(), ())
        assert reply.status == 200, reply
        self._session = (("Mcp-Session-Id", reply.headers["mcp-session-id"]), ("MCP-Protocol-Version", version))
        await self._exchange(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', self._session)

    async def get(self, path: str) -> Reply:
        return await self._exchange(b"", (), f"GET {path}")

    async def _exchange(self, body: bytes, headers: Sequence[tuple[str, str]], what: str = "POST /mcp") -> Reply:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=64 * 1024 * 1024)
        more = "".join(f"{name}: {value}\r\n" for name, value in headers)
        began = time.monotonic()
        self._writer.write(
            f"{what} HTTP/1.1\r\n{self._common}{more}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        got = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        content = await self._content(self._reader, got)
        reply = Reply(int(head[0].split(" ")[1]), got, content, time.monotonic() - began)
        if got.get("connection", "").lower() == "close":
            self.close()
        return reply

    async def _content(self, reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await reader.readexactly(int(headers.get("content-length", "0")))
        chunks: list[bytes] = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            chunks.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(chunks)
