"""Checks what the Jupyter server that we run inside of permits a caller, on every use of its files, rooms, sessions and kernels.

`Connected` is made for each caller. Its documents, kernels and rooms have only the methods that the tables below name, and each
method checks that Jupyter permits it to the caller. So no tool can forget the check, and no new method can go without it.
"""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, cast

from cellwright.core.errors import Forbidden
from cellwright.core.types import Call, Leave, Principal, Scope
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.rooms import Rooms, RunEnded
from cellwright.jupyter.documents.text import TextDocument
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.kernels.live import LiveKernels
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.port import Documents, Forks, Jupyter, JupyterKernels

READ_FILES: Final = Leave("read", "contents")
WRITE_FILES: Final = Leave("write", "contents")
READ_SESSIONS: Final = Leave("read", "sessions")
WRITE_SESSIONS: Final = Leave("write", "sessions")
READ_KERNELS: Final = Leave("read", "kernels")
WRITE_KERNELS: Final = Leave("write", "kernels")
USE_KERNELS: Final = Leave("execute", "kernels")
READ_KINDS: Final = Leave("read", "kernelspecs")

RUNNING = (WRITE_FILES, READ_SESSIONS, WRITE_SESSIONS, READ_KERNELS, WRITE_KERNELS, USE_KERNELS, READ_KINDS)
"""What running cells needs: session and kernel, which are started if there are none, and the file, which gets the outputs."""
ENDING = (READ_SESSIONS, WRITE_SESSIONS, WRITE_KERNELS)
"""What ending a notebook's kernel needs."""

DOCUMENTS: Mapping[str, tuple[Leave, ...]] = {
    "url": (),
    "pages": (),
    "live": (),
    "forks": (),
    "join": (READ_FILES,),
    "stat": (READ_FILES,),
    "read": (READ_FILES,),
    "folder": (READ_FILES,),
    "walk": (READ_FILES,),
    "find": (READ_FILES,),
    "listing": (READ_FILES,),
    "describe": (READ_FILES,),
    "write": (READ_FILES, WRITE_FILES),
    "create": (READ_FILES, WRITE_FILES),
    "rename": (READ_FILES, WRITE_FILES),
    "copy": (READ_FILES, WRITE_FILES),
    "delete": (WRITE_FILES,),
}
FORKS: Mapping[str, tuple[Leave, ...]] = {
    "offered": (),
    "of": (READ_FILES,),
    "join": (READ_FILES,),
    "make": (READ_FILES, WRITE_FILES),
    "end": (WRITE_FILES,),
}
# Jupyter itself does not check leave for kernels when a session is made, switched or ended, though each starts or ends a kernel.
KERNELS: Mapping[str, tuple[Leave, ...]] = {
    "url": (),
    "specs": (READ_KINDS,),
    "kernels": (READ_KERNELS,),
    "kernel": (READ_KERNELS,),
    "start_kernel": (WRITE_KERNELS,),
    "interrupt": (WRITE_KERNELS,),
    "restart": (WRITE_KERNELS,),
    "shut_down": (WRITE_KERNELS,),
    "sessions": (READ_SESSIONS,),
    "session_of": (READ_SESSIONS,),
    "start_session": (WRITE_SESSIONS, WRITE_KERNELS),
    "switch_kernel": (WRITE_SESSIONS, WRITE_KERNELS),
    "move_session": (WRITE_SESSIONS,),
    "end_session": (WRITE_SESSIONS, WRITE_KERNELS),
    "open_channel": (USE_KERNELS,),
}
ROOMS: Mapping[str, tuple[Leave, ...]] = {
    "notebook": (READ_FILES,),
    "document": (READ_FILES,),
    "open_rooms": (READ_FILES,),
    "find": (READ_FILES,),
    "news": (READ_FILES,),
    "lost": (READ_FILES,),
    "end": (WRITE_FILES,),
    "let_go": (WRITE_FILES,),
}
QUEUES: Mapping[str, tuple[Leave, ...]] = {
    "session_of": (READ_SESSIONS,),
    "queue": (USE_KERNELS,),
    "state_of": (),  # of a kernel that the caller was shown
    "life_of": (),
    "ending": (),
    "note_shutdown": (),
    "leave": (),
}


