"""Outputs of two runs compared by what they mean."""

import base64
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, PngImagePlugin

from cellwright.notebook.reproducing import pictures
from cellwright.notebook.reproducing.bundles import compare_outputs
from cellwright.notebook.reproducing.jobs import compare, comparison_of
from cellwright.notebook.reproducing.values import Comparison, Rules
from requirements import requirement

NOW = datetime(2026, 3, 4, 15, 16, 17, tzinfo=UTC)
RULES = Rules(None, NOW - timedelta(seconds=2), NOW)
Outputs = list[dict[str, Any]]


def stream(text: str, name: str = "stdout") -> Outputs:
    return [{"output_type": "stream", "name": name, "text": text}]


def shown(mime: str, value: object, **others: object) -> Outputs:
    data = {mime: value, **{key.replace("__", "/"): other for key, other in others.items()}}
    return [{"output_type": "display_data", "data": data, "metadata": {}}]


def error(name: str, message: str) -> Outputs:
    return [{"output_type": "error", "ename": name, "evalue": message, "traceback": [f"{name} at 0x7f01"]}]


def texts(kept: str, new: str, rules: Rules = RULES) -> str:
    """The same verdict whether a text was printed, is a result, a cell of a table or an entry of JSON."""
    page = "<table><tr><td>{}</td></tr></table>"
    verdicts = {
        compare_outputs(stream(kept), stream(new), rules).likeness.value,
        compare_outputs(shown("text/plain", kept), shown("text/plain", new), rules).likeness.value,
        compare_outputs(shown("application/json", [kept]), shown("application/json", [new]), rules).likeness.value,
    }
    if "<" not in kept + new and "\n" not in kept + new and "\x1b" not in kept + new:
        in_page = [shown("text/html", page.format(text)) for text in (kept, new)]
        verdicts.add(compare_outputs(in_page[0], in_page[1], rules).likeness.value)
    (verdict,) = verdicts
    return verdict


