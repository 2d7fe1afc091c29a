"""The workspace that random requests are about: two servers in a folder, and what keeps the requests meaningful and the folder small."""

import asyncio
import json
import os
import shutil
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from adversarial_support import modern_headers, rpc
from fuzz_support import Line, Offer, Request, Things
from jupyter_support import JupyterProcess, write_notebook
from support import HttpServer

WARM_SECONDS = 3
"""How long a first run is waited for, which starts a kernel."""
WARMED_EVERY = 5
"""In so many rounds of keeping, the notebook is run once: the requests end its kernel often, and one costs as much as hundreds of them."""
MOST_FILES = 100
MOST_KERNELS = 3
LARGEST_NOTEBOOK = 150_000
FILES = {
    "text.txt": b"one\ntwo\n" * 20,
    "notes.md": b"# Notes\n",
    "latin.txt": b"\xe9\xff\n",
    "large.txt": b"word " * 60_000,
    "broken.ipynb": b"{",
}
SOURCES = ["print(1)", "x = 2", "# text"]
LINKS = {"loop.ipynb": "loop.ipynb", "null.ipynb": "/dev/null", "dangling.ipynb": "nowhere.ipynb"}
PIPE = "pipe.ipynb"
KEPT = {"n.ipynb", "sub", PIPE, *FILES, *LINKS}


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class Workspace:
    """What the requests are about: it is made anew where they deleted it, and kept small."""

    def __init__(self, server: HttpServer, jupyter: JupyterProcess) -> None:
        self._line = Line(server.port, server.token)
        self._jupyter = jupyter
        self._root = jupyter.root
        self._keeping = asyncio.Lock()
        self._rounds = 0
        self._execution = "none"
        self.things = Things()

    def close(self) -> None:
        self._line.close()

    async def ask(self, method: str, params: dict[str, Any], name: str = "") -> Any:
        headers = tuple(one for one in modern_headers(method, name) if one[0].startswith(("Mcp", "MCP")))
        request = Request(0, True, method, name, "own", json.dumps(rpc(method, params)).encode(), headers)
        return (await self._line.send(request)).message()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """The data of a call, also where it failed: others may have been quicker."""
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments}, tool)
        return answer["result"].get("structuredContent") or {}

    async def offer(self) -> Offer:
        tools = (await self.ask("tools/list", {}))["result"]["tools"]
        prompts = (await self.ask("prompts/list", {}))["result"]["prompts"]
        templates = (await self.ask("resources/templates/list", {}))["result"]["resourceTemplates"]
        return Offer(tools, prompts, [one["uriTemplate"] for one in templates])

    async def keep(self) -> None:
        async with self._keeping:
            await self._keep()

    async def _keep(self) -> None:
        notebook = self._root / "n.ipynb"
        if notebook.is_file() and notebook.stat().st_size > LARGEST_NOTEBOOK:
            await self.call("end_nb_session", path="n.ipynb", shutdown_kernel=True)
            await self.call("delete_document", path="n.ipynb")
        await asyncio.to_thread(self._files)
        await asyncio.to_thread(self._few_kernels)
        made = await self.call("notebook_create", title="t", language="python")
        thinking = str(made.get("notebookId", "none"))
        added = await self.call("notebook_add_cell", notebookId=thinking, cellType="markdown", source="one")
        cells = [{"cell_id": "c", "language": "md", "content": "one"}]
        await self.call("scratch_create", scratch_id="pad", cells=cells, expect="any")
        await self.call("scratch_upsert_schema", scratch_id="pad", schema={"id": "s", "type": "object"})
        await self.call("use_notebook", notebook_name="n", notebook_path="n.ipynb")
        cell = [{"content": "y = 3"}]
        proposed = await self.call("insert_nb_cells", path="n.ipynb", position=0, cells=cell, exec=False, propose=True)
        if self._rounds % WARMED_EVERY == 0:
            first = [{"start": 0}]
            ran = await self.call("execute_nb_cells", path="n.ipynb", ranges=first, timeout=WARM_SECONDS)
            self._execution = str(ran.get("execution_id", "none"))
        self._rounds += 1
        self.things.set(
            path=["n.ipynb", "n.ipynb", "n.ipynb", "sub/inner.ipynb", "text.txt", "notes.md", "sub"],
            notebook_path=["n.ipynb"],
            notebook=["n"],
            notebook_name=["n"],
            notebookId=[thinking],
            cellId=[added.get("cell", {}).get("id", "none")],
            scratch_id=["pad", "pad", "pad", "other"],
            cell_id=["c"],
            cell_ids=["c"],
            cell=["c0", "c1"],
            id=["c0", "c1", "scratchpad://pad", "jupyter://n.ipynb"],
            schema_id=["s"],
            kernel_name=["python3"],
            proposal=[str(proposed.get("proposal", "none"))],
            execution_id=[self._execution],
            copyPath=["copy.ipynb", "sub/copy.ipynb", "copy.txt"],
            newPath=["renamed.ipynb", "renamed.txt"],
            into=["scratchpad://imported", "imported.ipynb"],
            source=["n.ipynb", "scratchpad://pad", "one", "x = 1"],
            pattern=["one", "x", "tree_of_thought"],
            session=["s"],
            namespace=["ns"],
            old_namespace=["ns"],
            new_namespace=["ns2"],
            url=["http://127.0.0.1/notebooks/n.ipynb", f"{self._jupyter.url}/lab/tree/n.ipynb"],
            uri=[
                "cellwright://status",
                "jupyter://n.ipynb",
                "scratchpad://pad",
                "notebook://list",
                "context://discoveries",
            ],
        )

    def _files(self) -> None:
        there = list(self._root.iterdir())
        strangers = [one for one in there if one.name not in KEPT and not one.name.startswith(".")]
        for one in strangers if len(strangers) > MOST_FILES else ():
            remove(one)
        self._make("sub", Path.is_dir, Path.mkdir)
        for path in ("n.ipynb", "sub/inner.ipynb"):
            self._make(path, Path.is_file, lambda _, path=path: write_notebook(self._root, path, SOURCES))
        for name, content in FILES.items():
            self._make(name, Path.is_file, lambda file, content=content: file.write_bytes(content))
        for name, target in LINKS.items():
            self._make(name, Path.is_symlink, lambda file, target=target: file.symlink_to(target))
        self._make(PIPE, Path.is_fifo, os.mkfifo)

    def _make(self, path: str, is_right: Callable[[Path], bool], make: Callable[[Path], object]) -> None:
        """What should be there, unless it is; another thing of this name is taken away."""
        file = self._root / path
        if not is_right(file):
            remove(file)
            make(file)

    def _few_kernels(self) -> None:
        """As somebody would in JupyterLab, so that the machine is not full of kernels. The notebook's own is dear to start, and left."""
        sessions = self.jupyter_answers("GET", "/api/sessions")
        own = {one["kernel"]["id"] for one in sessions if one["path"] == "n.ipynb" and one.get("kernel")}
        others = [one["id"] for one in self.jupyter_answers("GET", "/api/kernels") if one["id"] not in own]
        for kernel in others[MOST_KERNELS - 1 :]:
            self.jupyter_answers("DELETE", f"/api/kernels/{kernel}")

    def jupyter_answers(self, method: str, path: str) -> Any:
        headers = {"Authorization": f"token {self._jupyter.token}"}
        request = urllib.request.Request(self._jupyter.url + path, headers=headers, method=method)
        with suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"[]")
        return []
