"""Pictures for the model: small ones as they are, large ones resized, dangerous ones refused unread."""

import asyncio
import base64
import io
import os
import struct
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cellwright.jupyter.kernels import images
from cellwright.jupyter.kernels.images import (
    MAX_BYTES,
    MAX_SIDE,
    Fitted,
    FittedImage,
    ImageLeftOut,
    Pictures,
    dimensions,
    look,
    resized,
)
from cellwright.workers.pool import WorkerPool
from requirements import requirement

pytestmark = pytest.mark.anyio
FORMATS = ["PNG", "JPEG", "GIF", "WEBP"]


@pytest.fixture(scope="module")
async def pool() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.fixture
def pictures(pool: WorkerPool) -> Pictures:
    return Pictures(pool)


async def fitted_by(pictures: Pictures, data: bytes, mime_type: str = "image/png") -> Fitted:
    return await pictures.fit(base64.b64encode(data).decode(), mime_type, "ada")


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB", *, noise: bool = False) -> bytes:
    if noise:
        image = Image.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))
    else:
        image = Image.new(mode, (width, height), "red")
        image.paste("blue", (0, 0, width // 2, height))
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


@requirement("images:fit:small")
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_small_picture_is_passed_byte_for_byte(pictures: Pictures, kind: str) -> None:
    data = picture(40, 30, kind)
    # What the output calls it does not count: models refuse pictures whose type is wrong.
    fitted = await pictures.fit(base64.encodebytes(data).decode(), "image/png", "ada")
    assert fitted == FittedImage(data, f"image/{kind.lower()}", 40, 30, resized=False)


@requirement("images:fit:headers")
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (300, 7), (7, 300), (1025, 513)])
def test_the_size_is_read_from_the_header(kind: str, size: tuple[int, int]) -> None:
    found = dimensions(picture(*size, kind))
    assert found is not None
    assert (found.mime_type, found.width, found.height) == (f"image/{kind.lower()}", *size)


@requirement("images:fit:headers")
@pytest.mark.parametrize("options", [{"lossless": True}, {"exif": b"Exif\x00\x00"}, {"quality": 5}])
def test_every_kind_of_webp_and_a_jpeg_with_metadata_are_read(options: dict[str, object]) -> None:
    for kind in ("WEBP", "JPEG"):
        buffer = io.BytesIO()
        Image.new("RGB", (321, 123)).save(buffer, kind, **({} if kind == "JPEG" and "lossless" in options else options))
        found = dimensions(buffer.getvalue())
        assert found is not None
        assert (found.width, found.height) == (321, 123)


@requirement("images:fit:large")
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_large_picture_is_resized_and_shows_the_same(pictures: Pictures, kind: str) -> None:
    fitted = await fitted_by(pictures, picture(4000, 2000, kind), f"image/{kind.lower()}")
    assert isinstance(fitted, FittedImage)
    assert (fitted.width, fitted.height, fitted.resized) == (MAX_SIDE, MAX_SIDE // 2, True)
    shown = Image.open(io.BytesIO(fitted.data)).convert("RGB")
    left, right = shown.getpixel((100, 100)), shown.getpixel((MAX_SIDE - 100, 100))
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    assert left[2] > 200 > left[0]
    assert right[0] > 200 > right[2]


@requirement("images:fit:large")
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
async def test_a_picture_of_many_bytes_becomes_small_enough(pictures: Pictures, mode: str) -> None:
    data = picture(1200, 1200, mode=mode, noise=True)
    assert len(data) > MAX_BYTES
    fitted = await fitted_by(pictures, data)
    assert isinstance(fitted, FittedImage)
    assert len(fitted.data) <= MAX_BYTES
    assert fitted.mime_type == "image/jpeg"
    assert dimensions(fitted.data) is not None


def png_declaring(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body


@requirement("images:guard:bomb")
@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (50_001, 1000), (0, 10)])
async def test_a_picture_that_declares_too_much_is_refused_undecoded(size: tuple[int, int]) -> None:
    pool = WorkerPool()
    left_out = await fitted_by(Pictures(pool), png_declaring(*size))
    assert pool.pids == ()
    assert isinstance(left_out, ImageLeftOut)
    assert f"{size[0]} x {size[1]} pixels" in left_out.reason


@requirement("images:guard:broken")
@pytest.mark.parametrize("kind", FORMATS)
@given(st.data())
def test_a_broken_picture_is_said_to_be_broken(kind: str, data: st.DataObject) -> None:
    whole = picture(1400, 20, kind)
    cut = data.draw(st.integers(0, len(whole) - 1))
    flips = data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4))
    changed = bytearray(whole)
    for position, value in flips:
        changed[position] = value
    for broken in (bytes(changed), bytes(changed[:cut])):
        looked = look(broken, "image/png")
        assert isinstance(looked, Fitted) or isinstance(resized(broken)(), bytes | str)


@requirement("images:guard:broken")
@pytest.mark.parametrize(
    "text", ["", "AAA", "<svg/>", "é", "A" * 80_000_000], ids=["none", "short", "svg", "odd", "huge"]
)
async def test_what_is_no_picture_is_said_to_be_none(pictures: Pictures, text: str) -> None:
    left_out = await pictures.fit(text, "image/png", "ada")
    assert isinstance(left_out, ImageLeftOut)
    assert left_out.sentence().startswith("[image/png, ")


@requirement("images:guard:without-pillow")
def test_without_pillow_a_large_picture_is_left_out_whole_with_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(images, "can_resize", lambda: False)
    small, large = picture(100, 100), picture(2000, 100)
    assert isinstance(look(small, "image/png"), FittedImage)
    left_out = look(large, "image/png")
    assert isinstance(left_out, ImageLeftOut)
    sentence = left_out.sentence(f"jupyter://{tmp_path.name}/cells/a/outputs/0")
    assert "2000 x 100 pixels" in sentence
    assert "Pillow is not installed" in sentence
    assert sentence.endswith("/cells/a/outputs/0]")


def memory_of(process: int | str) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


@requirement("memory:pictures")
async def test_pictures_that_unpack_to_much_take_none_of_our_memory(pool: WorkerPool, pictures: Pictures) -> None:
    buffer = io.BytesIO()
    Image.new("RGBA", (7_000, 7_000)).save(buffer, "WEBP", lossless=True)
    bomb = buffer.getvalue()
    assert len(bomb) < 20_000
    before = memory_of("self")
    fitted = await asyncio.gather(*(fitted_by(pictures, bomb, "image/webp") for _ in range(3 * images.AT_ONCE)))
    assert all(isinstance(one, FittedImage) for one in fitted)
    assert memory_of("self") - before < 20_000_000
    # It is no lie of the measure: that is what it takes where it is decoded.
    assert max(memory_of(process) for process in pool.pids) > 150_000_000
    assert len(pool.pids) <= images.AT_ONCE
