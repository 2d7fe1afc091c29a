"""Pictures of outputs, made small enough for a model. A picture is shown as it is, resized, or left out, but never cropped."""

# ruff: noqa: PLR2004 - offsets and markers of file formats

import asyncio
import base64
import binascii
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from cellwright.core.errors import CellwrightError
from cellwright.notebook.outputs import PICTURES, Output, is_data
from cellwright.workers.pool import SMALL, WorkerPool

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_SIDE = 1280
MAX_BYTES = 400_000
MAX_SOURCE_BYTES = 50_000_000
MAX_SOURCE_PIXELS = 50_000_000
"""Checked before decoding, because a few bytes can declare a picture that fills all memory."""
JPEG_QUALITIES = (85, 70, 50)
SMALLEST_SIDE = 64
AT_ONCE = 2
"""How many pictures are resized at the same time: each may take most of a gigabyte for a moment."""
JPEG_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
JPEG_FRAMES = frozenset(set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC})


@dataclass(frozen=True, slots=True)
class FittedImage:
    """A picture within the limits."""

    data: bytes
    mime_type: str
    width: int
    height: int
    resized: bool


@dataclass(frozen=True, slots=True)
class ImageLeftOut:
    """A picture that is not shown, and why."""

    mime_type: str
    size: int
    reason: str

    def sentence(self, link: str = "") -> str:
        location = f"; it is at {link}" if link else ""
        return f"[{self.mime_type}, {self.size:,} bytes, not shown: {self.reason}{location}]"


@dataclass(frozen=True, slots=True)
class Dimensions:
    mime_type: str
    width: int
    height: int


Fitted = FittedImage | ImageLeftOut


