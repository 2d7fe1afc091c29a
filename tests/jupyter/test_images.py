"""Pictures for the model: small ones as they are, large ones resized, dangerous ones refused unread."""

import base64
import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cellwright.jupyter import images
from cellwright.jupyter.images import (
    MAX_BYTES,
    MAX_SIDE,
    FittedImage,
    ImageLeftOut,
    dimensions,
    fit_image,
    fit_output_image,
)
from requirements import requirement

FORMATS = ["PNG", "JPEG", "GIF", "WEBP"]


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
def test_a_small_picture_is_passed_byte_for_byte(kind: str) -> None:
    data = picture(40, 30, kind)
    # What the output calls it does not count: models refuse pictures whose type is wrong.
    fitted = fit_output_image(base64.encodebytes(data).decode(), "image/png")
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
def test_a_large_picture_is_resized_and_shows_the_same(kind: str) -> None:
    fitted = fit_image(picture(4000, 2000, kind), f"image/{kind.lower()}")
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
def test_a_picture_of_many_bytes_becomes_small_enough(mode: str) -> None:
    data = picture(1200, 1200, mode=mode, noise=True)
    assert len(data) > MAX_BYTES
    fitted = fit_image(data, "image/png")
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
def test_a_picture_that_declares_too_much_is_refused_undecoded(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(_data: bytes, _found: object) -> None:
        pytest.fail("it was decoded")

    monkeypatch.setattr(images, "_resize", decode)
    left_out = fit_image(png_declaring(*size), "image/png")
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
        result = fit_image(broken, "image/png")
        assert isinstance(result, FittedImage | ImageLeftOut)


@requirement("images:guard:broken")
@pytest.mark.parametrize(
    "text", ["", "AAA", "<svg/>", "é", "A" * 80_000_000], ids=["none", "short", "svg", "odd", "huge"]
)
def test_what_is_no_picture_is_said_to_be_none(text: str) -> None:
    left_out = fit_output_image(text, "image/png")
    assert isinstance(left_out, ImageLeftOut)
    assert left_out.sentence().startswith("[image/png, ")


@requirement("images:guard:without-pillow")
def test_without_pillow_a_large_picture_is_left_out_whole_with_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(images, "can_resize", lambda: False)
    small, large = picture(100, 100), picture(2000, 100)
    assert isinstance(fit_image(small, "image/png"), FittedImage)
    left_out = fit_image(large, "image/png")
    assert isinstance(left_out, ImageLeftOut)
    sentence = left_out.sentence(f"jupyter://{tmp_path.name}/cells/a/outputs/0")
    assert "2000 x 100 pixels" in sentence
    assert "Pillow is not installed" in sentence
    assert sentence.endswith("/cells/a/outputs/0]")
