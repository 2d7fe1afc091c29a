"""Kernels and sessions of a Jupyter server over its REST API."""

import reprlib
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from cellwright.core.errors import Unavailable
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.channel import KernelChannel
from cellwright.jupyter.model import KernelInfo, KernelSpec, SessionInfo
from cellwright.jupyter.parsing import kernel_info, kernel_spec, known_kernel, session_info
from cellwright.jupyter.remote.kernel_websocket import open_websocket
from cellwright.jupyter.remote.rest import Rest, not_jupyter

NOTEBOOK = "notebook"
MOST_TAKEN = 2_000
"""Kernels, sessions or kinds of kernels of one server: each is looked at and told while others wait."""
T = TypeVar("T")


class RemoteKernels:
    """The kernels of one server."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @property
    def url(self) -> str:
        return self._rest.address.url

    async def specs(self) -> list[KernelSpec]:
        return _read(_specs, await self._rest.get("api/kernelspecs", "kernelspecs"))

    async def kernels(self) -> list[KernelInfo]:
        return _read(_each(kernel_info), await self._rest.get("api/kernels", "kernels"))

    async def kernel(self, kernel_id: str) -> KernelInfo:
        return _read(kernel_info, await self._rest.get(_api(kernel_id), f"kernel {kernel_id}"))

    async def start_kernel(self, name: str | None = None) -> KernelInfo:
        body = {"name": await self._known(name)} if name else {}
        return _read(kernel_info, (await self._rest.request("POST", "api/kernels", "kernel", body=body)).json())

    async def interrupt(self, kernel_id: str) -> None:
        await self._rest.request("POST", f"{_api(kernel_id)}/interrupt", f"kernel {kernel_id}")

    async def restart(self, kernel_id: str) -> KernelInfo:
        answer = await self._rest.request("POST", f"{_api(kernel_id)}/restart", f"kernel {kernel_id}")
        return _read(kernel_info, answer.json())

    async def shut_down(self, kernel_id: str) -> None:
        await self._rest.request("DELETE", _api(kernel_id), f"kernel {kernel_id}")

    async def sessions(self) -> list[SessionInfo]:
        return _read(_each(session_info), await self._rest.get("api/sessions", "sessions"))

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
        answer = await self._rest.request("POST", "api/sessions", f"session of {path}", body=body)
        return _read(session_info, answer.json())

    async def switch_kernel(
        self, session_id: str, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        about = f"session {session_id}"
        body = {"kernel": await self._choice(kernel_name, kernel_id)}
        answer = await self._rest.request("PATCH", f"api/sessions/{quote(session_id, safe='')}", about, body=body)
        return _read(session_info, answer.json())

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


def _specs(found: Any) -> list[KernelSpec]:  # noqa: ANN401 - whatever a server answers
    default = found.get("default")
    return [
        kernel_spec(name, model, is_default=name == default)
        for name, model in sorted(_few(found["kernelspecs"]).items())
    ]


def _each(read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    return lambda found: [read(model) for model in _few(found)]


def _few(listed: Any) -> Any:  # noqa: ANN401 - whatever a server answers
    if len(listed) > MOST_TAKEN:
        raise Unavailable(
            f"Jupyter tells of more than {MOST_TAKEN:,} kernels, sessions or kinds of kernels at once; no more are taken",
            hint="shut down those that nobody uses, or remove kernelspecs",
        )
    return listed


def _read(read: Callable[[Any], T], found: Any) -> T:  # noqa: ANN401 - whatever a server answers
    """What a server answered, as values; what is none of Jupyter's answers is said to be that."""
    try:
        return read(found)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise not_jupyter(reprlib.repr(found)) from error
