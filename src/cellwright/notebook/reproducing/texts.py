"""Two texts compared line by line and token by token."""

from collections.abc import Iterable, Sequence

from cellwright.core.text.clean import clean
from cellwright.core.text.counting import counted
from cellwright.notebook.reproducing.tokens import Token, TokenKind, alike, is_progress, tokens_of
from cellwright.notebook.reproducing.values import SAME, Comparison, Rules, close, different, together

MOST_CHARACTERS = 400_000
"""Of texts with different numbers of lines, which are compared as a whole."""
LONGEST_EXCERPT = 60
REORDERED = "the same words in another order"


def compare_texts(kept: str, new: str, rules: Rules, name: str = "text") -> Comparison:
    """Two texts as a person would see them. `name` says in the reasons what they are."""
    if kept == new:
        return SAME
    kept_text, new_text = (clean(text).text for text in (kept, new))
    if kept_text == new_text:
        return close("terminal codes")
    kept_lines, new_lines = _lines(kept_text), _lines(new_text)
    if len(kept_lines) == len(new_lines):
        pairs = [(before, after) for before, after in zip(kept_lines, new_lines, strict=True) if before != after]
        compared = together(_compare_lines(before, after, rules) for before, after in pairs)
        if compared.likeness != "different":
            return compared if pairs else close("white space or progress bars")
    elif len(kept_text) + len(new_text) > MOST_CHARACTERS:
        return different(
            f"{name}: {counted(len(kept_lines), 'line')} kept, {len(new_lines):,} came", kept_text, new_text
        )
    else:
        compared = _compare_tokens(_all_tokens(kept_lines), _all_tokens(new_lines), rules)
        if compared.likeness != "different":
            return compared if compared.reasons else close("white space")
    reason = compared.reasons[0]
    if len(kept_text) + len(new_text) <= MOST_CHARACTERS and _words(kept_lines) == _words(new_lines):
        reason = f"{REORDERED}, as of a set or of work done in parallel"
    return different(f"{name}: {reason}", kept_text, new_text)


def _words(lines: Iterable[str]) -> list[str]:
    return sorted(token.text for token in _all_tokens(lines))


def _lines(text: str) -> list[str]:
    """The lines that have anything in them. Of a progress bar that was printed again and again only its last line."""
    lines: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if lines and is_progress(stripped) and is_progress(lines[-1]):
            lines.pop()
        if stripped:
            lines.append(stripped)
    return lines


def _all_tokens(lines: Iterable[str]) -> list[Token]:
    return [token for line in lines for token in tokens_of(line)]


def _compare_lines(kept: str, new: str, rules: Rules) -> Comparison:
    return _compare_tokens(tokens_of(kept), tokens_of(new), rules)


def _compare_tokens(kept: Sequence[Token], new: Sequence[Token], rules: Rules) -> Comparison:
    reasons: dict[str, None] = {}
    for before, after in zip(kept, new, strict=False):
        reason = alike(before, after, rules)
        if reason is None:
            return different(_pair(before, after))
        if reason:
            reasons[reason] = None
    if len(kept) != len(new):
        longer = kept[len(new) :] or new[len(kept) :]
        return different(f"{'missing' if len(kept) > len(new) else 'new'}: {_excerpt(longer)}")
    return close(*(reasons or {"white space": None}))


def _pair(kept: Token, new: Token) -> str:
    if kept.kind is new.kind is TokenKind.NUMBER:
        return f"{_cut(kept.text)} was kept, {_cut(new.text)} came"
    if kept.kind is new.kind is TokenKind.DATE:
        return f"the date {_cut(kept.text)} was kept, {_cut(new.text)} came"
    return f"{_cut(kept.text)!r} was kept, {_cut(new.text)!r} came"


def _excerpt(tokens: Sequence[Token]) -> str:
    return repr(_cut(" ".join(token.text for token in tokens[:12])))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EXCERPT else f"{text[:LONGEST_EXCERPT]}…"
