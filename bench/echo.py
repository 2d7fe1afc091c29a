"""The floor: a server that is nothing but the SDK, with one tool that answers the same bytes every time.

    echo.py ANSWER.json          on stdin and stdout
    echo.py ANSWER.json http     over HTTP on a free port, which it prints

The answer is a `tools/call` result (content and structuredContent), so that it can be as large as the one it is compared with. It is
handed to the SDK ready-made: no server can do less.
"""

import asyncio
import json
import socket
import sys
from contextlib import redirect_stdout
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult


def make_server(answer: CallToolResult) -> MCPServer:
    server = MCPServer("echo")

    @server.tool()
    async def echo() -> CallToolResult:  # pyright: ignore[reportUnusedFunction] - the decorator keeps it
        """Answer what was given at the start."""
        return answer

    return server


async def serve_http(server: MCPServer) -> None:
    """What the SDK's own `run("streamable-http")` does, on a socket that is bound first so that its port is known."""
    # asyncio switches Nagle's delay off only where the protocol number is set, as it is when uvicorn binds by itself.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        # It logs each request on stdout, which nobody reads after the next line: a full pipe would stop it.
        with redirect_stdout(sys.stderr):
            config = uvicorn.Config(server.streamable_http_app(), log_level="info")
        print(f"MCP http://127.0.0.1:{bound.getsockname()[1]}/mcp", flush=True)
        await uvicorn.Server(config).serve([bound])


def main() -> None:
    file, *transport = sys.argv[1:]
    server = make_server(CallToolResult.model_validate(json.loads(Path(file).read_bytes())))
    if transport:
        asyncio.run(serve_http(server))
    else:
        server.run()


main()
