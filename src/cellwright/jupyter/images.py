"""Pictures from outputs, made small enough for a model. A picture is passed whole, resized, or not at all; never cut."""

# ruff: noqa: PLR2004 - offsets and markers of file formats

import base64
import binascii
import io
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_SIDE = 1280
MAX_BYTES = 400_000
MAX_SOURCE_BYTES = 50_000_000
MAX_SOURCE_PIXELS = 50_000_000
"""Checked before decoding: a few bytes can declare a picture that fills all memory."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
JPEG_QUALITIES = (85, 70, 50)
SMALLEST_SIDE = 64
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
        where = f"; it is at {link}" if link else ""
        return f"[{self.mime_type}, {self.size:,} bytes, not shown: {self.reason}{where}]"


@dataclass(frozen=True, slots=True)
class Dimensions:
    mime_type: str
    width: int
    height: int


def fit_output_image(encoded: str, mime_type: str) -> FittedImage | ImageLeftOut:
    """The same for a picture as outputs hold it: base64 text."""
    if len(encoded) > MAX_SOURCE_BYTES * 4 // 3 + 4:
        return ImageLeftOut(mime_type, len(encoded) * 3 // 4, f"it is larger than {MAX_SOURCE_BYTES:,} bytes")
    try:
        data = base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        return ImageLeftOut(mime_type, len(encoded), "it is not valid base64")
    return fit_image(data, mime_type)


def fit_image(data: bytes, mime_type: str) -> FittedImage | ImageLeftOut:
    """The picture within MAX_SIDE and MAX_BYTES, or why not. Takes time: call it in a thread."""
    found = dimensions(data)
    if found is None:
        return ImageLeftOut(mime_type, len(data), "it is not a PNG, JPEG, GIF or WEBP that can be read")
    pixels = found.width * found.height
    if pixels <= 0 or pixels > MAX_SOURCE_PIXELS or len(data) > MAX_SOURCE_BYTES:
        return ImageLeftOut(found.mime_type, len(data), f"it is {found.width} x {found.height} pixels")
    if max(found.width, found.height) <= MAX_SIDE and len(data) <= MAX_BYTES:
        return FittedImage(data, found.mime_type, found.width, found.height, resized=False)
    if not can_resize():
        reason = f"it is {found.width} x {found.height} pixels, and Pillow is not installed to make it smaller"
        return ImageLeftOut(found.mime_type, len(data), reason)
    return _resize(data, found)


def can_resize() -> bool:
    return find_spec("PIL") is not None


def dimensions(data: bytes) -> Dimensions | None:
    """What the picture declares of itself in its first bytes, without decoding it."""
    readers = (_png, _gif, _jpeg, _webp)
    return next((found for reader in readers if (found := reader(data)) is not None), None)


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


def _resize(data: bytes, found: Dimensions) -> FittedImage | ImageLeftOut:
    # Only here: Pillow is an optional part, and slow to import.
    pillow = cast("Any", import_module("PIL.Image"))
    try:
        picture: Picture = pillow.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP"))
        if picture.size != (found.width, found.height):
            return ImageLeftOut(found.mime_type, len(data), "it contradicts itself about its size")
        picture.thumbnail((MAX_SIDE, MAX_SIDE))
        picture = picture.convert("RGBA") if picture.has_transparency_data else picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as error:
        return ImageLeftOut(found.mime_type, len(data), f"it cannot be decoded ({type(error).__name__})")
    for width, height, mime_type, encoded in _attempts(picture):
        if len(encoded) <= MAX_BYTES:
            return FittedImage(encoded, mime_type, width, height, resized=True)
    return ImageLeftOut(found.mime_type, len(data), "it does not become small enough")


def _attempts(picture: "Picture") -> Iterable[tuple[int, int, str, bytes]]:
    """Ever smaller forms of the picture: without loss first, since most are plots and text."""
    while max(picture.size) >= SMALLEST_SIDE:
        yield *picture.size, "image/png", _encoded(picture, "PNG", optimize=True)
        flat = _on_white(picture)
        for quality in JPEG_QUALITIES:
            yield *picture.size, "image/jpeg", _encoded(flat, "JPEG", quality=quality)
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
