"""Texts in tokens: words, numbers, and what differs in every run (times, addresses, ids of processes, temporary files)."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from cellwright.notebook.reproducing.values import Rules


class TokenKind(StrEnum):
    """What a token is. The value is the reason to give if two of them differ."""

    WORD = "text"
    NUMBER = "numbers"
    DATE = "times"
    CLOCK = "clock times"
    DURATION = "durations"
    ADDRESS = "addresses of objects"
    PROCESS = "ids of processes"
    TEMPORARY = "temporary files"
    IDENTIFIER = "random ids"
    PROGRESS = "progress bars"


PASSING = frozenset(
    {TokenKind.DURATION, TokenKind.ADDRESS, TokenKind.PROCESS, TokenKind.TEMPORARY, TokenKind.IDENTIFIER}
    | {TokenKind.PROGRESS}
)
"""Kinds whose texts are expected to differ."""
DAY = timedelta(days=1)
ZONE_STEP = 15 * 60
"""The clocks of the world differ by multiples of a quarter of an hour, in seconds."""
CLOCK_SLACK = 60.0
ABSOLUTE_PART = 1e-6
"""Numbers next to zero are close if they differ by this part of the tolerance."""

_NUMBER = r"[-+]?(?:\d+(?:[,_]\d{3})+|\d+)?(?:\.\d+|(?<=\d)\.?)(?:[eE][-+]?\d+)?"
_UNIT = r"(?:ns|µs|μs|us|ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|days?)\b|(?:it|rows|items|samples)/s|s/it"
_DATE = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\ [A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d{2}:\d{2}:\d{2}(?:\ [A-Z]{2,5})?\ \d{4}"
)
_TEMPORARY = (
    r"/t[m]p/(?:tmp[\w-]+|ipykernel_\d+/\d+(?:\.py)?)"
    r"|/var/folders/[\w+-]+/[\w+-]+/T/[\w.+-]+(?:/\d+\.py)?"
    r"|[A-Za-z]:\\[^\s:]*\\(?:Temp|TEMP)\\[\w.-]+(?:\\\d+\.py)?"
)
_TOKEN = re.compile(
    rf"""
      (?P<date>\b(?:{_DATE})(?!\w))
    | (?P<clock>\b\d{{1,3}}:\d{{2}}:\d{{2}}(?:\.\d+)?\b)
    | (?P<identifier>\b[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}\b)
    | (?P<address>(?<=\bat\ )0x[0-9a-fA-F]{{6,16}}\b|\b0x(?:0000)?7[0-9a-f]{{11}}\b)
    | (?P<temporary>{_TEMPORARY})
    | (?P<process>\b(?:pid|PID|Pid|process\ id)\b\W{{0,3}}\d+)
    | (?P<number>(?<![\w.]){_NUMBER}(?:(?!\w)|(?=j\b))|(?<!\w)[-+]?(?:nan|NaN|inf|Infinity)\b)
    | (?P<word>\w+|\S)
    """,
    re.VERBOSE,
)
_DURATION = re.compile(rf"(?<![\w.]){_NUMBER}\ ?(?:{_UNIT})|\b\d{{1,3}}:\d{{2}}\b", re.VERBOSE)
_TIMING = re.compile(
    r"\b(?:time|times|timing|took|takes|elapsed|wall|duration|runtime|eta|finished in|done in|passed in|completed in|"
    r"failed in|loaded in|it/s|s/it|per second|/step|/epoch)\b|\bin \d+(?:\.\d+)? ?(?:ms|s|sec|seconds)\b",
    re.IGNORECASE,
)
_TIMING_LINE = re.compile(r"^\s*(?:CPU times:|Wall time:|CPU user)|\bper loop \(mean|\bbest of \d+: ")
_PROGRESS_LINE = re.compile(r"\d+%\s?\|.*\||\[[=>#.━\- ]{5,}\]|\d+(?:\.\d+)?%\s*[━█#=]{3,}|[━█]{5,}")
_KINDS = {
    "date": TokenKind.DATE,
    "clock": TokenKind.CLOCK,
    "identifier": TokenKind.IDENTIFIER,
    "address": TokenKind.ADDRESS,
    "temporary": TokenKind.TEMPORARY,
    "process": TokenKind.PROCESS,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
}


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str


def is_progress(line: str) -> bool:
    """Whether the line is a progress bar, of which only the last state is left."""
    return _PROGRESS_LINE.search(line) is not None


def tokens_of(line: str) -> list[Token]:
    """A line in tokens, without its white space."""
    if is_progress(line):
        return [Token(TokenKind.PROGRESS, line.strip())]
    if _TIMING_LINE.search(line):
        return [Token(TokenKind.DURATION, line.strip())]
    if not _TIMING.search(line):
        return _plain_tokens(line)
    tokens: list[Token] = []
    position = 0
    # A time of day or a date has colons and numbers too: only what lies outside of them can be a duration.
    spans = [match.span() for match in _TOKEN.finditer(line) if match.lastgroup in ("date", "clock")]
    for match in _DURATION.finditer(line):
        start, end = match.span()
        if start < position or any(start < span_end and span_start < end for span_start, span_end in spans):
            continue
        tokens += _plain_tokens(line[position:start])
        tokens.append(Token(TokenKind.DURATION, match[0]))
        position = end
    return tokens + _plain_tokens(line[position:])


def _plain_tokens(line: str) -> list[Token]:
    return [Token(_KINDS[match.lastgroup or "word"], match[0]) for match in _TOKEN.finditer(line)]


def alike(kept: Token, new: Token, rules: Rules) -> str | None:
    """Why two tokens are close although they are not equal, "" if they are equal, None if they differ."""
    if kept.text == new.text:
        return ""
    if kept.kind is not new.kind:
        return None
    match kept.kind:
        case TokenKind.NUMBER:
            return TokenKind.NUMBER.value if numbers_close(kept.text, new.text, rules) else None
        case TokenKind.DATE:
            return TokenKind.DATE.value if _is_now(new.text, rules) else None
        case TokenKind.CLOCK:
            return TokenKind.CLOCK.value if _is_now_somewhere(new.text, rules) else None
        case kind:
            return kind.value if kind in PASSING else None


def numbers_close(kept: str, new: str, rules: Rules) -> bool:
    """Whether two written numbers are equal within the tolerance."""
    whole = all(text.lstrip("+-").replace(",", "").replace("_", "").isdigit() for text in (kept, new))
    if whole and rules.tolerance is None:
        return int(_plain(kept)) == int(_plain(new))
    return values_close(float(_plain(kept)), float(_plain(new)), rules)


def values_close(kept: float, new: float, rules: Rules) -> bool:
    if math.isnan(kept) or math.isnan(new):
        return math.isnan(kept) and math.isnan(new)
    return math.isclose(kept, new, rel_tol=rules.relative, abs_tol=rules.relative * ABSOLUTE_PART)


def _plain(number: str) -> str:
    return number.replace(",", "").replace("_", "")


def _is_now(date: str, rules: Rules) -> bool:
    """Whether the date is that of the run, in any time zone."""
    try:
        if day := re.match(r"\d{4}-\d{2}-\d{2}", date):
            parsed = datetime.fromisoformat(day[0])
        else:
            words = date.replace(",", "").split()
            parsed = datetime.strptime(f"{words[1]} {words[2]} {words[-1]}", "%b %d %Y")  # noqa: DTZ007 - any zone
    except ValueError:
        return False
    return rules.began - 2 * DAY <= parsed.replace(tzinfo=UTC) <= rules.now + DAY


def _is_now_somewhere(clock: str, rules: Rules) -> bool:
    """Whether a clock somewhere showed this time during the run, or at most a minute before or after it."""
    hours, minutes, seconds = (float(part) for part in clock.split(":"))
    midnight = rules.now.replace(hour=0, minute=0, second=0)
    before_end = ((rules.now - midnight).total_seconds() - hours * 3600 - minutes * 60 - seconds) % ZONE_STEP
    lasted = (rules.now - rules.began).total_seconds()
    return before_end <= lasted + CLOCK_SLACK or before_end >= ZONE_STEP - CLOCK_SLACK
