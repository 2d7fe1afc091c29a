"""The outputs of a cell compared: streams by name, data by the best form that both have, errors by name and message."""

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.core.text.counting import counted
from cellwright.notebook.outputs import (
    PICTURES,
    Data,
    Error,
    Output,
    best_mime,
    is_data,
    is_error,
    is_stream,
    read_output,
)
from cellwright.notebook.reproducing.markup import plain_drawing, readable
from cellwright.notebook.reproducing.pictures import compare_pictures
from cellwright.notebook.reproducing.structures import compare_json
from cellwright.notebook.reproducing.texts import compare_texts
from cellwright.notebook.reproducing.values import SAME, Comparison, Rules, different, together, unknown

WIDGET = "application/vnd.jupyter.widget-view+json"
LEFT_OUT = "[cellwright: "
"""How a note begins that stands in the place of outputs that were too large to keep."""


def compare_outputs(kept: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], rules: Rules) -> Comparison:
    """All outputs of one cell: those that are kept, and those of the new run."""
    kept_outputs, new_outputs = ([read_output(output) for output in outputs] for outputs in (kept, new))
    return together(
        [
            *_compare_streams(kept_outputs, new_outputs, rules),
            *_compare_data(kept_outputs, new_outputs, rules),
            _compare_errors(kept_outputs, new_outputs, rules),
        ]
    )


def _compare_streams(kept: Sequence[Output], new: Sequence[Output], rules: Rules) -> list[Comparison]:
    kept_texts, new_texts = _streams(kept), _streams(new)
    compared: list[Comparison] = []
    for name in dict.fromkeys((*kept_texts, *new_texts)):
        before, after = kept_texts.get(name, ""), new_texts.get(name, "")
        if bool(before.strip()) == bool(after.strip()):
            compared.append(compare_texts(before, after, rules, name))
        else:
            compared.append(different(f"{'missing' if before.strip() else 'new'}: {name}", before, after))
    return compared


def _streams(outputs: Sequence[Output]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for output in outputs:
        if is_stream(output):
            texts[output["name"]] = texts.get(output["name"], "") + output["text"]
    return texts


def _compare_data(kept: Sequence[Output], new: Sequence[Output], rules: Rules) -> list[Comparison]:
    kept_data, new_data = ([output for output in outputs if is_data(output)] for outputs in (kept, new))
    compared = [_compare_bundle(before, after, rules) for before, after in zip(kept_data, new_data, strict=False)]
    for word, rest in (("missing", kept_data[len(new_data) :]), ("new", new_data[len(kept_data) :])):
        for output in rest:
            shown = _shown(output)
            compared.append(
                different(f"{word}: {best_mime(output['data'])}", *((shown, "") if word == "missing" else ("", shown)))
            )
    return compared


def _shown(output: Data) -> str:
    plain = output["data"].get("text/plain")
    return plain if isinstance(plain, str) else f"[{', '.join(list(output['data'])[:5])}]"


def _compare_bundle(kept: Data, new: Data, rules: Rules) -> Comparison:
    """Two outputs by the best form that both have. If that one cannot be compared, by the next."""
    common = {mime: value for mime, value in kept["data"].items() if mime in new["data"]}
    if any(_is_cut(output) for output in (kept, new)):
        return SAME if kept["data"] == new["data"] else unknown("outputs that were too large to be kept whole")
    doubts: list[str] = []
    while common:
        mime = _best_to_compare(common)
        compared = _compare_form(mime, common.pop(mime), new["data"][mime], rules)
        if compared.likeness != "unknown":
            return compared if not doubts or compared.likeness == "different" else unknown(doubts[0])
        doubts += compared.reasons
    if doubts:
        return unknown(doubts[0])
    if not kept["data"] and not new["data"]:
        return SAME
    return different(f"{_forms(kept)} was kept, {_forms(new)} came", _shown(kept), _shown(new))


def _is_cut(output: Data) -> bool:
    plain = output["data"].get("text/plain")
    return isinstance(plain, str) and LEFT_OUT in plain and "left out" in plain


def _best_to_compare(data: Mapping[str, object]) -> str:
    """The form that tells most. JSON that programs draw from comes before the page that loads their scripts.

    A widget comes first: its other forms say only that there is one.
    """
    if WIDGET in data:
        return WIDGET
    rich = next((mime for mime in data if mime.endswith("+json")), None)
    best = best_mime(data)
    if best in PICTURES or best == "image/svg+xml" or rich is None:
        return best
    return rich


def _forms(output: Data) -> str:
    return ", ".join(list(output["data"])[:3]) or "nothing"


def _compare_form(mime: str, kept: object, new: object, rules: Rules) -> Comparison:
    if mime == WIDGET:
        return unknown("a widget, whose state is not part of the notebook")
    if mime.endswith("json"):
        return compare_json(kept, new, rules)
    if isinstance(kept, str) and isinstance(new, str):
        return SAME if kept == new else _compare_written(mime, kept, new, rules)
    return unknown(f"{mime}, which is no text")


def _compare_written(mime: str, kept: str, new: str, rules: Rules) -> Comparison:
    match mime:
        case "image/svg+xml":
            return compare_texts(plain_drawing(kept), plain_drawing(new), rules, mime)
        case "text/html":
            return _compare_html(kept, new, rules)
        case "text/plain":
            return compare_texts(kept, new, rules, "output")
        case "text/markdown" | "text/latex":
            return compare_texts(kept, new, rules, mime)
        case _:
            return compare_pictures(kept, new, mime) if mime in PICTURES else unknown(mime)


def _compare_html(kept: str, new: str, rules: Rules) -> Comparison:
    (kept_text, kept_pictures), (new_text, new_pictures) = readable(kept), readable(new)
    if len(kept_pictures) != len(new_pictures):
        counts = f"{counted(len(kept_pictures), 'picture')} kept, {len(new_pictures)} came"
        return different(f"text/html: {counts}", kept_text, new_text)
    embedded = [
        _compare_sources(before, after, rules) for before, after in zip(kept_pictures, new_pictures, strict=True)
    ]
    if kept_text.strip() or new_text.strip():
        return together([compare_texts(kept_text, new_text, rules, "text/html"), *embedded])
    if embedded:
        return together(embedded)
    return unknown("text/html without text, as of an interactive drawing")


def _compare_sources(kept: str, new: str, rules: Rules) -> Comparison:
    if kept == new:
        return SAME
    parts = [source.partition(";base64,") for source in (kept, new)]
    mimes = {mime.removeprefix("data:") for mime, _, _ in parts}
    if len(mimes) == 1 and mimes <= {*PICTURES}:
        return compare_pictures(parts[0][2], parts[1][2], mimes.pop())
    return compare_texts(kept, new, rules, "the address of a picture")


def _compare_errors(kept: Sequence[Output], new: Sequence[Output], rules: Rules) -> Comparison:
    before, after = _error(kept), _error(new)
    if before is None or after is None:
        if before is after:
            return SAME
        return (
            different(f"it raised {before['ename']} before, and does not now", _message(before), "")
            if before is not None
            else different(f"it raised {after['ename'] if after else ''}", "", _message(after) if after else "")
        )
    if before["ename"] != after["ename"]:
        return different(f"{before['ename']} was kept, {after['ename']} came", _message(before), _message(after))
    return compare_texts(before["evalue"], after["evalue"], rules, before["ename"])


def _error(outputs: Sequence[Output]) -> Error | None:
    return next((output for output in reversed(outputs) if is_error(output)), None)


def _message(error: Error) -> str:
    return f"{error['ename']}: {error['evalue']}"
