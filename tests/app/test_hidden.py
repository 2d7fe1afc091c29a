"""No hidden or control character reaches a model, wherever it comes from: a hostile notebook, hostile names, pads, kernels, arguments."""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote

import httpx2
import pytest
from mcp import MCPError

from cellwright.app.protocol.convert import brief_errors
from cellwright.core.text.clean import may_hide, shown
from extension_support import ExtensionProcess, modern
from requirements import requirement
from tour import MAIN, TEXT, TOUR

HIDDEN = "\u200b\u202e\x1b[J\U000e0041\ufeff\x08\x7f\x9bJ"
"""Zero width, right to left, what clears a screen, a tag, a byte order mark, backspace, delete, and once more in eight bits."""
EVIL, EVIL_TEXT = "evil\u200b\u202ename\U000e0041.ipynb", "no\u200btes\u202e.md"
IGNORED = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
# Jupyter's own words for a failure come from its parts, and whatever they repeat.
REFUSING = f"""
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

class Refusing(AsyncLargeFileManager):
    async def get(self, path, *arguments, **named):
        if "refused" in path:
            raise HTTPError(int(path.partition("-")[2][:3]), {HIDDEN!r})
        return await super().get(path, *arguments, **named)

c.ServerApp.contents_manager_class = Refusing
"""
WHOLE_TOUR = pytest.mark.timeout(300)
HTTP = httpx2.Client(timeout=120)


def hidden_in(text: str) -> list[str]:
    """What a person would not see in the text, by Unicode's own tables."""
    return [
        f"U+{ord(one):04X}"
        for one in text.replace("\r\n", "\n")
        if (unicodedata.category(one) in {"Cc", "Cf", "Cs"} and one not in "\n\t") or ord(one) in IGNORED
    ]


def strings(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text and key in an answer, with where it stands."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield f"{where}.(key)", key
            yield from strings(item, f"{where}.{shown(key)}")
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from strings(item, f"{where}[{number}]")


def evil_output(**more: Any) -> dict[str, Any]:
    return {"metadata": {f"key{HIDDEN}": HIDDEN}, **more}


def evil_notebook(language: str = "python") -> dict[str, Any]:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": f"tide{HIDDEN}\n"},
        {"output_type": "error", "ename": f"Tide{HIDDEN}", "evalue": HIDDEN, "traceback": [f"at{HIDDEN}"]},
        evil_output(output_type="display_data", data={"application/json": {f"tide{HIDDEN}": [HIDDEN, {"a": HIDDEN}]}}),
        evil_output(output_type="display_data", data={f"text/x-tide{HIDDEN}": f"tide{HIDDEN}"}),
        evil_output(
            output_type="display_data", data={"text/html": f"<b>tide&#8203;{HIDDEN}</b>", "text/plain": HIDDEN}
        ),
        evil_output(output_type="execute_result", execution_count=1, data={"text/plain": f"tide{HIDDEN}"}),
    ]
    about = {"tags": [f"tag{HIDDEN}"], f"key{HIDDEN}": HIDDEN}
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": "one", "metadata": about, "source": f"tide = 1 # {HIDDEN}", "outputs": outputs},
        {"cell_type": "markdown", "id": f"two{HIDDEN}", "metadata": about, "source": f"# tide{HIDDEN}"},
        {"cell_type": "raw", "id": "three\u200b", "metadata": {}, "source": f"tide{HIDDEN}"},
    ]
    cells[0]["execution_count"] = 1
    spec = {"name": f"python{HIDDEN}", "display_name": f"Python{HIDDEN}", "language": language}
    metadata = {"kernelspec": spec, "title": f"tide{HIDDEN}", f"key{HIDDEN}": HIDDEN}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    """A Jupyter server whose files, kernels and folders have hostile names."""
    home = tmp_path_factory.mktemp("hidden")
    process = ExtensionProcess(home, "--CellwrightExtension.options={'toolsets': 'all', 'rate': 0}", config=REFUSING)
    (process.root / f"dir{HIDDEN.replace('/', '')}").mkdir()
    (process.root / EVIL).write_text(json.dumps(evil_notebook()), encoding="utf-8")
    (process.root / "language.ipynb").write_text(json.dumps(evil_notebook(f"py{HIDDEN}")), encoding="utf-8")
    (process.root / "evil.ipynb").write_text(json.dumps(evil_notebook()), encoding="utf-8")
    (process.root / EVIL_TEXT).write_text(f"tide{HIDDEN}\rtide", encoding="utf-8")
    (process.root / "tide.py").write_text(f"import tide{HIDDEN}\ntide = '{HIDDEN}'\n", encoding="utf-8")
    (process.root / f"tide\u200b{HIDDEN}.py").write_text("tide = 1\n", encoding="utf-8")
    kernel = home / "data_dir" / "kernels" / "evil"
    kernel.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": f"py{HIDDEN}"}
    (kernel / "kernel.json").write_text(json.dumps({**spec, "display_name": f"Evil{HIDDEN}"}), encoding="utf-8")
    with process:
        yield process


