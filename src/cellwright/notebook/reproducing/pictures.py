"""How alike two pictures are: both made small and grey, and the differences counted. Without Pillow, only whether they are equal."""

import base64
import binascii
import io
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from cellwright.notebook.reproducing.values import SAME, Comparison, close, different, unknown

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SIDE = 128
"""The longer side, in pixels, of what is compared."""
VISIBLE = 26
"""The least difference of two grey values, of 255, that counts."""
STRONG = 52
"""A difference of two grey values that is never an accident of drawing."""
MOST_VISIBLE = 0.005
"""The part of the pixels that may differ visibly in alike pictures."""
MOST_STRETCH = 0.02
MOST_BYTES = 20_000_000
MOST_PIXELS = 50_000_000


def can_decode() -> bool:
    return find_spec("PIL") is not None


def load_decoder() -> None:
    """Import what decoding needs, while files can still be opened."""
    if can_decode():
        cast("Any", import_module("PIL.Image")).init()
        import_module("PIL.ImageChops")


def compare_pictures(kept: str, new: str, mime: str) -> Comparison:
    """Two pictures in base64."""
    if "".join(kept.split()) == "".join(new.split()):
        return SAME
    if not can_decode():
        return unknown(f"{mime}: its bytes differ, and Pillow is not installed to compare what it shows")
    before, after = _decoded(kept), _decoded(new)
    for picture in (before, after):
        if isinstance(picture, str):
            return unknown(f"{mime}: {picture}")
    return _compare(cast("Picture", before), cast("Picture", after), mime)


def _decoded(encoded: str) -> "Picture | str":
    pillow = cast("Any", import_module("PIL.Image"))
    if len(encoded) > MOST_BYTES * 4 // 3:
        return f"it has more than {MOST_BYTES:,} bytes"
    try:
        data = base64.b64decode(encoded, validate=False)
        picture: Picture = pillow.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP"))
        if picture.width * picture.height > MOST_PIXELS:
            return f"it is {picture.width} x {picture.height} pixels"
        picture = picture.convert("RGBA")
        background: Picture = pillow.new("RGBA", picture.size, "white")
        background.alpha_composite(picture)
        return background.convert("RGB")
    except (binascii.Error, OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as error:
        return f"it cannot be decoded ({type(error).__name__})"


def _compare(kept: "Picture", new: "Picture", mime: str) -> Comparison:
    chops = cast("Any", import_module("PIL.ImageChops"))
    if kept.size == new.size and chops.difference(kept, new).getbbox() is None:
        return close("pictures with other bytes and the same pixels")
    sizes = [f"{picture.width} x {picture.height}" for picture in (kept, new)]
    if abs(kept.width * new.height / (kept.height * new.width) - 1) > MOST_STRETCH:
        return different(f"{mime}: {sizes[0]} pixels were kept, {sizes[1]} came")
    scale = min(1.0, SIDE / max(kept.size))
    size = (max(1, round(kept.width * scale)), max(1, round(kept.height * scale)))
    pillow = cast("Any", import_module("PIL.Image"))
    small = [picture.resize(size, pillow.Resampling.BOX) for picture in (kept, new)]
    # The largest difference of the three colours: two colours of the same brightness are not alike.
    red, green, blue = chops.difference(*small).split()
    counts: list[int] = chops.lighter(chops.lighter(red, green), blue).histogram()
    pixels = size[0] * size[1]
    visible, strongest = sum(counts[VISIBLE:]) / pixels, max(value for value, count in enumerate(counts) if count)
    if visible <= MOST_VISIBLE and strongest < STRONG:
        return close(f"pictures that look alike ({visible:.1%} differs)")
    return different(f"{mime}: {max(visible, 1 / pixels):.1%} of the picture looks different")
