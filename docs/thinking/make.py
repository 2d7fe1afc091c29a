"""Writes docs/thinking: runs every template with its worked example in a kernel and keeps what came out.

python docs/thinking/make.py           write
python docs/thinking/make.py --check   exit 1 if a page or a picture is not up to date
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import start_new_async_kernel

from cellwright.jupyter.server.kernel_ports import use_kernel_ports
from cellwright.notebook.formats import srcmd
from cellwright.notebook.model import Kind, Notebook
from cellwright.thinking.templates import TEMPLATES, Template

HERE = Path(__file__).parent
SECONDS = 60.0
NOTE = "<!-- Written by docs/thinking/make.py, by running it. Change the template or worked/, not this page. -->\n"
Output = dict[str, Any]


@asynccontextmanager
async def python_kernel() -> AsyncGenerator[AsyncKernelClient]:
    use_kernel_ports()
    manager, client = cast("tuple[Any, Any]", await start_new_async_kernel(kernel_name="python3"))
    try:
        yield client
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def run(client: AsyncKernelClient, source: str) -> list[Output]:
    """The outputs of a cell, as nbformat has them. A cell that raises ends everything: a page shows what works."""
    found: list[Output] = []

    def collect(message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        # A kernel sends printed text in pieces, cut wherever its clock says; on the page it is one.
        if kind == "stream" and found and found[-1].get("name") == content["name"]:
            found[-1]["text"] += content["text"]
        elif kind in {"stream", "display_data", "execute_result", "error"}:
            found.append({"output_type": kind, **content})

    untyped = cast("Any", client)
    reply = await untyped.execute_interactive(source, timeout=SECONDS, output_hook=collect, allow_stdin=False)
    if reply["content"]["status"] != "ok":
        raise SystemExit("\n".join(reply["content"]["traceback"]))
    return found


async def run_notebook(client: AsyncKernelClient, notebook: Notebook) -> list[list[Output]]:
    return [await run(client, cell.source) for cell in notebook.cells if cell.kind is Kind.CODE]


def _shown(outputs: list[Output]) -> str:
    texts: list[str] = []
    for output in outputs:
        data = output.get("data", {})
        text = output.get("text", "") if "image/svg+xml" in data else output.get("text", data.get("text/plain", ""))
        texts.append(str(text).rstrip("\n"))
    text = "\n".join(filter(None, texts))
    return f"```text\n{text}\n```" if text else ""


def _pictures(outputs: list[Output]) -> list[str]:
    return [output["data"]["image/svg+xml"] for output in outputs if "image/svg+xml" in output.get("data", {})]


def page(template: Template, worked: Notebook, results: list[list[Output]]) -> dict[Path, str]:
    """The page of a template and the picture at its end."""
    intro = template.notebook.cells[0].source
    about = f"`{template.name}`: {template.description}"
    parts = [f"{NOTE}# {template.title}", about, intro, f"## Worked example: {worked.title}"]
    remaining = iter(results)
    picture = ""
    for cell in worked.cells:
        if cell.kind is not Kind.CODE:
            parts.append(cell.source)
            continue
        outputs = next(remaining)
        parts += [f"```python\n{cell.source}\n```", _shown(outputs)]
        picture = next(iter(_pictures(outputs)), picture)
    parts.append(f"![{worked.title}: the board at the end](img/{template.name}.svg)")
    text = "\n\n".join(part for part in parts if part) + "\n"
    return {HERE / f"{template.name}.md": text, HERE / "img" / f"{template.name}.svg": picture + "\n"}


async def generated() -> dict[Path, str]:
    files: dict[Path, str] = {}
    async with python_kernel() as client:
        for template in TEMPLATES.values():
            worked = srcmd.decode((HERE / "worked" / f"{template.name}.src.md").read_text(encoding="utf-8"))
            await run(client, "%reset -f")
            await run_notebook(client, template.notebook)
            files |= page(template, worked, await run_notebook(client, worked))
    return files


def main() -> int:
    wanted = asyncio.run(generated())
    changed = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        if "--check" in sys.argv:
            sys.stderr.write(f"not up to date: {path.relative_to(HERE)}; run docs/thinking/make.py\n")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