class Reader:
    """Reads what a model is given, and keeps what it would not have seen."""

    def __init__(self, server: ExtensionProcess) -> None:
        self.server = server
        self.found: set[str] = set()
        self.read = 0
        self.refusal = ""

    def ask(self, method: str, /, about: str = "", **params: Any) -> Any:
        request = modern(method, **params)
        if not str(request["headers"].get("Mcp-Name", "")).isascii():
            del request["headers"]["Mcp-Name"]
        if method == "resources/read":
            request["headers"]["Mcp-Name"] = params["uri"]
        answer = HTTP.post(self.server.mcp, json=request["json"], headers={**request["headers"], **self.server.headers})
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
        messages = [json.loads(line) for line in lines if line.startswith("{")]
        for message in messages:
            for where, text in strings(message):
                self.read += 1
                if found := hidden_in(text):
                    self.found.add(f"{method} {about}{where}: {sorted(set(found))}")
        return messages[-1]

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The structured answer; None of a call that failed."""
        answer = self.ask("tools/call", tool, name=tool, arguments=arguments)
        result = answer.get("result", {})
        if result.get("isError") or "error" in answer:
            self.refusal = str(answer)
            return None
        return result.get("structuredContent", {})


def replaced(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """JSON with each text changed; `change` is also told under which key it stands."""
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {name: replaced(item, change, name) for name, item in found.items()}
    if isinstance(value, list):
        return [replaced(item, change, key) for item in cast("list[Any]", value)]
    return change(value, key) if isinstance(value, str) else value


def hostile(text: str, key: str) -> str:
    """A text that hides something; code has it in a comment, and choices from a list stay as they are."""
    if key in {"content", "source", "cell_source", "code", "new"}:
        return f"{text} # {HIDDEN}"
    return (
        f"{text}{HIDDEN}" if key in {"title", "text", "query", "tags", "problem", "description", "filename"} else text
    )


@requirement("hidden:tools")
@WHOLE_TOUR
def test_no_tool_says_anything_hidden(server: ExtensionProcess) -> None:
    reader = Reader(server)
    answers: dict[str, Any] = {}
    for step in TOUR:
        plain = step.made(answers)
        for arguments in (replaced(plain, hostile), plain):
            if (answer := reader.call(step.tool, arguments)) is not None:
                answers[step.tool] = answer
                break
        assert step.tool in answers, f"{step.tool}: {reader.refusal}"
    assert reader.read > 1_000
    assert sorted(reader.found) == []


@requirement("hidden:tools")
@WHOLE_TOUR
def test_no_tool_says_anything_hidden_of_a_hostile_notebook(server: ExtensionProcess) -> None:
    """Each tool once more, on notebooks, files and pads that others made; what it does not take it refuses without repeating it."""
    reader = Reader(server)
    answers: dict[str, Any] = {}
    reader.call("use_notebook", {"notebook_name": f"evil{HIDDEN}", "notebook_path": EVIL})
    for pad, source in (("evil", "evil.ipynb"), ("worse", EVIL)):
        assert reader.call("import_notebook", {"source": source, "into": f"scratchpad://{pad}"}) is not None, (
            reader.refusal
        )
    names = {MAIN: EVIL, TEXT: EVIL_TEXT, "pad": "evil", "tide.py": f"tide\u200b{HIDDEN}.py", "python3": "evil"}

    worked: set[str] = set()
    for step in TOUR:
        try:
            arguments = replaced(step.made(answers), lambda text, _key: names.get(text, text))
        except (KeyError, IndexError):
            continue
        if step.tool.startswith(("delete_document", "scratch_delete")):
            continue
        if (answer := reader.call(step.tool, arguments)) is not None:
            answers[step.tool] = answer
            worked.add(step.tool)
    assert worked >= {
        "read_nb_cells",
        "get_nb_stat",
        "list_nbs",
        "list_available_kernels",
        "scratch_read",
        "read_cells",
    }
    assert sorted(reader.found) == []


@requirement("hidden:errors")
@WHOLE_TOUR
def test_no_refusal_repeats_anything_hidden(server: ExtensionProcess) -> None:
    reader = Reader(server)
    tools = reader.ask("tools/list")["result"]["tools"]
    assert len(tools) > 80
    for tool in tools:
        schema = tool["inputSchema"].get("properties", {})
        texts = {name: HIDDEN for name, about in schema.items() if about.get("type") == "string"}
        for arguments in ({f"name{HIDDEN}": 1}, texts, dict.fromkeys(texts, f"../{HIDDEN}")):
            if tool["annotations"]["readOnlyHint"] or "path" in texts:
                reader.call(tool["name"], arguments)
    reader.ask("tools/call", name=f"tool{HIDDEN}", arguments={})
    reader.ask("resources/read", uri=f"jupyter://no{quote(HIDDEN)}.ipynb")
    reader.ask("prompts/get", name=f"prompt{HIDDEN}")
    assert sorted(reader.found) == []


@requirement("hidden:errors")
@pytest.mark.parametrize("status", [400, 403, 409, 500])
def test_what_jupyter_says_of_a_failure_hides_nothing(server: ExtensionProcess, status: int) -> None:
    reader = Reader(server)
    assert reader.call("get_nb_stat", {"path": f"refused-{status}.ipynb"}) is None
    assert "\\u200b" in reader.refusal
    assert reader.found == set()


@requirement("hidden:resources")
def test_no_resource_says_anything_hidden(server: ExtensionProcess) -> None:
    reader = Reader(server)
    fresh = f"fresh{EVIL}"
    (server.root / fresh).write_text(json.dumps(evil_notebook()), encoding="utf-8")
    for path in (fresh, "evil.ipynb", "language.ipynb"):
        assert reader.call("get_nb_stat", {"path": path}) is not None
    assert reader.call("import_notebook", {"source": fresh, "into": "scratchpad://fresh"}) is not None
    made = reader.call("notebook_create", {"title": f"tide{HIDDEN}", "language": "python"})
    reader.call(
        "notebook_add_cell", {"notebookId": made["notebookId"], "source": f"print('{HIDDEN}')", "cellType": "code"}
    )
    reader.call("notebook_run_all", {"notebookId": made["notebookId"]})
    listed = [one["uri"] for one in reader.ask("resources/list")["result"]["resources"]]
    assert f"jupyter://{quote(fresh)}" in listed
    cells = [f"jupyter://{quote(path)}/cells/one" for path in (fresh, "evil.ipynb")]
    outputs = [f"{cell}/outputs/{number}" for cell in cells for number in range(6)]
    pads = [f"scratchpad://fresh{rest}" for rest in ("", "/md", "/src.md", "/ipynb", "/json", "/html")]
    thoughts = [
        f"notebook://{made['notebookId']}{rest}"
        for rest in ("", "/md", "/src.md", "/ipynb", "/json", "/html", "/cells")
    ]
    for uri in (*listed, *cells, *outputs, *pads, *thoughts):
        answer = reader.ask("resources/read", uri, uri=uri)
        assert "result" in answer or uri.startswith(("notebook://", "scratchpad://")), answer
    for template, argument in (
        ("jupyter://{+path}", "path"),
        ("scratchpad://{id}", "id"),
        ("context://file/{+path}", "path"),
    ):
        reader.ask(
            "completion/complete",
            template,
            ref={"type": "ref/resource", "uri": template},
            argument={"name": argument, "value": ""},
        )
    assert sorted(reader.found) == []


@requirement("hidden:spelt")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("two\r\nlines", "two\r\nlines"),
        ("over\rwritten", "over\\rwritten"),
        ("a\u200bb\x1b[0m", "a\\u200bb\\u001b[0m"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\x7f\x9b", "\\u007f\\u009b"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u0928\u094d\u200d\u0924", "\u0928\u094d\u200d\u0924"),
        ("half \ud800", "half \ufffd"),
    ],
)
def test_what_is_hidden_is_spelt_as_in_json(text: str, told: str) -> None:
    assert shown(text) == told
    assert shown({text: [text]}) == {told: [told]}
    assert shown(told) == told
    if "\ud800" not in text:
        assert may_hide(json.dumps(text, ensure_ascii=False)) or told == text
        assert json.loads(f'"{told}"', strict=False) == text, "given back in JSON it is the very text"


@requirement("hidden:cheap")
def test_plain_text_is_passed_on_as_it_is() -> None:
    text = "def tide(height):\n\treturn height + 1\n" * 100
    assert shown(text) is text
    assert not may_hide(json.dumps({"source": text, "path": "folder/name.ipynb"}))
    assert not may_hide(json.dumps({"source": "Gezeiten, prílivy, 潮汐 \U0001f30a"}, ensure_ascii=False))


@requirement("hidden:errors")
@pytest.mark.anyio
async def test_what_the_protocol_itself_refuses_repeats_nothing_hidden() -> None:
    async def unknown(_: Any) -> Any:
        raise MCPError(-32601, f"Method not found: {HIDDEN}", {"method": HIDDEN})

    with pytest.raises(MCPError) as refusal:
        await brief_errors(cast("Any", None), unknown)
    said = [refusal.value.error.message, *(text for _, text in strings(refusal.value.error.data))]
    assert [hidden_in(text) for text in said] == [[]] * len(said)
