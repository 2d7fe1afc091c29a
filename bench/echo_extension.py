"""The floor inside Jupyter Server: a bare SDK server behind Jupyter's own handler, answering the file that ECHO_ANSWER names."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.extension.application import ExtensionApp
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, ListToolsResult, Tool
from tornado.web import authenticated

HOP_BY_HOP = (b"connection", b"content-length", b"transfer-encoding")


def make_manager() -> StreamableHTTPSessionManager:
    answer = CallToolResult.model_validate(json.loads(Path(os.environ["ECHO_ANSWER"]).read_bytes()))

    async def list_tools(*_: object) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="echo", input_schema={"type": "object"})])

    async def call_tool(*_: object) -> CallToolResult:
        return answer

    server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(app=server, security_settings=security)


class Echo(JupyterHandler):
    """One request through the SDK. Nothing is checked that Jupyter does not check."""

    def initialize(self, app: Any) -> None:  # noqa: ANN401 - an ASGI app
        self.app = app

    @authenticated
    async def post(self) -> None:
        request = self.request
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/echo",
            "raw_path": b"/echo",
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in request.headers.get_all()],
            "client": ("127.0.0.1", 0),
            "server": None,
            "state": {},
        }
        pending = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if pending:
                return pending.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.set_status(message["status"])
                for name, value in message["headers"]:
                    if name.lower() not in HOP_BY_HOP:
                        self.set_header(name.decode(), value.decode())
            elif message.get("body"):
                self.write(message["body"])  # pyright: ignore[reportUnknownMemberType] - Tornado's dict has no parameters

        await self.app(scope, receive, send)
        self.finish()  # pyright: ignore[reportUnknownMemberType]


class EchoExtension(ExtensionApp):
    name = "echo_extension"

    def initialize_handlers(self) -> None:
        manager = make_manager()
        self.handlers.append(("/echo", Echo, {"app": manager.handle_request}))
        self._task = asyncio.get_event_loop().create_task(_run(manager))


async def _run(manager: StreamableHTTPSessionManager) -> None:
    async with manager.run():
        await asyncio.Event().wait()


def _jupyter_server_extension_points() -> list[dict[str, Any]]:  # pyright: ignore[reportUnusedFunction] - Jupyter calls it
    return [{"module": "echo_extension", "app": EchoExtension}]
