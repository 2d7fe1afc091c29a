"""What tests of pads through a real server share."""

from typing import Any

from mcp import Client

FLAGS = ("--toolsets", "scratch,scratch_plus", "--rate", "0", "--embedding-model", "none")
ONE = {"language": "py", "content": "x"}


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, str(arguments)[:200])
    return result.structured_content["error"]  # type: ignore[index]


async def cells_of(client: Client, pad: str) -> list[dict[str, Any]]:
    """All cells, page by page."""
    cells: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = await call(client, "scratch_read", scratch_id=pad, offset=offset)
        cells += page["scratchpad"]["cells"]
        offset = page.get("next")
        assert offset is None or offset == len(cells)
    return cells
