"""Editing one table of a TOML file; Python's own reader says what the texts mean."""

import re
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.app.clients.jsonc import EditError
from cellwright.app.clients.tomledit import Toml, drop, loads, put
from requirements import requirement

PATH = ("mcp_servers", "cellwright")
ENTRY: dict[str, Toml] = {"command": "uvx", "args": ["cellwright", "--x"], "env": {"A b": "1\x7f"}}
OTHER: dict[str, Toml] = {"url": "https://example.com/mcp", "bearer_token_env_var": "TOKEN"}

# A busy machine is no fault of the text.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALUES = (
    "1",
    "-0.5e3",
    "true",
    "1979-05-27T07:32:00Z",
    '"plain # no comment"',
    "'C:\\path'",
    '"\\"[mcp_servers.cellwright]\\""',
    '"""\n[mcp_servers.cellwright]\n"quoted" \\\n  and ""more""\n"""',
    "'''\n[x]\nit's'''",
    '""""a""""',
    "[]",
    '[ # first\n  "a", # [comment]\n  [1, 2],\n\n]',
    '{ a = 1, "b.c" = [ { d = "}" } ] }',
)
FILLERS = ("\n", "# a note\n", "  # [mcp_servers.cellwright]\n", "\t\n")
OWN_FORMS = (
    '[mcp_servers.cellwright]\ncommand = "old"\nargs = [\n  "a", # why\n]\n',
    '[ mcp_servers . "cellwright" ] # mine\ncommand = "old"\n\n# inside\ntimeout = 5\n',
    "[mcp_servers.'cellwright'.env]\nA = \"1\"\n",
    '[mcp_servers.cellwright]\nenv.A = "0"\n\n[mcp_servers.cellwright.env2]\nB = 1\n\n[mcp_servers.cellwright.tools.x]\nok = true\n',
    '[mcp_servers]\ncellwright = { command = "old" }\n',
    '[mcp_servers]\ncellwright.command = "old"\ncellwright.args = []\n',
)


@st.composite
def tables(draw: st.DrawFn, *, numbers: st.SearchStrategy[int]) -> str:
    """Tables of others, each under a name of its own."""
    text = ""
    for number in sorted(draw(st.sets(numbers, max_size=3))):
        names = [f"[other{number}]", f"[mcp_servers.other{number}]", f'["[x]".y{number}]', f"[[list{number}]]"]
        text += draw(st.sampled_from(names)) + draw(st.sampled_from((" # note", ""))) + "\n"
        for key in range(draw(st.integers(0, 3))):
            text += draw(st.sampled_from(("", *FILLERS))) + f"key{key} = {draw(st.sampled_from(VALUES))}\n"
        text += draw(st.sampled_from(("", *FILLERS)))
    return text


@st.composite
def documents(draw: st.DrawFn, own: str = "") -> str:
    """Root keys, tables of others, and our entry somewhere between them."""
    text = draw(st.sampled_from(("", 'model = "m" # x\n', "# head\n\na.b = 1\n")))
    text += draw(tables(numbers=st.integers(0, 9)))
    text += own + draw(tables(numbers=st.integers(10, 19)))
    if draw(st.booleans()):
        text = text.rstrip("\n")
    newline = draw(st.sampled_from(("\n", "\r\n")))
    return draw(st.sampled_from(("", "\ufeff"))) + text.replace("\n", newline)


def meaning(text: str) -> dict[str, Toml]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def others(value: dict[str, Toml]) -> dict[str, Toml]:
    servers = value.get("mcp_servers", {})
    assert isinstance(servers, dict)
    left: dict[str, Toml] = {name: part for name, part in servers.items() if name != "cellwright"}
    rest: dict[str, Toml] = {name: part for name, part in value.items() if name != "mcp_servers"}
    return {**rest, **({"mcp_servers": left} if left else {})}


def entry(value: dict[str, Toml]) -> Toml:
    servers = value["mcp_servers"]
    assert isinstance(servers, dict)
    return servers["cellwright"]


def line_breaks(text: str) -> set[str]:
    return set(re.findall(r"\r?\n", text))


@requirement("clients:toml:undo", "clients:toml:others")
@unhurried
@given(documents())
def test_adding_then_removing_gives_back_the_text(text: str) -> None:
    added = put(text, PATH, ENTRY)
    assert entry(meaning(added)) == ENTRY
    assert others(meaning(added)) == others(meaning(text))
    assert line_breaks(text) in ({"\n"}, {"\r\n"}, set[str]())
    assert not line_breaks(text) or line_breaks(added) == line_breaks(text)
    assert put(added, PATH, ENTRY) == added
    assert drop(added, PATH) == text


