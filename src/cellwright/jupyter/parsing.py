"""Values made of a Jupyter server's answers about files, kernels and sessions: the same over HTTP and from inside the server."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.sight import spelt
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.model import FileInfo, FileKind, JsonObject, KernelInfo, KernelSpec, SessionInfo, timestamp

NOTEBOOK = "notebook"
"""The type of a notebook's session; consoles have others."""


def file_info(model: JsonObject) -> FileInfo:
    return FileInfo(
        path=spelt(model["path"].strip("/")),
        kind=FileKind(model["type"]),
        created=_moment(model["created"]),
        last_modified=_moment(model["last_modified"]),
        size=model.get("size"),
        writable=bool(model.get("writable", True)),
        mime_type=model.get("mimetype"),
        hash=model.get("hash"),
    )


def _moment(time: datetime | str) -> datetime:
    """Managers give times, the API gives text."""
    if isinstance(time, str):
        return timestamp(time)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def kernel_info(model: JsonObject) -> KernelInfo:
    last_activity = model.get("last_activity")
    return KernelInfo(
        id=str(model["id"]),
        name=str(model.get("name", "")),
        state=str(model.get("execution_state") or "unknown"),
        last_activity=timestamp(str(last_activity)) if last_activity else None,
        connections=int(model.get("connections") or 0),
    )


def session_info(model: JsonObject) -> SessionInfo:
    kernel: JsonObject | None = model.get("kernel")
    return SessionInfo(
        id=str(model["id"]),
        path=str(model.get("path") or "").lstrip("/"),
        name=str(model.get("name") or ""),
        type=str(model.get("type") or ""),
        kernel=kernel_info(kernel) if kernel else None,
    )


def kernel_spec(name: str, model: JsonObject, *, is_default: bool) -> KernelSpec:
    spec = cast("JsonObject", model.get("spec") or {})
    resources = cast("dict[str, Any]", model.get("resources") or {})
    metadata = cast("JsonObject", spec.get("metadata") or {})
    ours = cast("JsonObject", metadata.get("cellwright") or {})
    return KernelSpec(
        name,
        str(spec.get("display_name") or name),
        str(spec.get("language") or ""),
        {file: str(path) for file, path in resources.items()},
        is_default,
        str(ours.get("interpreter") or _python_in(spec.get("argv"))),
        str(ours.get("version") or ""),
        str(ours.get("origin") or ""),
    )


def _python_in(argv: object) -> str:
    """The interpreter in the command of a Python kernel; empty for a bare name, which is the Jupyter server's own Python."""
    words = [str(word) for word in cast("list[object]", argv)] if isinstance(argv, list) else []
    starts_python = any(word in ("ipykernel", "ipykernel_launcher") for word in words)
    return words[0] if starts_python and ("/" in words[0] or "\\" in words[0]) else ""


def spec_named(name: str, specs: Iterable[KernelSpec], url: str) -> KernelSpec:
    """The kernel of this name. Raises InvalidArgument if there is none: Jupyter itself only answers with a bare 500."""
    by_name = {spec.name: spec for spec in specs}
    if name not in by_name:
        raise InvalidArgument(f"no kernel named {name!r} on {url}", hint=f"There are: {', '.join(by_name) or 'none'}")
    return by_name[name]


def notebook_session(sessions: Iterable[SessionInfo], path: NotebookPath) -> SessionInfo | None:
    """The notebook's own session. A session that lost its kernel does not count."""
    for session in sessions:
        if session.path == path.text and session.type == NOTEBOOK and session.kernel is not None:
            return session
    return None
