"""The older notebook server's own configuration and requests, word for word, on a Jupyter server with cellwright inside."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from extension_support import ExtensionProcess, agent, bearer
from jupyter_support import write_notebook
from requirements import requirement
from support import PATIENT_SECONDS

pytestmark = pytest.mark.timeout(150)
OLDER_CONFIG = """
c.ServerApp.jpserver_extensions = {"jupyter_mcp_server": True}
c.JupyterMCPServerExtensionApp.document_url = "local"
c.JupyterMCPServerExtensionApp.runtime_url = "local"
"""
OLDER_TOOLS = frozenset(
    [
        "list_notebook",
        "use_notebook",
        "unuse_notebook",
        "restart_notebook",
        "read_cells",
        "list_cells",
        "read_cell",
        "insert_cell",
        "insert_execute_code_cell",
        "overwrite_cell_source",
        "delete_cell",
        "execute_cell_simple_timeout",
        "execute_cell_streaming",
        "execute_cell_with_progress",
        "execute_ipython",
        "list_files",
        "list_kernels",
    ]
)


class OlderProcess(ExtensionProcess):
    """With the older server's configuration file; what the tests themselves set stands where installed extensions have theirs."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, config=OLDER_CONFIG)

    def _write_config(self) -> None:
        super()._write_config()
        folder = self.home / "config_dir"
        (folder / "jupyter_server_config.json").rename(folder / "jupyter_server_config.d" / "tests.json")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtensionProcess]:
    """No notebook is named."""
    with OlderProcess(tmp_path_factory.mktemp("older")) as process:
        write_notebook(process.root, "tides.ipynb", ["6 * 7"])
        yield process


def call(server: ExtensionProcess, tool: str, headers: dict[str, str] | None = None, **arguments: Any) -> Any:
    body = {"tool_name": tool, **({"arguments": arguments} if arguments else {})}
    url, sent = f"{server.mcp}/tools/call", {**server.headers, **(headers or {})}
    return httpx2.post(url, json=body, headers=sent, timeout=60)


@requirement("doors:older-extension")
def test_the_older_configuration_loads_us_and_the_log_says_what_to_write(older: ExtensionProcess) -> None:
    assert httpx2.get(f"{older.mcp}/healthz", timeout=PATIENT_SECONDS).json() == {"status": "ok"}
    (line,) = [
        line for line in older.whole_log().splitlines() if "jpserver_extensions names jupyter_mcp_server" in line
    ]
    assert "{'cellwright': True}" in line


@requirement("doors:plain")
def test_the_older_request_is_answered(older: ExtensionProcess) -> None:
    answer = call(older, "list_notebooks")
    assert answer.status_code == 200, answer.text
    assert not answer.json().get("isError")
    assert "tides.ipynb" in answer.json()["content"][0]["text"]
    used = call(older, "use_notebook", notebook_name="t", notebook_path="tides.ipynb")
    assert not used.json().get("isError"), used.text
    assert "6 * 7" in call(older, "list_cells").json()["content"][0]["text"]


@requirement("doors:plain")
def test_the_list_has_the_arguments_by_name(older: ExtensionProcess) -> None:
    tools = {
        tool["name"]: tool
        for tool in httpx2.get(f"{older.mcp}/tools/list", headers=older.headers, timeout=PATIENT_SECONDS).json()[
            "tools"
        ]
    }
    assert tools.keys() >= OLDER_TOOLS
    assert tools["read_cell"]["parameters"] == list(tools["read_cell"]["inputSchema"]["properties"])
    assert tools["read_cell"]["parameters"][0] == "cell_index"
    assert tools["list_kernels"]["parameters"] == []
    assert all("parameters" in tool for tool in tools.values())


@requirement("doors:plain", "doors:toolset-off")
def test_a_request_that_chooses_gets_what_it_chose(older: ExtensionProcess) -> None:
    refused = call(older, "list_notebooks", {"X-MCP-Toolsets": "notebooks"}).json()
    assert refused["isError"]
    assert refused["structuredContent"]["error"]["code"] == "TOOL_OFF"
    made = call(older, "scratch_create", {"X-MCP-Toolsets": "scratch"}, scratch_id="a").json()
    assert not made.get("isError")
    assert call(older, "scratch_create", scratch_id="a").json()["structuredContent"]["error"]["code"] == "TOOL_OFF"


@requirement("doors:start")
@pytest.mark.anyio
async def test_a_document_id_brings_the_tools_for_a_current_notebook(tmp_path: Path) -> None:
    option = "--JupyterMCPServerExtensionApp.document_id=tides.ipynb"
    with ExtensionProcess(tmp_path / "jupyter", option) as server:
        write_notebook(server.root, "tides.ipynb", ["6 * 7"])
        async with agent(server.mcp, server.token) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names >= OLDER_TOOLS | {"list_nbs"}
            cells: Any = await client.call_tool("list_cells", {})
            assert "6 * 7" in cells.content[0].text
            listed: Any = await client.call_tool("list_notebook", {})
            assert listed.structured_content["current"] == "tides.ipynb"
            assert [one["current"] for one in listed.structured_content["notebooks"]] == [True]
        assert "jpserver_extensions names" not in server.whole_log()


@requirement("doors:plain")
@pytest.mark.anyio
async def test_what_the_operator_chose_is_not_widened(tmp_path: Path) -> None:
    options = "--CellwrightExtension.options={'toolsets': 'notebooks'}"
    with ExtensionProcess(tmp_path / "jupyter", options) as server:
        answer = call(server, "list_notebooks").json()
        assert answer["isError"]
        assert "--toolsets notebooks,cells" in answer["structuredContent"]["error"]["hint"]
        listed = httpx2.get(f"{server.mcp}/tools/list", headers=bearer(server.token), timeout=PATIENT_SECONDS).json()[
            "tools"
        ]
        assert not {tool["name"] for tool in listed} & OLDER_TOOLS