mimes = st.sampled_from(
    [
        *("text/plain", "text/html", "text/markdown", "image/png", "image/svg+xml", "application/json"),
        *("application/vnd.jupyter.widget-view+json", "application/x-other", "application/vnd.plotly.v1+json"),
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
some_text = st.text(max_size=80) | st.from_regex(
    r"\A(?:\d{1,4}[-:., ]|0x7f[0-9a-f]{10} |[a-z ]{1,6}|<td>|\r|\x1b\[1m|-?\d+\.\d+e?\d* |nan ){1,12}\Z"
)


def one_stream(text: str, name: str) -> dict[str, Any]:
    return stream(text, name)[0]


def one_shown(mime: str, value: object) -> dict[str, Any]:
    return shown(mime, value)[0]


def one_error(text: str) -> dict[str, Any]:
    return error("ValueError", text)[0]


outputs = st.lists(
    st.builds(one_stream, some_text, st.sampled_from(["stdout", "stderr"]))
    | st.builds(one_shown, mimes, some_text)
    | st.builds(one_shown, st.just("application/json"), json_values)
    | st.builds(one_error, some_text)
    | st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    max_size=5,
)


@requirement("reproduce:compare:itself")
@given(outputs)
def test_outputs_are_the_same_as_themselves(kept: Outputs) -> None:
    compared = compare_outputs(kept, kept, RULES)
    widget = any("application/vnd.jupyter.widget-view+json" in dict(output.get("data", {})) for output in kept)
    assert compared.likeness == ("unknown" if widget else "same"), compared


@requirement("reproduce:compare:itself")
@given(outputs, outputs, st.sampled_from([None, 0.0, 1e-3, 1.0]))
def test_a_comparison_never_fails_and_has_no_direction(kept: Outputs, new: Outputs, tolerance: float | None) -> None:
    # Without a run of today no date is that of the run, which is the one thing that is asked of the new side alone.
    rules = Rules(tolerance)
    forth, back = compare_outputs(kept, new, rules), compare_outputs(new, kept, rules)
    assert forth.likeness == back.likeness
    assert forth.reasons or forth.is_same


@requirement("reproduce:compare:passing")
@pytest.mark.parametrize(
    ("kept", "new"),
    [
        ("<Model at 0x7f3a2c1b4d50>", "<Model at 0x7f99aa1b0000>"),
        ("<function f at 0x10a2b3c40>", "<function f at 0x10ffffc40>"),
        ("pid 4242 ready", "pid 17 ready"),
        ("CPU times: user 12 ms, sys: 0 ns, total: 12 ms", "CPU times: user 2.1 s, sys: 4 ms, total: 2.1 s"),
        ("Wall time: 1.2 s", "Wall time: 3min 4s"),
        (
            "12 µs ± 3 ns per loop (mean ± std. dev. of 7 runs, 1,000 loops each)",
            "1.2 ms ± 30 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)",
        ),
        ("training took 12.5 s", "training took 9 s"),
        ("3 passed in 0.12s", "3 passed in 1.02s"),
        ("epoch 1 loss 0.5 elapsed 00:12", "epoch 1 loss 0.5 elapsed 01:40"),
        ("100%|██████████| 10/10 [00:00<00:00, 81.2it/s]", "100%|██████████| 10/10 [00:03<00:00, 3.1it/s]"),
        ("run at 2020-01-02 03:04:05.678", "run at 2026-03-04 15:16:16.001"),
        ("Mon Jan  6 10:00:00 2020", "Wed Mar  4 15:16:17 2026"),
        ("[10:00:00] begin", "[17:46:16] begin"),
        ("/tmp/tmpab12cd/out.csv", "/tmp/tmpzz99yy/out.csv"),
        ("/tmp/ipykernel_12/345.py:1: UserWarning", "/tmp/ipykernel_99/1.py:1: UserWarning"),
        ("id 0b6a4a2e-1111-4222-8333-444455556666", "id ffffffff-1111-4222-8333-000000000000"),
    ],
)
def test_what_differs_in_every_run_is_close(kept: str, new: str) -> None:
    assert texts(kept, new) == "close"


@requirement("reproduce:compare:passing")
def test_terminal_codes_white_space_and_rewritten_lines_are_close() -> None:
    assert texts("\x1b[31mred\x1b[0m", "red") == "close"
    assert compare_outputs(stream("a   b"), stream("a b"), RULES).likeness == "close"
    assert texts(" 10%|█   | 1/10\n100%|████| 10/10\ndone", "100%|████| 10/10\ndone") == "close"
    assert compare_outputs(stream("10\r20\r30\n"), stream("30\n"), RULES).likeness == "close"


@requirement("reproduce:compare:passing")
@pytest.mark.parametrize(
    ("kept", "new"),
    [
        ("born 1999-01-02", "born 1998-01-02"),
        ("opens 10:00:00", "opens 11:07:00"),
        ("half-life 3.2 s", "half-life 9.9 s"),
        ("colour 0xff0000aa", "colour 0x00ff00aa"),
        ("/tmp/results/a.csv", "/tmp/results/b.csv"),
        ("pid controller 4", "pid controllers 4"),
        ("a b c", "a b"),
        ("", "x"),
    ],
)
def test_dates_durations_and_names_of_the_data_are_not_passed_over(kept: str, new: str) -> None:
    assert compare_outputs(shown("text/plain", kept), shown("text/plain", new), RULES).likeness == "different"


@requirement("reproduce:compare:numbers")
@pytest.mark.parametrize(
    ("kept", "new", "tolerance", "verdict"),
    [
        ("0.123456789", "0.123456788", None, "close"),
        ("loss: 1.5e-3", "loss: 0.0015", None, "close"),
        ("0.12", "0.13", None, "different"),
        ("0.12", "0.13", 0.1, "close"),
        ("[1. 2.5 nan]", "[1. 2.5 nan]", None, "same"),
        ("1e-18", "3e-18", None, "close"),
        ("20260101", "20260102", None, "different"),
        ("20260101", "20260102", 1e-6, "close"),
        ("1,000,000 rows", "1,000,001 rows", None, "different"),
        ("nan", "0.5", 0.5, "different"),
        ("inf", "-inf", 1.0, "different"),
        ("1.0000000001+2j", "1.0000000002+2j", None, "close"),
        ("version 1.2.3", "version 1.2.4", None, "different"),
        ("-0.5", "0.5", 0.1, "different"),
    ],
)
def test_numbers_are_compared_with_the_tolerance(kept: str, new: str, tolerance: float | None, verdict: str) -> None:
    assert texts(kept, new, Rules(tolerance, NOW, NOW)) == verdict


@requirement("reproduce:compare:numbers")
@given(st.floats(-1e300, 1e300), st.floats(-5e-7, 5e-7))
def test_a_number_within_the_default_tolerance_is_never_different(value: float, relative: float) -> None:
    moved = value * (1 + relative)
    for kept, new in ((stream(repr(value)), stream(repr(moved))), (shown("a/json", value), shown("a/json", moved))):
        assert compare_outputs(kept, new, RULES).likeness in ("same", "close")


@requirement("reproduce:compare:numbers")
def test_a_difference_names_the_numbers() -> None:
    compared = compare_outputs(stream("mean 0.25\nmax 7\n"), stream("mean 0.5\nmax 7\n"), RULES)
    assert compared.reasons == ("stdout: 0.25 was kept, 0.5 came",)
    answer = compare(
        stream("mean 0.25\nmax 7\n"), stream("mean 0.5\nmax 7\n"), None, NOW.isoformat(), NOW.isoformat()
    )()
    again, diff = comparison_of(answer)
    assert (again.reasons, diff) == (compared.reasons, "-mean 0.25\n+mean 0.5")


def page(*rows: tuple[object, ...], marker: str = "a1") -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<style>#{marker} td {{}}</style><div id='{marker}'><table>{cells}</table></div>"


@requirement("reproduce:compare:forms")
def test_tables_are_compared_by_their_cells() -> None:
    def verdict(kept: str, new: str) -> Comparison:
        return compare_outputs(shown("text/html", kept), shown("text/html", new), RULES)

    table = page(("a", 0.5), ("b", 2))
    assert verdict(table, page(("a", 0.5), ("b", 2), marker="zz9")).likeness == "same"
    assert verdict(table, page(("a", 0.50000001), ("b", 2))).likeness == "close"
    moved = verdict(table, page(("a", 0.75), ("b", 2)))
    assert (moved.likeness, moved.reasons) == ("different", ("text/html: 0.5 was kept, 0.75 came",))
    assert verdict(page(("a", ""), ("b", 2)), page(("", "a"), ("b", 2))).likeness == "different"
    assert verdict("<script>draw('1')</script>", "<script>draw('2')</script>").likeness == "unknown"


@requirement("reproduce:compare:forms")
def test_json_is_compared_by_its_structure() -> None:
    def verdict(kept: object, new: object) -> Comparison:
        return compare_outputs(
            shown("application/vnd.plotly.v1+json", kept), shown("application/vnd.plotly.v1+json", new), RULES
        )

    assert verdict({"a": [1, 2.0], "b": "x"}, {"b": "x", "a": [1, 2.0000000001]}).likeness == "close"
    wrong = verdict({"a": [1, {"y": 2.0}]}, {"a": [1, {"y": 2.5}]})
    assert (wrong.likeness, wrong.reasons) == ("different", ("$.a[1].y: 2.0 was kept, 2.5 came",))
    assert verdict({"a": 1}, {"a": True}).likeness == "different"
    assert verdict({"a": 1}, {}).reasons == ("$: missing 'a'",)
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert verdict(deep, [deep]).likeness == "unknown"


@requirement("reproduce:compare:forms")
def test_the_form_that_tells_most_decides() -> None:
    same_plain = {"text__plain": "Figure(...)"}
    chart = "application/vnd.plotly.v1+json"
    kept, new = (shown(chart, {"y": [y]}, text__html=f"<i>{y}</i>", **same_plain) for y in (1.5, 2.5))
    assert compare_outputs(kept, new, RULES).reasons == ("$.y[0]: 1.5 was kept, 2.5 came",)
    assert compare_outputs(shown("text/html", "<b>1</b>", text__plain="1"), shown("text/plain", "1"), RULES).is_same
    other = compare_outputs(shown("text/html", "<b>1</b>"), shown("text/plain", "1"), RULES)
    assert other.reasons == ("text/html was kept, text/plain came",)
    widget = "application/vnd.jupyter.widget-view+json"
    kept, new = (shown(widget, {"model_id": model}, text__plain="IntSlider()") for model in ("a", "b"))
    assert compare_outputs(kept, new, RULES).likeness == "unknown"
    assert compare_outputs(shown("application/x-a", "1"), shown("application/x-a", "2"), RULES).reasons == (
        "application/x-a",
    )


@requirement("reproduce:compare:forms")
def test_drawings_are_compared_without_their_random_ids() -> None:
    def drawing(name: str, x: float, date: str) -> str:
        metadata = f"<metadata><date>{date}</date></metadata><!-- made by {name} -->"
        return f"<svg>{metadata}<g id='{name}'/><use href='#{name}' x=\"{x}\" clip-path='url(#{name})'/></svg>"

    def verdict(kept: str, new: str) -> str:
        return compare_outputs(shown("image/svg+xml", kept), shown("image/svg+xml", new), RULES).likeness.value

    assert verdict(drawing("p1f", 2.5, "2020-01-01"), drawing("q9z", 2.5, "2026-01-01")) == "same"
    assert verdict(drawing("p1f", 2.5, "2020-01-01"), drawing("p1f", 3.5, "2020-01-01")) == "different"


def plot(points: list[int], *, software: str = "a", noise: int = 0, size: tuple[int, int] = (640, 480)) -> str:
    """A line through points as PNG, with metadata, and with a little noise as of another way of drawing."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    step = size[0] // (len(points) - 1)
    draw.line([(number * step, y) for number, y in enumerate(points)], fill="navy", width=3)
    for number in range(0, size[0], 7):
        x, y = number, (number * 31) % size[1]
        value = 255 - noise
        image.putpixel((x, y), (value, value, value)) if noise else None
    about = PngImagePlugin.PngInfo()
    about.add_text("Software", software)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", pnginfo=about)
    return base64.b64encode(buffer.getvalue()).decode()


LINE = [400, 300, 350, 100, 50]


@requirement("reproduce:compare:forms")
@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (plot(LINE), "same"),
        (plot(LINE, software="another version"), "close"),
        (plot(LINE, noise=40), "close"),
        (plot([400, 300, 350, 100, 200]), "different"),
        (plot([y + 20 for y in LINE]), "different"),
        (plot(LINE, size=(640, 240)), "different"),
        (base64.b64encode(b"\x89PNG\r\n\x1a\nbroken").decode(), "unknown"),
    ],
)
def test_pictures_are_compared_by_what_they_show(new: str, verdict: str) -> None:
    compared = compare_outputs(shown("image/png", plot(LINE)), shown("image/png", new), RULES)
    assert compared.likeness == verdict, compared
    in_page = [shown("text/html", f"<img src='data:image/png;base64,{picture}'>") for picture in (plot(LINE), new)]
    assert compare_outputs(in_page[0], in_page[1], RULES).likeness == verdict


@requirement("reproduce:compare:forms")
def test_without_a_decoder_other_bytes_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "can_decode", lambda: False)
    assert compare_outputs(shown("image/png", plot(LINE)), shown("image/png", plot(LINE)), RULES).is_same
    compared = compare_outputs(shown("image/png", plot(LINE)), shown("image/png", plot(LINE, noise=40)), RULES)
    assert compared.likeness == "unknown"
    assert "Pillow is not installed" in compared.reasons[0]


@requirement("reproduce:compare:errors")
def test_errors_are_compared_by_name_and_message() -> None:
    kept = error("KeyError", "'a'")
    assert compare_outputs(kept, error("KeyError", "'a'"), RULES).is_same
    assert compare_outputs(kept, error("KeyError", "'b'"), RULES).reasons == ("KeyError: 'a' was kept, 'b' came",)
    assert compare_outputs(kept, error("ValueError", "'a'"), RULES).reasons == ("KeyError was kept, ValueError came",)
    assert compare_outputs(kept, [], RULES).reasons == ("it raised KeyError before, and does not now",)
    assert compare_outputs([], kept, RULES).reasons == ("it raised KeyError",)


@requirement("reproduce:compare:errors")
def test_missing_and_new_outputs_are_named() -> None:
    assert compare_outputs(stream("a\n"), [], RULES).reasons == ("missing: stdout",)
    assert compare_outputs([], stream("careful\n", "stderr"), RULES).reasons == ("new: stderr",)
    assert compare_outputs(shown("image/png", "AA==") * 2, shown("image/png", "AA=="), RULES).reasons == (
        "missing: image/png",
    )
    assert compare_outputs(stream("a") + stream("b"), stream("ab"), RULES).is_same
    cut = shown("text/plain", "[cellwright: 3 outputs left out here, the limit for one cell's output is reached]")
    assert compare_outputs(cut, shown("text/plain", "x"), RULES).likeness == "unknown"


@requirement("reproduce:compare:errors")
def test_the_same_words_in_another_order_are_called_that() -> None:
    compared = compare_outputs(shown("text/plain", "{'a', 'b', 'c'}"), shown("text/plain", "{'c', 'a', 'b'}"), RULES)
    assert compared.likeness == "different"
    assert "in another order" in compared.reasons[0]
