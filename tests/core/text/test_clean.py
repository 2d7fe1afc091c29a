"""Untrusted text before a model reads it: as a person would see it, and nothing else."""

# ruff: noqa: RUF001  letters of other scripts are the subject here

import re
import time
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cellwright.core.text.clean import PIECE, Cleaned, clean, clean_html
from requirements import requirement

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
"""A busy machine is no finding."""

ZWJ, ZWNJ, ZWSP = "\u200d", "\u200c", "\u200b"
TEXT_STYLE, EMOJI_STYLE = "\ufe0e", "\ufe0f"


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(character)) for character in text)


ENGLAND = "🏴" + tags("gbeng") + "\U000e007f"

ESCAPES = {
    "colour": "\x1b[31m",
    "many colours": "\x1b[1;38;5;208;48:2::1:2:3m",
    "reset": "\x1b[m",
    "private mode": "\x1b[?25l",
    "cursor position": "\x1b[12;40H",
    "clear screen": "\x1b[2J",
    "link opens": "\x1b]8;;https://example.com/a?b=c\x1b\\",
    "link closes": "\x1b]8;;\x07",
    "title": "\x1b]0;a title with words\x07",
    "clipboard": "\x1b]52;c;aGVsbG8gd29ybGQ=\x07",
    "picture": "\x1b]1337;File=inline=1:" + "QUJD" * 50_000 + "\x07",
    "device control": "\x1bP1$r0m\x1b\\",
    "sixel": "\x1bPq#0;2;0;0;0#0~~@@vv@@~~$-\x1b\\",
    "application command": "\x1b_Gf=24,s=10;AAAA\x1b\\",
    "privacy message": "\x1b^hidden\x1b\\",
    "start of string": "\x1bXhidden\x1b\\",
    "character set": "\x1b(B",
    "full reset": "\x1bc",
    "save cursor": "\x1b7",
    "8-bit colour": "\x9b31m",
    "8-bit title": "\x9d0;title\x9c",
    "8-bit device control": "\x90q~~\x9c",
    "8-bit link, 7-bit end": "\x9d8;;https://example.com\x1b\\",
    "lone 8-bit end": "\x9c",
    "two escapes": "\x1b\x1b[0m",
    "with intermediate": "\x1b[0 q",
}


@requirement("clean:terminal:escapes")
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_an_escape_sequence_leaves_no_trace(escape: str) -> None:
    assert clean(f"before {escape}after") == Cleaned("before after", 0)
    assert clean(f"é {escape}漢") == Cleaned("é 漢", 0)


@requirement("clean:terminal:unterminated")
@pytest.mark.parametrize(
    "start", ["\x1b]0;", "\x1b]8;;https://example.com", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x9d", "\x90"]
)
def test_a_sequence_that_never_ends_takes_at_most_the_start_of_its_line(start: str) -> None:
    rest = "words of a long line " * 50_000
    shown = clean(start + rest).text
    assert rest.endswith(shown)
    assert len(rest) - len(shown) <= 256
    assert clean(f"{start}title\nthe next line").text == "\nthe next line"
    assert clean(f"{start}title\n{rest}\x07{rest}").text == f"\n{rest}{rest}"


@requirement("clean:terminal:unterminated")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("end\x1b", "end"),
        ("end\x1b[", "end"),
        ("end\x1b[31", "end"),
        ("end\x1b]", "end"),
        ("a\x1b\nb", "a\nb"),
        ("a\x1b]0;title\x1b[31mred", "ared"),
        ("\x1b[" + "1" * 100, "1" * 36),
    ],
)
def test_a_sequence_cut_off_by_the_end_or_by_another_is_dropped(text: str, shown: str) -> None:
    assert clean(text).text == shown


