"""Real Jupyter servers with cellwright inside, and the official client at their door."""

import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from jupyter_support import JupyterProcess
from locations import TESTS

ENABLING = TESTS.parent / "jupyter-config" / "jupyter_server_config.d" / "cellwright.json"

USERS = """
from jupyter_server.auth import Authorizer, IdentityProvider, User

class Users(IdentityProvider):
    async def get_user_token(self, handler):
        kind, _, name = (self.get_token(handler) or "").partition("-")
        if kind != "token":
            return None
        return self.generate_anonymous_user(handler) if name.startswith("guest") else User(username=name)

class Rules(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        if user.username == "reader":
            return action == "read"
        return not (user.username == "writer" and resource == "kernels")

c.ServerApp.identity_provider_class = Users
c.ServerApp.authorizer_class = Rules
"""
"""People by their tokens: `token-NAME` is NAME, `token-guest…` has a made-up name; `reader` and `writer` may less."""


class ExtensionProcess(JupyterProcess):
    """`jupyter server` with cellwright enabled by the file that is installed with it, or with a variant of it for tests."""

    def __init__(
        self,
        home: Path,
        *options: str,
        variant: str = "",
        config: str = "",
        base_path: str = "/",
        collaboration: bool = True,
        token_required: bool = True,
        lab: bool = False,
    ) -> None:
        super().__init__(
            home,
            lab=lab,
            options=options,
            base_path=base_path,
            collaboration=collaboration,
            token_required=token_required,
        )
        self._variant = variant
        folder = home / "config_dir" / "jupyter_server_config.d"
        folder.mkdir(parents=True)
        shutil.copy(ENABLING, folder)
        (home / "config_dir" / "jupyter_server_config.py").write_text(config, encoding="utf-8")

    def _write_config(self) -> None:
        super()._write_config()
        if self._variant:
            file = self.home / "config_dir" / "jupyter_server_config.json"
            config = json.loads(file.read_text(encoding="utf-8"))
            config["ServerApp"]["jpserver_extensions"] |= {self._variant: True, "cellwright": False}
            file.write_text(json.dumps(config), encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in super()._environment().items() if not name.startswith("CELLWRIGHT_")}
        path = os.pathsep.join(part for part in (str(TESTS), kept.get("PYTHONPATH", "")) if part)
        return kept | {"PYTHONPATH": path, "CELLWRIGHT_STATE_DIR": str(self.home / "state")}

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.token)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def whole_log(self) -> str:
        return (self.home / "server.log").read_text(encoding="utf-8", errors="replace")

    def end(self) -> int | None:
        """Ask it to stop and wait; its exit code."""
        process = self._process
        self.stop()
        return process.returncode if process is not None else None


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def agent(url: str, token: str, mode: str = "auto") -> AsyncGenerator[Client]:
    """The official client in either era."""
    timeout = httpx2.Timeout(30, read=120)
    async with httpx2.AsyncClient(headers=bearer(token), timeout=timeout) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:  # pyright: ignore[reportArgumentType]
            yield client


def modern(method: str, **params: Any) -> dict[str, Any]:
    """A request of the stateless era, for httpx: headers and body."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    } | ({"Mcp-Name": params["name"]} if "name" in params else {})
    return {
        "headers": headers,
        "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}},
    }


def handshake(method: str, session: str = "", **params: Any) -> dict[str, Any]:
    """A request of the handshake era, for httpx."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    return {
        "headers": headers | ({"Mcp-Session-Id": session} if session else {}),
        "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
    }


INITIALIZE = handshake(
    "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"}
)


def post(url: str, request: dict[str, Any], **headers: str) -> httpx2.Response:
    """One request on a connection of its own, without a cookie jar."""
    return httpx2.post(url, json=request["json"], headers={**request["headers"], **headers}, timeout=20)
