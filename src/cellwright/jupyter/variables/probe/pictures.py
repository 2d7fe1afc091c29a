"""Figures of matplotlib and images of Pillow as PNG, drawn so that nothing of them is other than before."""

from __future__ import annotations

import binascii
import io
from typing import Any

from cellwright.jupyter.variables.probe.kinds import (
    Budget,
    cut,
    instance_names,
    known_as,
    library_of,
    module_names,
    type_name,
)

LONGEST_SIDE = 1280
MOST_ARTISTS = 20_000
MOST_POINTS = 2_000_000
MOST_PIXELS = 25_000_000
DRAWN = ("matplotlib", "mpl_toolkits", "matplotlib_inline", "ipympl", "pandas", "seaborn")
"""Whose artists, canvases and formatters may be run to draw a figure."""
CODE_FORMATTERS = ("FuncFormatter",)


class CannotDraw(Exception):
    """Why there is no picture."""


def picture_of(value: Any, budget: Budget) -> dict[str, Any] | None:
    """The picture of a figure, of the figure of axes, or of an image, in base64, or a note why there is none; None for all else."""
    library, name = known_as(value)
    try:
        if library == "matplotlib" and name in ("Figure", "Axes"):
            figure = value if name == "Figure" else value.get_figure()
            return {"png": encoded(figure_png(figure, budget))}
        if library == "PIL":
            return image_detail(value, budget)
    except CannotDraw as reason:
        return {"note": f"no picture: {reason}"}
    return None


def encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def take_turn(budget: Budget) -> None:
    budget.pictures -= 1
    if budget.late or budget.pictures < 0:
        raise CannotDraw("there was no time for so many")


def figure_png(figure: Any, budget: Budget) -> bytes:
    take_turn(budget)
    if known_as(figure) != ("matplotlib", "Figure"):
        raise CannotDraw("the figure's class is not matplotlib's own")
    canvas = figure.canvas
    if library_of(type(canvas)) not in DRAWN:
        raise CannotDraw("the figure's canvas is not matplotlib's own")
    artists = artists_of(figure)
    width, height = (float(side) for side in figure.get_size_inches())
    stale = [(names, names["_stale"]) for names in map(instance_names, artists) if names and "_stale" in names]
    buffer = io.BytesIO()
    dpi = min(float(figure.dpi), LONGEST_SIDE / max(width, height, 0.01))
    try:
        # Those who asked to be told when the figure is drawn are not told of this.
        with figure._canvas_callbacks.blocked():  # noqa: SLF001 - matplotlib has no other way
            canvas.print_figure(buffer, dpi=dpi, format="png", bbox_inches=None)
    finally:
        # What is not yet drawn where people see it is still to be drawn there.
        for names, was in stale:
            names["_stale"] = was
    return buffer.getvalue()


def artists_of(figure: Any) -> list[Any]:
    """Everything in the figure, if drawing it runs no code of the notebook and does not take long."""
    artists: list[Any] = []
    waiting = [figure]
    points = 0
    while waiting:
        artist = waiting.pop()
        if library_of(type(artist)) not in DRAWN:
            raise CannotDraw(f"drawing it would run {type_name(type(artist))}, which is not matplotlib's")
        names = instance_names(artist) or {}
        refuse_code(names)
        points += points_in(names)
        artists.append(artist)
        if len(artists) > MOST_ARTISTS or points > MOST_POINTS:
            raise CannotDraw("there is too much in it to be drawn quickly")
        waiting += artist.get_children()
    return artists


def refuse_code(names: dict[str, Any]) -> None:
    """Axes write their numbers by formatters, which may be functions of the notebook; so may effects, filters and snapping be."""
    for ticker in (names.get("major"), names.get("minor")):
        for part in (instance_names(ticker) or {}).values() if ticker is not None else ():
            if type(part) is bool or part is None:
                continue
            if library_of(type(part)) not in DRAWN or type_name(type(part)).endswith(CODE_FORMATTERS):
                raise CannotDraw(
                    f"drawing it would run {type_name(type(part))} of an axis, which is code of the notebook"
                )
    if names.get("_agg_filter") is not None:
        raise CannotDraw("drawing it would run a filter, which is code of the notebook")


def points_in(names: dict[str, Any]) -> int:
    """How much there is to draw in an artist: the numbers in the arrays that it keeps."""
    array = module_names("numpy").get("ndarray")
    return sum(int(content.size) for content in names.values() if array is not None and type(content) is array)


def image_detail(image: Any, budget: Budget) -> dict[str, Any] | None:
    kind = module_names("PIL.Image").get("Image")
    if kind is None or not any(base is kind for base in type.__dict__["__mro__"].__get__(type(image))):
        return None
    width, height = image.size
    detail: dict[str, Any] = {"size": f"{int(width)} x {int(height)}", "mode": cut(str(image.mode), 20)}
    names = instance_names(image) or {}
    if names.get("tile") or names.get("_im") is None:
        # To read it would change it: the file is read once, and closed.
        return {**detail, "note": "no picture: its file is not read yet"}
    if width * height > MOST_PIXELS or not width * height:
        return {**detail, "note": "no picture: it has too many pixels, or none"}
    take_turn(budget)
    small = kind.copy(image)
    if max(width, height) > LONGEST_SIDE:
        share = LONGEST_SIDE / max(width, height)
        small = small.resize((max(1, int(width * share)), max(1, int(height * share))))
    if small.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        small = small.convert("RGB")
    buffer = io.BytesIO()
    kind.save(small, buffer, format="PNG")
    return {**detail, "png": encoded(buffer.getvalue())}