@requirement("clean:terminal:as-seen")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\r\r\ntwo", "one\ntwo"),
        (" 10%\r 50%\r100%\n", "100%\n"),
        ("long line\rshort", "shortline"),
        ("stays\r", "stays"),
        ("one\r\x1b[0m\ntwo", "one\ntwo"),
        ("old text\r\x1b[Knew", "new"),
        ("old text\x1b[2K\rnew", "new"),
        ("old text\x1b[1K\rnew", "new text"),
        ("match\x1b[K only\x1b[K", "match only"),
        ("wrong\b\b\b\b\bright", "right"),
        ("abc\b\b", "a"),
        ("a\b\b\b\bb\n\bc", "b\nc"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("abc\rX\bY", "Ybc"),
        ("A: 1\nB: 2\x1b[A\rA: 3\n", "A: 3\nB: 2"),
        ("A: 1\nB: 2\x1b[1A\x1b[2K\rC\x1b[1B\rD", "C\nD: 2"),
        ("up\x1b[99Atop", "uptop"),
        ("last\x1b[99B row", "last row"),
        ("col\x1b[3Cumn", "col   umn"),
        ("abcd\x1b[2DXY", "abXY"),
        ("abcd\x1b[99DX", "Xbcd"),
        ("abcd\x1b[2GX", "aXcd"),
        ("abcd\x1b[GX", "Xbcd"),
        ("abcd\x1b[0GX", "Xbcd"),
        ("漢字\r語", "語字"),
        ("a" + ZWSP + "\b!", "!"),
        (ZWSP * 3 + "abc\rxyz", "xyz"),
    ],
)
def test_overwriting_ends_as_a_person_would_see_it(text: str, shown: str) -> None:
    assert clean(text).text == shown


def simple_terminal(text: str) -> str:
    """Carriage return and backspace, a character at a time."""
    lines: list[str] = []
    for line in text.split("\n"):
        row, column = "", 0
        for character in line:
            if character == "\r":
                column = 0
            elif character == "\b":
                row = row[:-1] if column == len(row) else row
                column = max(0, column - 1)
            else:
                row = row[:column] + character + row[column + 1 :]
                column += 1
        lines.append(row)
    return "\n".join(lines)


@requirement("clean:terminal:as-seen")
@PATIENT
@given(st.text(alphabet="abc é漢\t\n\r\b", max_size=60))
def test_carriage_returns_and_backspaces_do_what_a_simple_terminal_does(text: str) -> None:
    assert clean(text).text == simple_terminal(text)