class Pictures:
    """Makes pictures fit for a model. Those that have to be decoded for that are decoded in worker processes, a few at a time."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def in_outputs(self, outputs: Iterable[Output], room: int, caller: str) -> Mapping[str, Fitted]:
        """The pictures of outputs by their base64 text, in order, until `room` of them can be shown."""
        fitted: dict[str, Fitted] = {}
        fitting_count = 0
        for output in outputs:
            if not is_data(output):
                continue
            for mime, value in output["data"].items():
                if mime not in PICTURES or not isinstance(value, str) or fitting_count >= room:
                    continue
                if value not in fitted:
                    fitted[value] = await self.fit(value, mime, caller)
                fitting_count += isinstance(fitted[value], FittedImage)
        return fitted

    async def fit(self, encoded: str, mime_type: str, caller: str) -> Fitted:
        """The picture of a base64 text within MAX_SIDE and MAX_BYTES, or why it is left out."""
        data = _decoded(encoded, mime_type)
        if isinstance(data, ImageLeftOut):
            return data
        original = look(data, mime_type)
        if not isinstance(original, Dimensions):
            return original
        async with self._turns:
            try:
                # Never a small job, however few bytes it has: decoded, the picture may take much memory.
                smaller = await self._pool.run(resized, size=max(SMALL, len(data)), caller=caller, data=data)
            except CellwrightError as error:
                return ImageLeftOut(original.mime_type, len(data), error.message)
        size = dimensions(smaller) if isinstance(smaller, bytes) else None
        if size is None or isinstance(smaller, str):
            return ImageLeftOut(original.mime_type, len(data), str(smaller))
        return FittedImage(smaller, size.mime_type, size.width, size.height, resized=True)


def _decoded(encoded: str, mime_type: str) -> bytes | ImageLeftOut:
    if len(encoded) > MAX_SOURCE_BYTES * 4 // 3 + 4:
        return ImageLeftOut(mime_type, len(encoded) * 3 // 4, f"it is larger than {MAX_SOURCE_BYTES:,} bytes")
    try:
        return base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        return ImageLeftOut(mime_type, len(encoded), "it is not valid base64")


def look(data: bytes, mime_type: str) -> Fitted | Dimensions:
    """The picture if it is small enough, its size if it must be made smaller, or why it is left out. Decodes nothing."""
    size = dimensions(data)
    if size is None:
        return ImageLeftOut(mime_type, len(data), "it is not a PNG, JPEG, GIF or WEBP that can be read")
    pixels = size.width * size.height
    if pixels <= 0 or pixels > MAX_SOURCE_PIXELS or len(data) > MAX_SOURCE_BYTES:
        return ImageLeftOut(size.mime_type, len(data), f"it is {size.width} x {size.height} pixels")
    if max(size.width, size.height) <= MAX_SIDE and len(data) <= MAX_BYTES:
        return FittedImage(data, size.mime_type, size.width, size.height, resized=False)
    if not can_resize():
        reason = f"it is {size.width} x {size.height} pixels, and Pillow is not installed to make it smaller"
        return ImageLeftOut(size.mime_type, len(data), reason)
    return size


def can_resize() -> bool:
    return find_spec("PIL") is not None


def dimensions(data: bytes) -> Dimensions | None:
    """The type and size that the picture declares in its first bytes. Decodes nothing."""
    readers = (_png, _gif, _jpeg, _webp)
    return next((size for reader in readers if (size := reader(data)) is not None), None)


def _png(data: bytes) -> Dimensions | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    return Dimensions("image/png", int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))


def _gif(data: bytes) -> Dimensions | None:
    if not data.startswith((b"GIF87a", b"GIF89a")) or len(data) < 10:
        return None
    return Dimensions("image/gif", int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))


def _jpeg(data: bytes) -> Dimensions | None:
    if not data.startswith(b"\xff\xd8"):
        return None
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker in JPEG_FRAMES:
            height, width = data[position + 5 : position + 7], data[position + 7 : position + 9]
            return Dimensions("image/jpeg", int.from_bytes(width), int.from_bytes(height))
        if marker == 0xFF:
            position += 1
        elif marker in JPEG_MARKERS_WITHOUT_LENGTH:
            position += 2
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4])
    return None


def _webp(data: bytes) -> Dimensions | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            packed = int.from_bytes(data[21:25], "little")
            width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width = int.from_bytes(data[26:28], "little") & 0x3FFF
            height = int.from_bytes(data[28:30], "little") & 0x3FFF
        case _:
            return None
    return Dimensions("image/webp", width, height)


def resized(data: bytes) -> Callable[[], bytes | str]:
    """A job for worker processes: the picture made smaller, or why it cannot be."""
    # Imported only here: Pillow is optional, and slow to import.
    pillow = cast("Any", import_module("PIL.Image"))
    pillow.init()
    return lambda: _resize(pillow, data)


def _resize(pillow: Any, data: bytes) -> bytes | str:  # noqa: ANN401 - a module that may be missing
    size = dimensions(data)
    try:
        picture: Picture = pillow.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP"))
        if size is None or picture.size != (size.width, size.height):
            return "it contradicts itself about its size"
        picture.thumbnail((MAX_SIDE, MAX_SIDE))
        picture = picture.convert("RGBA") if picture.has_transparency_data else picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as error:
        return f"it cannot be decoded ({type(error).__name__})"
    small = next((encoded for encoded in _attempts(picture) if len(encoded) <= MAX_BYTES), None)
    return "it does not become small enough" if small is None else small


def _attempts(picture: "Picture") -> Iterable[bytes]:
    """Ever smaller encodings of the picture, lossless ones first, because most pictures are plots and text."""
    while max(picture.size) >= SMALLEST_SIDE:
        yield _encoded(picture, "PNG", optimize=True)
        flat = _on_white(picture)
        for quality in JPEG_QUALITIES:
            yield _encoded(flat, "JPEG", quality=quality)
        picture = picture.resize((max(1, picture.width * 3 // 4), max(1, picture.height * 3 // 4)))


def _on_white(picture: "Picture") -> "Picture":
    if picture.mode != "RGBA":
        return picture
    pillow = cast("Any", import_module("PIL.Image"))
    background: Picture = pillow.new("RGB", picture.size, "white")
    background.paste(picture, mask=picture.getchannel("A"))
    return background


def _encoded(picture: "Picture", kind: str, **options: int | bool) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()
