"""What a Jupyter server tells of its files, kernels and sessions, as values: the same whether it is asked over HTTP or from inside."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.sight import spelt
from cellwright.jupyter.model import FileInfo, FileKind, JsonObject, KernelInfo, KernelSpec, SessionInfo, timestamp


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


def _moment(told: datetime | str) -> datetime:
    """Managers give times, the API gives text."""
    if isinstance(told, str):
        return timestamp(told)
    return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)


def kernel_info(model: JsonObject) -> KernelInfo:
    active = model.get("last_activity")
    return KernelInfo(
        id=str(model["id"]),
        name=str(model.get("name", "")),
        state=str(model.get("execution_state") or "unknown"),
        last_activity=timestamp(str(active)) if active else None,
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
    found = cast("dict[str, Any]", model.get("resources") or {})
    resources = {file: str(place) for file, place in found.items()}
    metadata = cast("JsonObject", spec.get("metadata") or {})
    about = cast("JsonObject", metadata.get("cellwright") or {})
    return KernelSpec(
        name,
        str(spec.get("display_name") or name),
        str(spec.get("language") or ""),
        resources,
        is_default,
        str(about.get("interpreter") or _python_in(spec.get("argv"))),
        str(about.get("version") or ""),
        str(about.get("origin") or ""),
    )


def _python_in(argv: object) -> str:
    """The interpreter in the command of a Python kernel. A bare name means the Jupyter server's own, whose path is not told."""
    words = [str(word) for word in cast("list[object]", argv)] if isinstance(argv, list) else []
    starts_python = any(word in ("ipykernel", "ipykernel_launcher") for word in words)
    return words[0] if starts_python and ("/" in words[0] or "\\" in words[0]) else ""


def spec_named(name: str, specs: Iterable[KernelSpec], url: str) -> KernelSpec:
    """The kernel of this name, if there is one. Jupyter itself has no good words for one that there is not."""
    found = {spec.name: spec for spec in specs}
    if name not in found:
        raise InvalidArgument(f"no kernel named {name!r} on {url}", hint=f"There are: {', '.join(found) or 'none'}")
    return found[name]


def known_kernel(name: str, specs: Iterable[KernelSpec], url: str) -> str:
    """The name, if there is such a kernel."""
    return spec_named(name, specs, url).name