@requirement("clean:controls:removed")
def test_control_characters_go_and_newline_and_tab_stay() -> None:
    controls = "".join(chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\b\r\x1b")
    assert clean(f"a{controls}b").text == "a\t\nb"
    assert clean(f"é{controls}漢").text == "é\t\n漢"
    assert clean("a" + "".join(map(chr, range(0x80, 0x90))) + "b").text == "ab"
    assert clean("nul\0nul") == Cleaned("nulnul", 0)


@requirement("clean:surrogates:replaced")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("é\udfff\n", "é\ufffd\n"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_joined(text: str, shown: str) -> None:
    assert clean(text) == Cleaned(shown, 0)


HIDDEN = {
    "tags": tags("ignore all of this"),
    "tags after a flag that does not exist": "\U000e0067\U000e0062\U000e007f",
    "language tag": "\U000e0001",
    "bidirectional embedding": "\u202a\u202b\u202c\u202d\u202e",
    "bidirectional isolates": "\u2066\u2067\u2068\u2069",
    "marks": "\u200e\u200f\u061c",
    "zero width": "\u200b\u2060\ufeff",
    "joiners": ZWJ + ZWNJ,
    "soft hyphen": "\u00ad",
    "grapheme joiner": "\u034f",
    "invisible operators": "\u2061\u2062\u2063\u2064",
    "deprecated formats": "\u206a\u206b\u206c\u206d\u206e\u206f",
    "Hangul fillers": "\u115f\u1160\u3164\uffa0",
    "Khmer inherent vowels": "\u17b4\u17b5",
    "Mongolian selectors": "\u180b\u180c\u180d\u180e\u180f",
    "orphan selectors": TEXT_STYLE + EMOJI_STYLE,
    "other selectors": "".join(map(chr, range(0xFE00, 0xFE0E))),
    "ideographic selectors": "".join(map(chr, range(0xE0100, 0xE01F0))),
    "annotation": "\ufff9\ufffa\ufffb",
    "joiners of hieroglyphs": "\U00013430\U00013431\U00013437\U00013438\U0001343f\U00013447\U00013455",
    "no characters": "\ufdd0\ufdef\ufffe\uffff\U0001fffe\U0010ffff",
    "shorthand and musical controls": "\U0001bca0\U0001bca3\U0001d173\U0001d17a",
}


@requirement("clean:hidden:removed-and-counted")
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN.keys())
def test_hidden_characters_are_removed_and_counted(hidden: str) -> None:
    assert clean(f"before{hidden} after") == Cleaned("before after", len(hidden))
    assert clean(hidden) == Cleaned("", len(hidden))
    assert clean("x".join(hidden)) == Cleaned("x" * (len(hidden) - 1), len(hidden))


@requirement("clean:terminal:escapes")
def test_a_long_line_is_not_worked_on_in_pieces_that_tear_a_sequence() -> None:
    for shift in range(12):
        text = "x" * shift + "\x1b[31ma\x1b[0m" * (PIECE // 8)
        assert clean(text).text == "x" * shift + "a" * (PIECE // 8)


@requirement("clean:hidden:removed-and-counted")
def test_hidden_characters_in_disguise_are_found() -> None:
    assert clean("\udb40\udc41") == Cleaned("", 1), "a tag as two surrogates"
    assert clean(f"\x1b{ZWSP}[31m") == Cleaned("[31m", 1)
    assert clean("漢\U000e0100字\ufe00") == Cleaned("漢字", 2)
    assert clean("🏴" + tags("gbxxx") + "\U000e007f") == Cleaned("🏴", 6)
    assert clean("🏴" + tags("gbeng")) == Cleaned("🏴", 5), "a flag that does not end"
    assert clean(ENGLAND + "\U000e0041") == Cleaned(ENGLAND, 1)
    assert clean(ENGLAND + "\b") == Cleaned("🏴", 5), "a flag that lost its end"


EMOJI = {
    "family": "👨\u200d👩\u200d👧\u200d👦",
    "coder with a skin tone": "👩🏽\u200d💻",
    "heart": "❤\ufe0f",
    "burning heart": "❤\ufe0f\u200d🔥",
    "rainbow": "🏳\ufe0f\u200d🌈",
    "pirate": "🏴\u200d☠\ufe0f",
    "England": ENGLAND,
    "Scotland": "🏴" + tags("gbsct") + "\U000e007f",
    "Wales": "🏴" + tags("gbwls") + "\U000e007f",
    "country flags": "🇫🇷🇯🇵",
    "keycaps": "1\ufe0f\u20e3#\ufe0f\u20e3*\ufe0f\u20e30\u20e3",
    "thumbs": "👍👍🏿",
    "text style": "☎\ufe0e",
    "trade marks": "©\ufe0f®\ufe0f™\ufe0f",
    "runner": "🏃🏽\u200d♀\ufe0f",
    "turning head": "🙂\u200d↔\ufe0f",
    "black bird": "🐦\u200d⬛",
    "witness": "👁\ufe0f\u200d🗨\ufe0f",
    "doctor": "🧑\u200d⚕\ufe0f",
    "Japanese signs": "㊗\ufe0f㊙\ufe0f〰\ufe0f",
    "squares": "▪\ufe0f◻\ufe0f⏏\ufe0f⤴\ufe0f⬅\ufe0fⓂ\ufe0f",
}


@requirement("clean:emoji:intact")
@pytest.mark.parametrize("emoji", EMOJI.values(), ids=EMOJI.keys())
def test_emoji_stay_as_they_are(emoji: str) -> None:
    assert clean(emoji) == Cleaned(emoji, 0)
    assert clean(f"a{emoji}{emoji}b") == Cleaned(f"a{emoji}{emoji}b", 0)
    assert clean(f"{ZWSP}{emoji}{ZWSP}") == Cleaned(emoji, 2)


@requirement("clean:emoji:intact")
@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        ("a\ufe0f5\ufe0f", "a5", 2),
        ("❤\ufe0f\ufe0f", "❤\ufe0f", 1),
        ("👩\u200d", "👩", 1),
        ("\u200d👩", "👩", 1),
        ("👩\u200d\u200d👩", "👩👩", 2),
        ("a\ufe0f\u200d👩", "a👩", 2),
        ("👩\u200c👩", "👩👩", 1),
        ("🇫\u200d🇷\ufe0f", "🇫🇷", 2),
        ("👩\u200d👩\b", "👩", 1),
    ],
)
def test_what_only_looks_like_part_of_an_emoji_goes(text: str, shown: str, hidden: int) -> None:
    assert clean(text) == Cleaned(shown, hidden)


WORDS = {
    "Persian": "می\u200cخواهم کتاب\u200cها را",
    "Hindi": "क्\u200dष क्\u200cष",
    "Sinhala": "ශ්\u200dරී",
    "Bengali": "র\u200d্য",
    "Malayalam": "ന്\u200dറ",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ\u180bᠠ ᠭ\u180eᠠ",
}


@requirement("clean:scripts:joiners")
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS.keys())
def test_joiners_that_spell_words_survive(words: str) -> None:
    assert clean(words) == Cleaned(words, 0)


