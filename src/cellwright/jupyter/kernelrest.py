"""Kernels and sessions of a Jupyter server over its REST API."""

from urllib.parse import quote

from cellwright.jupyter.kernel_channel import KernelChannel
from cellwright.jupyter.kernel_websocket import open_websocket
from cellwright.jupyter.model import KernelInfo, KernelSpec, SessionInfo
from cellwright.jupyter.parsing import kernel_info, kernel_spec, known_kernel, session_info
from cellwright.jupyter.paths import NotebookPath
from cellwright.jupyter.rest import Rest

NOTEBOOK = "notebook"


class RemoteKernels:
    """The kernels of one server."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @property
    def url(self) -> str:
        return self._rest.address.url

    async def specs(self) -> list[KernelSpec]:
        found = await self._rest.get("api/kernelspecs", "kernelspecs")
        default = found.get("default")
        return [
            kernel_spec(name, model, is_default=name == default) for name, model in sorted(found["kernelspecs"].items())
        ]

    async def kernels(self) -> list[KernelInfo]:
        return [kernel_info(model) for model in await self._rest.get("api/kernels", "kernels")]

    async def kernel(self, kernel_id: str) -> KernelInfo:
        return kernel_info(await self._rest.get(_api(kernel_id), f"kernel {kernel_id}"))

    async def start_kernel(self, name: str | None = None) -> KernelInfo:
        body = {"name": await self._known(name)} if name else {}
        return kernel_info((await self._rest.request("POST", "api/kernels", "kernel", body=body)).json())

    async def interrupt(self, kernel_id: str) -> None:
        await self._rest.request("POST", f"{_api(kernel_id)}/interrupt", f"kernel {kernel_id}")

    async def restart(self, kernel_id: str) -> KernelInfo:
        return kernel_info(
            (await self._rest.request("POST", f"{_api(kernel_id)}/restart", f"kernel {kernel_id}")).json()
        )

    async def shut_down(self, kernel_id: str) -> None:
        await self._rest.request("DELETE", _api(kernel_id), f"kernel {kernel_id}")

    async def sessions(self) -> list[SessionInfo]:
        return [session_info(model) for model in await self._rest.get("api/sessions", "sessions")]

    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        """The notebook's own session. One that lost its kernel does not count."""
        for session in await self.sessions():
            if session.path == path.text and session.type == NOTEBOOK and session.kernel is not None:
                return session
        return None

    async def start_session(
        self, path: NotebookPath, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        kernel = await self._choice(kernel_name, kernel_id)
        body = {"path": path.text, "name": path.name, "type": NOTEBOOK, "kernel": kernel}
        return session_info((await self._rest.request("POST", "api/sessions", f"session of {path}", body=body)).json())

    async def switch_kernel(
        self, session_id: str, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        about = f"session {session_id}"
        body = {"kernel": await self._choice(kernel_name, kernel_id)}
        return session_info(
            (await self._rest.request("PATCH", f"api/sessions/{quote(session_id, safe='')}", about, body=body)).json()
        )

    async def move_session(self, session_id: str, path: NotebookPath) -> None:
        body = {"path": path.text, "name": path.text.rpartition("/")[2]}
        await self._rest.request(
            "PATCH", f"api/sessions/{quote(session_id, safe='')}", f"session {session_id}", body=body
        )

    async def end_session(self, session_id: str) -> None:
        await self._rest.request("DELETE", f"api/sessions/{quote(session_id, safe='')}", f"session {session_id}")

    async def open_channel(self, kernel_id: str, session_id: str) -> KernelChannel:
        address = self._rest.address
        url = f"{address.websocket_url}/{_api(kernel_id)}/channels?session_id={quote(session_id, safe='')}"
        return await open_websocket(url, await self._rest.websocket_headers())

    async def _choice(self, kernel_name: str | None, kernel_id: str | None) -> dict[str, str]:
        if kernel_id is not None:
            return {"id": (await self.kernel(kernel_id)).id}
        return {"name": await self._known(kernel_name)} if kernel_name else {}

    async def _known(self, name: str) -> str:
        """Jupyter answers an unknown name with a bare 500: look first."""
        return known_kernel(name, await self.specs(), self.url)


def _api(kernel_id: str) -> str:
    return f"api/kernels/{quote(kernel_id, safe='')}"