def require(principal: Principal, *needed: Leave) -> None:
    """Raise Forbidden unless Jupyter permits all of these to the caller."""
    for leave in needed:
        if not principal.has(leave):
            raise Forbidden(
                f"this Jupyter server does not let you {leave.action} {leave.resource}",
                hint="its authorizer decides that: ask the operator, or do it without",
                details={"action": leave.action, "resource": leave.resource},
            )


def require_run(
    call: Call,
    doing: str = "executing cells",
    instead: str = "give exec: false",
    needed: Sequence[Leave] = RUNNING,
) -> None:
    """Raise Forbidden, before anything is done, unless the caller has the scope to run code (also within an edit) and Jupyter's leave."""
    if not call.principal.may(Scope.RUN):
        raise Forbidden(
            f"the token lacks the scope 'run' that {doing} needs",
            hint=f"{instead}, or ask the operator for a token with it",
            details={"scope": Scope.RUN.value},
        )
    require(call.principal, *needed)


class _Permitted:
    """A part of Jupyter, each method of which first checks that the caller has the leave it needs."""

    def __init__(self, inner: object, needed: Mapping[str, tuple[Leave, ...]], principal: Principal) -> None:
        self._inner = inner
        self._needed = needed
        self._principal = principal

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever is behind that name
        needed = self._needed.get(name)
        if needed is None:
            raise AttributeError(f"{name} of {type(self._inner).__name__} is not named among what needs leave")
        attribute = getattr(self._inner, name)
        if not needed or not callable(attribute):
            return attribute
        if not inspect.iscoroutinefunction(attribute):

            def checked(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
                require(self._principal, *needed)
                return attribute(*arguments, **named)

            return checked

        async def checked_coroutine(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            require(self._principal, *needed)
            return await attribute(*arguments, **named)

        return checked_coroutine


class _PermittedRooms(_Permitted):
    """Open documents are shared by all callers, so each change is checked for the caller who makes it."""

    def __init__(self, rooms: Rooms, principal: Principal) -> None:
        super().__init__(rooms, ROOMS, principal)
        self._rooms = rooms

    def notebook(
        self, path: NotebookPath, *, run_ended: RunEnded | None = None, looks: bool = False
    ) -> AbstractAsyncContextManager[OpenDocument[LiveNotebook]]:
        require(self._principal, *ROOMS["notebook"], *((WRITE_FILES,) if run_ended else ()))
        return self._rooms.notebook(path, run_ended=run_ended, looks=looks, may_change=self._may_change)

    def document(self, path: DocPath) -> AbstractAsyncContextManager[OpenDocument[TextDocument]]:
        require(self._principal, *ROOMS["document"])
        return self._rooms.document(path, may_change=self._may_change)

    def _may_change(self) -> None:
        require(self._principal, WRITE_FILES)


class PermittedJupyter:
    """The workspace as one caller may use it."""

    def __init__(self, jupyter: Jupyter, principal: Principal) -> None:
        self._jupyter = jupyter
        self._principal = principal

    @property
    def documents(self) -> Documents:
        return cast("Documents", _PermittedDocuments(self._jupyter.documents, self._principal))

    @property
    def kernels(self) -> JupyterKernels:
        return cast("JupyterKernels", _Permitted(self._jupyter.kernels, KERNELS, self._principal))

    async def about(self) -> Mapping[str, object]:
        require(self._principal, READ_KERNELS)
        return await self._jupyter.about()

    async def close(self) -> None:
        """Does nothing: no single caller may close it."""


class _PermittedDocuments(_Permitted):
    def __init__(self, documents: Documents, principal: Principal) -> None:
        super().__init__(documents, DOCUMENTS, principal)
        self._documents = documents

    @property
    def forks(self) -> Forks:
        return cast("Forks", _Permitted(self._documents.forks, FORKS, self._principal))


def permitted_rooms(rooms: Rooms, principal: Principal) -> Rooms:
    return cast("Rooms", _PermittedRooms(rooms, principal))


def permitted_queues(kernels: LiveKernels, principal: Principal) -> LiveKernels:
    return cast("LiveKernels", _Permitted(kernels, QUEUES, principal))