@requirement("clients:toml:forms", "clients:toml:others")
@unhurried
@given(st.data(), st.sampled_from(OWN_FORMS), st.sampled_from((ENTRY, OTHER)))
def test_every_form_of_the_entry_is_replaced_and_removed(data: st.DataObject, own: str, new: dict[str, Toml]) -> None:
    text = data.draw(documents(own))
    replaced = put(text, PATH, new)
    assert entry(meaning(replaced)) == new
    assert others(meaning(replaced)) == others(meaning(text))
    assert put(replaced, PATH, new) == replaced
    removed = drop(text, PATH)
    assert others(meaning(removed)) == others(meaning(text))
    servers = meaning(removed).get("mcp_servers", {})
    assert isinstance(servers, dict)
    assert "cellwright" not in servers
    assert drop(removed, PATH) == removed


@requirement("clients:toml:minimal")
def test_updating_touches_only_the_keys_that_differ() -> None:
    text = """# head
[mcp_servers.cellwright] # mine
args = [ "cellwright", "--x" ] # as agreed
command = "old" # was new once
startup_timeout_sec = 20

# approvals
[mcp_servers.cellwright.tools.run_cells]
approval_mode = "approve"
# the end
"""
    old = entry(meaning(text))
    assert isinstance(old, dict)
    new: dict[str, Toml] = {**old, "command": "uvx", "env": {"A": "1"}}
    expected = text.replace('"old"', '"uvx"').replace("sec = 20\n", 'sec = 20\nenv = { A = "1" }\n')
    assert put(text, PATH, new) == expected
    without = {key: part for key, part in old.items() if key != "startup_timeout_sec"}
    assert put(text, PATH, without) == text.replace("startup_timeout_sec = 20\n", "")


@requirement("clients:toml:minimal")
def test_a_sub_table_gives_way_to_the_key_that_replaces_it() -> None:
    text = '[mcp_servers.cellwright]\ncommand = "uvx"\nargs = []\n\n[mcp_servers.cellwright.env]\nA = "0"\n\n[b]\n'
    new: dict[str, Toml] = {"command": "uvx", "args": [], "env": {"A": "1"}}
    assert put(text, PATH, new) == '[mcp_servers.cellwright]\ncommand = "uvx"\nargs = []\nenv = { A = "1" }\n\n[b]\n'


@requirement("clients:toml:others")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[a]\nx = 1\n\n[mcp_servers.cellwright]\ncommand = "c"\n\n# about b\n[b]\n', "[a]\nx = 1\n\n# about b\n[b]\n"),
        ('[mcp_servers.cellwright]\ncommand = "c"\n[b]\n', "[b]\n"),
        ('a = 1\n[mcp_servers.cellwright]\ncommand = "c"', "a = 1"),
        (
            '[mcp_servers]\ncellwright.command = "c"\nb.command = "d"\ncellwright.args = []\n',
            '[mcp_servers]\nb.command = "d"\n',
        ),
        (
            "[mcp_servers]\nb.args = []\n\ncellwright.args = []\nc.args = []\n",
            "[mcp_servers]\nb.args = []\n\nc.args = []\n",
        ),
        ('mcp_servers = { b = { command = "d" } }\n', 'mcp_servers = { b = { command = "d" } }\n'),
        ("", ""),
    ],
)
def test_removing_leaves_what_stands_around_it(text: str, expected: str) -> None:
    assert drop(text, PATH) == expected


@requirement("clients:toml:refuses")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a = 1\nb == 2\n", 2, 4, "Invalid value"),
        ("\ufeffa 1\n", 1, 3, "Expected '='"),
        ("a = 1\r\nb = [1,", 2, 8, "Unclosed array|Invalid value"),
        (
            'a = 1\nmcp_servers = { b = { command = "c" } }\n',
            2,
            1,
            r"mcp_servers is not written as tables such as \[mcp_servers",
        ),
        ("mcp_servers = 3\n", 1, 1, "mcp_servers is not written as tables"),
        ("\n[[mcp_servers.cellwright]]\n", 2, 1, "mcp_servers.cellwright is not written as tables"),
    ],
)
def test_what_cannot_take_the_table_is_refused_with_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(EditError, match=reason) as caught:
        put(text, PATH, ENTRY)
    assert (caught.value.line, caught.value.column) == (line, column)


@requirement("clients:toml:refuses")
def test_an_entry_inside_an_inline_table_is_not_cut_out_blindly() -> None:
    with pytest.raises(EditError, match="not written as tables"):
        drop('mcp_servers = { cellwright = { command = "c" }, b = {} }\n', PATH)


@requirement("clients:toml:forms")
def test_values_of_every_kind_survive_being_written_again() -> None:
    value = loads(
        "i = 1\nf = 0.5\nb = true\nd = 1979-05-27T07:32:00Z\nt = 07:32:00\nl = [1, 'x']\nm = { 'a b' = {} }\n"
    )
    assert entry(meaning(put("", PATH, value))) == value