@requirement("clean:scripts:joiners")
@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        (f"la{ZWNJ}tin", "latin", 1),
        (f"می{ZWNJ}{ZWNJ}خواهم", "میخواهم", 2),
        (f"می{ZWNJ} خواهم", "می خواهم", 1),
        (f"{ZWJ}ک", "ک", 1),
        (f"ک{ZWJ}a", "کa", 1),
        ("a\u180b", "a", 1),
    ],
)
def test_joiners_anywhere_else_go(text: str, shown: str, hidden: int) -> None:
    assert clean(text) == Cleaned(shown, hidden)


@requirement("clean:html:references")
@pytest.mark.parametrize(
    ("html", "shown", "hidden"),
    [
        ("a&#8203;b", "ab", 1),
        ("a&#x200b;b&#X200B;c", "abc", 2),
        ("a&#8203 b", "a b", 1),
        ("a&#00000000000000008203;b", "ab", 1),
        ("a&zwj;b&zwnj;c&shy;d&lrm;e&rlm;f", "abcdef", 5),
        ("a&ZeroWidthSpace;b&NoBreak;c&InvisibleTimes;d&af;e", "abcde", 4),
        ("a&shyb", "ab", 1),
        ("&#917569;&#xE0041;", "", 2),
        ("&#128105;&zwj;&#128187;", "👩\u200d💻", 0),
        ("می&zwnj;خواهم", "می\u200cخواهم", 0),
        ("&#233;", "é", 0),
        ("&#x9F;&#xA0;&#xD7FF;&#xD800;&#xDFFF;&#xE000;", "&#x9F;\u00a0\ud7ff&#xD800;&#xDFFF;\ue000", 0),
        ("&#x10FFFF;&#x110000;", "&#x110000;", 1),
        ("&lt;b&gt; &#60;i&#62; &amp;#8203; &nbsp;", "&lt;b&gt; &#60;i&#62; &amp;#8203; &nbsp;", 0),
        (
            "?a=1&item=2&icon=3&#27;[31m&#155;&#xD800;&#x110000;&#99999999999;",
            "?a=1&item=2&icon=3&#27;[31m&#155;&#xD800;&#x110000;&#99999999999;",
            0,
        ),
        ("&#&#8203;8203;", "&amp;#8203;", 1),
        (f"&zw{ZWSP}j;", "&amp;zwj;", 1),
        ("&#" + "0" * 5_000 + ";", "&#" + "0" * 5_000 + ";", 0),
    ],
)
def test_hidden_characters_written_as_references_are_found(html: str, shown: str, hidden: int) -> None:
    assert clean_html(html) == Cleaned(shown, hidden)


PIECES = [
    *(escape for escape in ESCAPES.values() if len(escape) < 100),
    *HIDDEN.values(),
    *"".join(HIDDEN.values()),
    *EMOJI.values(),
    *"".join(EMOJI.values()),
    *WORDS.values(),
    *"".join(WORDS.values()),
    *"\x1b[]PX^_\\\x07\x9b\x9d\x9c\x90\r\n\b\t\0;0123456789ABCDGHKmJ é漢a\ud83d\ude00\udb40\udc67",
    "\x1b[A",
    "\x1b[K",
    "\x1b[2K",
    "\x1b[999C",
    "&#8203;",
    "&zwj;",
    "&#",
    "&",
]
ANY = st.characters(exclude_categories=[])
NASTY = st.lists(st.sampled_from(PIECES) | st.text(ANY, max_size=3), max_size=40).map("".join)


