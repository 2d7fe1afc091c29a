"""Paths are checked where they enter, and survive their way through URLs."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.core.errors import InvalidArgument
from cellwright.jupyter.files.paths import MAX_URL, DocPath, NotebookPath, folder_path, path_from_url
from requirements import requirement

BASE = "http://localhost:8888/user/ada"

ESCAPES = [
    "../x.ipynb",
    "a/../../x.ipynb",
    "..\\x.ipynb",
    "a\\b.ipynb",
    "%2e%2e/x.ipynb",
    "%252e%252e/x.ipynb",
    "a/%2e%2E/x.ipynb",
    "\uff0f\uff0e\uff0e\uff0fx.ipynb",
    "\uff0e\uff0e/x.ipynb",
    "a/‥/x.ipynb",
    "C:x.ipynb",
    "c:/x.ipynb",
    "\\\\host\\share.ipynb",
    "//host/x.ipynb",
    "///x.ipynb",
    "a//b.ipynb",
    "a\0b.ipynb",
    "a\x1bb.ipynb",
    "a\x7fb.ipynb",
    "a/%00/b.ipynb",
    "x" * 5_000,
    "x" * 300 + ".ipynb",
    ".",
    "..",
    "",
    "/",
    "a/",
    "name. ",
    "name.",
    "folder ./x.ipynb",
    "\ud800.ipynb",
]


@requirement("documents:paths:refused")
@pytest.mark.parametrize("path", ESCAPES, ids=ascii)
def test_a_path_that_could_leave_the_root_is_refused_with_one_message(path: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        DocPath(path)
    assert refusal.value.message.endswith("is not a path on the Jupyter server")
    assert refusal.value.hint == "Paths are relative to the server's root, with / between names: folder/analysis.ipynb"
    refusal.value.message.encode()


@requirement("documents:paths:refused")
def test_a_leading_slash_is_accepted_and_dropped() -> None:
    assert DocPath("/a/b.ipynb") == DocPath("a/b.ipynb")
    assert str(NotebookPath("/etc/passwd.ipynb")) == "etc/passwd.ipynb"
    assert folder_path("") is folder_path("/") is folder_path(".") is None
    assert folder_path("/a/b/") == DocPath("a/b")


@requirement("documents:paths:refused")
def test_a_notebook_path_names_a_notebook() -> None:
    with pytest.raises(InvalidArgument, match="is not a notebook"):
        NotebookPath("a.txt")


@requirement("documents:paths:round-trip")
@given(st.text(min_size=1, max_size=60))
def test_every_accepted_path_comes_back_from_its_url_form(text: str) -> None:
    try:
        path = DocPath(text)
    except InvalidArgument:
        return
    url = f"http://host/api/contents/{path.quoted}?content=0"
    parts = urlsplit(url)
    assert DocPath.from_quoted(parts.path.removeprefix("/api/contents/")) == path
    assert (parts.query, parts.fragment) == ("content=0", "")
    assert path.quoted.isascii()


@requirement("documents:paths:round-trip")
@pytest.mark.parametrize(
    "name",
    [
        "a b.ipynb",
        "a#b?c=d&e.ipynb",
        "100%.ipynb",
        "50%25.ipynb",
        "😀é.ipynb",
        "line\nbreak.ipynb",
        "?token=x.ipynb",
        "e\u0301.ipynb",
    ],
)
def test_odd_names_survive(name: str) -> None:
    path = NotebookPath(f"folder/{name}")
    assert path.text == f"folder/{name}"
    assert NotebookPath.from_quoted(path.quoted) == path


@requirement("documents:paths:round-trip")
def test_a_separator_hidden_in_a_name_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        DocPath.from_quoted("a%2Fb.ipynb")
    with pytest.raises(InvalidArgument):
        DocPath("a%2fb.ipynb")


@requirement("documents:paths:hidden")
def test_hidden_files_are_recognised() -> None:
    hidden = [".env", ".ipynb_checkpoints/a-checkpoint.ipynb", "a/.git/config", ".cellwright/x"]
    assert all(DocPath(path).is_hidden for path in hidden)
    assert not DocPath("a.b/c.d").is_hidden


@requirement("documents:paths:from-url")
@pytest.mark.parametrize(
    "address",
    [
        f"{BASE}/tree/a/n%20b.ipynb",
        f"{BASE}/notebooks/a/n%20b.ipynb",
        f"{BASE}/edit/a/n%20b.ipynb",
        f"{BASE}/view/a/n%20b.ipynb",
        f"{BASE}/lab/tree/a/n%20b.ipynb",
        f"{BASE}/lab/tree/RTC%3Aa/n%20b.ipynb",
        f"{BASE}/lab/workspaces/auto-Q/tree/a/n%20b.ipynb",
        f"{BASE}/doc/tree/a/n%20b.ipynb?x=1#cell",
        "http://127.0.0.1:8888/user/ada/lab/tree/a/n b.ipynb",
        "https://hub.example.org/user/ada/lab/tree/a/n%20b.ipynb?token=x",
    ],
)
def test_the_notebook_is_found_in_every_kind_of_address(address: str) -> None:
    assert path_from_url(address, BASE) == NotebookPath("a/n b.ipynb")


@requirement("documents:paths:from-url")
@pytest.mark.parametrize(
    "address",
    [
        "http://other:8888/user/ada/tree/a.ipynb",
        "http://localhost:9999/user/ada/tree/a.ipynb",
        "http://localhost:8888/user/eve/tree/a.ipynb",
        "http://localhost:8888/user/ada-2/tree/a.ipynb",
        "http://localhost:8888/tree/a.ipynb",
        "https://hub.example.org/user/eve/lab/tree/a.ipynb",
        "https://hub.example.org/lab/tree/a.ipynb",
        "https://me:secret@hub.example.org/user/ada/lab/tree/a.ipynb",
        "http://me:secret@localhost:8888/user/ada/tree/a.ipynb",
        "http://l\u043ecalhost:8888/user/ada/tree/a.ipynb",
        "javascript:alert(1)//tree/a.ipynb",
        "file:///user/ada/tree/a.ipynb",
        "//localhost:8888/user/ada/tree/a.ipynb",
        "http://localhost:8888/user/ada/tree/../../a.ipynb",
        "http://localhost:8888/user/ada/tree/%2e%2e/a.ipynb",
        "http://localhost:8888/user/ada/tree/a%2fb.ipynb",
        "http://localhost:8888/user/ada/tree/%ff.ipynb",
        "http://localhost:8888/user/ada/api/contents/a.ipynb",
        "http://localhost:8888/user/ada/tree/a.txt",
        "http://localhost:99999/user/ada/tree/a.ipynb",
        "http://[::1/a.ipynb",
        "",
    ],
)
def test_what_is_not_a_notebook_of_this_server_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument):
        path_from_url(address, BASE)


@requirement("memory:kept")
def test_an_address_that_is_longer_than_any_path_is_refused_and_not_remembered() -> None:
    address = f"{BASE}/lab/tree/{'x' * MAX_URL}.ipynb"
    with pytest.raises(InvalidArgument, match="is not an address"):
        path_from_url(address, BASE)
    taken_apart: Any = urlsplit
    before = taken_apart.cache_info().misses
    taken_apart(address)
    assert taken_apart.cache_info().misses == before + 1
