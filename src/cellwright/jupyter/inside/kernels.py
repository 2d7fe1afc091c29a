"""Kernels and sessions of the Jupyter server we run inside of, by its managers."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernelspecs.handlers import (
    is_kernelspec_model,  # pyright: ignore[reportUnknownVariableType] - untyped
    kernelspec_model,  # pyright: ignore[reportUnknownVariableType]
)
from tornado.web import HTTPError

from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.inside.calls import ServerCalls
from cellwright.jupyter.inside.kernel_channel import SocketChannel, start_of, wait_until_alive
from cellwright.jupyter.kernels.channel import OPEN_SECONDS, KernelChannel, KernelGone
from cellwright.jupyter.model import JsonObject, KernelInfo, KernelSpec, SessionInfo
from cellwright.jupyter.parsing import (
    NOTEBOOK,
    kernel_info,
    kernel_spec,
    notebook_session,
    session_info,
    spec_named,
)
from cellwright.jupyter.remote.kernel_websocket import open_websocket

GONE, SERVER_FAILED, NO_KERNEL = 410, 500, 501


class LocalKernels:
    """The kernels of this server."""

    def __init__(self, serverapp: ServerApp, calls: ServerCalls, url: str) -> None:
        self._server: Any = cast("Any", serverapp)
        self._kernels: Any = self._server.kernel_manager
        self._sessions: Any = self._server.session_manager
        self._calls = calls
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def specs(self) -> list[KernelSpec]:
        specs: Mapping[str, JsonObject] = await self._calls.look(
            "kernelspecs", self._server.kernel_spec_manager.get_all_specs
        )
        default = self._kernels.default_kernel_name
        # In a thread, because each model looks for its pictures on the disk.
        return await asyncio.to_thread(
            lambda: [
                kernel_spec(name, self._spec_model(name, specs[name]), is_default=name == default)
                for name in sorted(specs)
            ]
        )

    def _spec_model(self, name: str, info: JsonObject) -> JsonObject:
        if is_kernelspec_model(info):
            return info
        # It expects a handler, of which it uses the base URL only.
        return cast("JsonObject", kernelspec_model(self._server, name, info["spec"], info["resource_dir"]))

    async def kernels(self) -> list[KernelInfo]:
        models: list[JsonObject] = await self._calls.look("kernels", self._kernels.list_kernels)
        return [kernel_info(model) for model in models]

    async def kernel(self, kernel_id: str) -> KernelInfo:
        return kernel_info(await self._calls.look(f"kernel {kernel_id}", lambda: self._kernels.kernel_model(kernel_id)))

    async def start_kernel(self, name: str | None = None, *, beside: DocPath | None = None) -> KernelInfo:
        kernel_name = await self._checked_name(name) if name else self._kernels.default_kernel_name

        async def start() -> JsonObject:
            kernel_id = await ensure_async(
                self._kernels.start_kernel(
                    kernel_name=kernel_name, path=None if beside is None else beside.text, kernel_id=None
                )
            )
            return await ensure_async(self._kernels.kernel_model(kernel_id))

        return kernel_info(await self._calls.do("kernel", start))

    async def interrupt(self, kernel_id: str) -> None:
        await self._calls.do(f"kernel {kernel_id}", lambda: self._kernels.interrupt_kernel(kernel_id))

    async def restart(self, kernel_id: str) -> KernelInfo:
        async def restart() -> JsonObject:
            try:
                await self._kernels.restart_kernel(kernel_id)
            except (HTTPError, OSError, RuntimeError, ValueError, LookupError) as error:
                raise HTTPError(SERVER_FAILED, "Exception restarting kernel") from error
            return await ensure_async(self._kernels.kernel_model(kernel_id))

        return kernel_info(await self._calls.do(f"kernel {kernel_id}", restart))

    async def shut_down(self, kernel_id: str) -> None:
        async def shut_down() -> None:
            # While Jupyter restarts a kernel that died, shutting it down fails, because its manager does not know how the start ended.
            starting = start_of(self._kernels.get_kernel(kernel_id)) if kernel_id in self._kernels else None
            if starting is not None:
                await asyncio.wait({starting}, timeout=OPEN_SECONDS)
            await ensure_async(self._kernels.shutdown_kernel(kernel_id))

        await self._calls.do(f"kernel {kernel_id}", shut_down)

    async def sessions(self) -> list[SessionInfo]:
        models: list[JsonObject] = await self._calls.look("sessions", self._sessions.list_sessions)
        return [session_info(model) for model in models]

    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        return notebook_session(await self.sessions(), path)

    async def start_session(
        self, path: NotebookPath, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        kernel_name, kernel_id = await self._checked_choice(kernel_name, kernel_id)

        async def start() -> JsonObject:
            if await self._sessions.session_exists(path=path.text):
                return await self._sessions.get_session(path=path.text)
            try:
                return await self._sessions.create_session(
                    path=path.text, name=path.name, type=NOTEBOOK, kernel_name=kernel_name, kernel_id=kernel_id
                )
            except (OSError, RuntimeError, ValueError, LookupError) as error:
                raise HTTPError(SERVER_FAILED, str(error)) from error

        return session_info(await self._calls.do(f"session of {path}", start))

    async def switch_kernel(
        self, session_id: str, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        kernel_name, kernel_id = await self._checked_choice(kernel_name, kernel_id)

        async def switch() -> JsonObject:
            before: JsonObject = await self._sessions.get_session(session_id=session_id)
            new_id = kernel_id or (await self._start_for(before, kernel_name) if kernel_name else None)
            await self._sessions.update_session(session_id, **({"kernel_id": new_id} if new_id else {}))
            after: JsonObject = await self._sessions.get_session(session_id=session_id)
            if after["kernel"]["id"] != before["kernel"]["id"]:
                await ensure_async(self._kernels.shutdown_kernel(before["kernel"]["id"]))
            return after

        return session_info(await self._calls.do(f"session {session_id}", switch))

    async def move_session(self, session_id: str, path: NotebookPath) -> None:
        name = path.text.rpartition("/")[2]
        await self._calls.do(
            f"session {session_id}",
            lambda: self._sessions.update_session(session_id, path=path.text, name=name),
        )

    async def _start_for(self, session: JsonObject, name: str) -> str:
        options = {key: session[key] for key in ("name", "path", "type")}
        try:
            return await self._sessions.start_kernel_for_session(session["id"], kernel_name=name, **options)
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            raise HTTPError(NO_KERNEL, f"The '{name}' kernel could not be started: {str(error)!r}") from error

    async def end_session(self, session_id: str) -> None:
        async def end() -> None:
            try:
                await self._sessions.delete_session(session_id)
            except KeyError as error:
                raise HTTPError(GONE, "Kernel deleted before session") from error

        await self._calls.do(f"session {session_id}", end)

    async def open_channel(self, kernel_id: str, session_id: str) -> KernelChannel:
        address = f"ws{self._url.removeprefix('http')}/api/kernels/{quote(kernel_id, safe='')}/channels"
        if kernel_id not in self._kernels:
            raise KernelGone(f"no kernel at {address}", hint="It was shut down; run a cell again to start a new one")
        kernel = self._kernels.get_kernel(kernel_id)
        if not hasattr(kernel, "connect_iopub"):
            # A kernel behind a gateway has no sockets here, but the server's own websocket reaches it.
            return await self._open_from_outside(kernel_id, session_id)
        await wait_until_alive(kernel, address)
        return SocketChannel(self._kernels, kernel_id, session_id)

    async def _open_from_outside(self, kernel_id: str, session_id: str) -> KernelChannel:
        base = str(self._server.connection_url).rstrip("/").removeprefix("http")
        query = f"session_id={quote(session_id, safe='')}"
        token = str(getattr(self._server.identity_provider, "token", "") or "")
        headers = {"Authorization": f"token {token}"} if token else {}
        return await open_websocket(f"ws{base}/api/kernels/{quote(kernel_id, safe='')}/channels?{query}", headers)

    async def _checked_choice(self, kernel_name: str | None, kernel_id: str | None) -> tuple[str | None, str | None]:
        if kernel_id is not None:
            return None, (await self.kernel(kernel_id)).id
        return (await self._checked_name(kernel_name) if kernel_name else None), None

    async def _checked_name(self, name: str) -> str:
        return spec_named(name, await self.specs(), self.url).name