@requirement("clean:result:idempotent")
@settings(PATIENT, max_examples=400)
@given(NASTY)
@example("👩\u200d👩\b")
@example("🏴" + tags("gbeng") + "\U000e007f\b")
@example("a\ufe0f\u200d👩")
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text).text
    assert clean(once) == Cleaned(once, 0)
    html = clean_html(text).text
    assert clean_html(html) == Cleaned(html, 0)


@requirement("clean:result:plain")
@settings(PATIENT, max_examples=400)
@given(NASTY)
def test_nothing_but_text_is_left(text: str) -> None:
    for cleaned in (clean(text), clean_html(text)):
        assert "\x1b" not in cleaned.text
        cleaned.text.encode("utf-8")
        odd = {character for character in cleaned.text if unicodedata.category(character) in {"Cc", "Cs"}}
        assert odd <= {"\n", "\t"}
        hidden = re.findall("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\u00ad]", cleaned.text)
        assert hidden == []
        assert cleaned.hidden >= 0


SOMETIMES_HIDDEN = set("".join(HIDDEN.values())) | set(tags("gbenscwlt"))


def visible(text: str) -> str:
    return "".join(character for character in text if character not in SOMETIMES_HIDDEN)


@requirement("clean:hidden:removed-and-counted")
@PATIENT
@given(st.text(alphabet=st.sampled_from("".join(HIDDEN.values()) + "".join(EMOJI.values()) + "aé漢कم ")))
def test_the_count_is_what_is_missing(text: str) -> None:
    cleaned = clean(text)
    assert len(text) - len(cleaned.text) == cleaned.hidden
    assert visible(cleaned.text) == visible(text)


@requirement("clean:result:visible-kept")
@PATIENT
@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Mn", "Lo", "Cn"]) | st.sampled_from("\n\t漢字कम")))
def test_visible_text_is_left_alone(text: str) -> None:
    assert clean(text) == Cleaned(text, 0)


HOSTILE = {
    "escapes without end": "\x1b]" * 200_000,
    "8-bit starts": "\x9d" * 400_000,
    "one long parameter": "\x1b[" + "1" * 400_000,
    "string that almost ends": ("\x1b]" + "a" * 100 + "\x1b") * 4_000,
    "long string without end": "\x1b]" + "word " * 80_000,
    "moves to the right": "\x1b[999Cx\n" * 50_000,
    "erased long row": "y" * 200_000 + "\x1b[2Kx" * 50_000,
    "backspaces inside a long row": "y" * 200_000 + "\x1b[9D" + "\b\x1b[C" * 60_000,
    "up and down between long rows": "y" * 200_000 + "\n" + "z" * 200_000 + "\x1b[A\b\x1b[Bq" * 30_000,
    "backspaces": "x\b" * 200_000,
    "returns": "x\r" * 200_000,
    "joiners": ZWJ * 400_000,
    "emoji": "👩\u200d" * 200_000,
    "flags without end": ("🏴" + tags("gben")) * 80_000,
    "references": "&#" * 200_000,
    "zeros": "&#" + "0" * 400_000,
    "nested references": "&#" * 50_000 + "&#8203;" + "8203;" * 50_000,
}


@requirement("clean:speed:linear")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_costs_time_and_space_in_proportion_to_its_size(text: str) -> None:
    # Each takes a few tenths of a second; anything quadratic in 400,000 characters would take minutes.
    start = time.process_time()
    cleaned = clean_html(text)
    assert time.process_time() - start < 5
    assert len(cleaned.text) <= 2 * len(text)


@requirement("clean:speed:plain")
def test_plain_text_costs_next_to_nothing() -> None:
    text = "plain text, as most of it is\n" * 700_000
    start = time.process_time()
    assert clean(text).text is text
    assert time.process_time() - start < 0.5
