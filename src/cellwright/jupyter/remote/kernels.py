"""Kernels and sessions of a Jupyter server over its REST API."""

import reprlib
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from cellwright.core.errors import Unavailable
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.kernels.channel import KernelChannel
from cellwright.jupyter.model import KernelInfo, KernelSpec, SessionInfo
from cellwright.jupyter.parsing import (
    NOTEBOOK,
    kernel_info,
    kernel_spec,
    notebook_session,
    session_info,
    spec_named,
)
from cellwright.jupyter.remote.kernel_websocket import open_websocket
from cellwright.jupyter.remote.rest import Rest, not_jupyter

MOST_TAKEN = 2_000
"""Of kernels, sessions or kinds of kernels of one server: going through more would hold up everybody else."""
T = TypeVar("T")


class RemoteKernels:
    """The kernels of one server."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @property
    def url(self) -> str:
        return self._rest.address.url

    async def specs(self) -> list[KernelSpec]:
        return _converted(await self._rest.get("api/kernelspecs", "kernelspecs"), _specs)

    async def kernels(self) -> list[KernelInfo]:
        return _converted(await self._rest.get("api/kernels", "kernels"), _each(kernel_info))

    async def kernel(self, kernel_id: str) -> KernelInfo:
        return _converted(await self._rest.get(_api(kernel_id), f"kernel {kernel_id}"), kernel_info)

    async def start_kernel(self, name: str | None = None, *, beside: DocPath | None = None) -> KernelInfo:
        body = {"name": await self._checked_name(name)} if name else {}
        if beside is not None:
            body["path"] = beside.text
        return _converted((await self._rest.request("POST", "api/kernels", "kernel", body=body)).json(), kernel_info)

    async def interrupt(self, kernel_id: str) -> None:
        await self._rest.request("POST", f"{_api(kernel_id)}/interrupt", f"kernel {kernel_id}")

    async def restart(self, kernel_id: str) -> KernelInfo:
        answer = await self._rest.request("POST", f"{_api(kernel_id)}/restart", f"kernel {kernel_id}")
        return _converted(answer.json(), kernel_info)

    async def shut_down(self, kernel_id: str) -> None:
        await self._rest.request("DELETE", _api(kernel_id), f"kernel {kernel_id}")

    async def sessions(self) -> list[SessionInfo]:
        return _converted(await self._rest.get("api/sessions", "sessions"), _each(session_info))

    async def session_of(self, path: NotebookPath) -> SessionInfo | None:
        return notebook_session(await self.sessions(), path)

    async def start_session(
        self, path: NotebookPath, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        kernel = await self._checked_choice(kernel_name, kernel_id)
        body = {"path": path.text, "name": path.name, "type": NOTEBOOK, "kernel": kernel}
        answer = await self._rest.request("POST", "api/sessions", f"session of {path}", body=body)
        return _converted(answer.json(), session_info)

    async def switch_kernel(
        self, session_id: str, *, kernel_name: str | None = None, kernel_id: str | None = None
    ) -> SessionInfo:
        about = f"session {session_id}"
        body = {"kernel": await self._checked_choice(kernel_name, kernel_id)}
        answer = await self._rest.request("PATCH", f"api/sessions/{quote(session_id, safe='')}", about, body=body)
        return _converted(answer.json(), session_info)

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

    async def _checked_choice(self, kernel_name: str | None, kernel_id: str | None) -> dict[str, str]:
        if kernel_id is not None:
            return {"id": (await self.kernel(kernel_id)).id}
        return {"name": await self._checked_name(kernel_name)} if kernel_name else {}

    async def _checked_name(self, name: str) -> str:
        return spec_named(name, await self.specs(), self.url).name


def _api(kernel_id: str) -> str:
    return f"api/kernels/{quote(kernel_id, safe='')}"


def _specs(answer: Any) -> list[KernelSpec]:  # noqa: ANN401 - whatever a server answers
    default = answer.get("default")
    return [
        kernel_spec(name, model, is_default=name == default)
        for name, model in sorted(_bounded(answer["kernelspecs"]).items())
    ]


def _each(convert: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    return lambda models: [convert(model) for model in _bounded(models)]


def _bounded(models: Any) -> Any:  # noqa: ANN401 - whatever a server answers
    if len(models) > MOST_TAKEN:
        raise Unavailable(
            f"Jupyter tells of more than {MOST_TAKEN:,} kernels, sessions or kinds of kernels at once; no more are taken",
            hint="shut down those that nobody uses, or remove kernelspecs",
        )
    return models


def _converted(answer: Any, convert: Callable[[Any], T]) -> T:  # noqa: ANN401 - whatever a server answers
    """A server's answer as values. Raises an error that says so if it is no answer of a Jupyter server."""
    try:
        return convert(answer)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise not_jupyter(reprlib.repr(answer)) from error
