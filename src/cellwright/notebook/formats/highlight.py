"""Highlights comments, strings, numbers and keywords in code. One regular expression finds them, without a grammar."""

import re
from functools import cache
from html import escape

_WORDS = {
    "python": "and as assert async await break case class continue def del elif else except False finally for from global if import in is "
    "lambda match None nonlocal not or pass raise return True try while with yield",
    "javascript": "async await break case catch class const continue default delete else export extends false finally for from function if "
    "import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var while yield",
    "sql": "alter and as asc by case create delete desc distinct drop else end from group having in index insert into is join left limit "
    "not null on or order outer select set table then union update values when where with",
    "bash": "case do done elif else esac export fi for function if in local return then until while",
}
_ALIASES = {
    "typescript": "javascript",
    "shell": "bash",
    "sh": "bash",
    "py": "python",
    "js": "javascript",
    "ts": "javascript",
}
_HASH = r"#[^\n]*"
_SLASHES = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_DASHES = r"--[^\n]*"
_LONG = r'"""[\s\S]*?(?:"""|\Z)|' + r"'''[\s\S]*?(?:'''|\Z)"
_SHORT = r'"(?:[^"\\\n]|\\.)*+"?|' + r"'(?:[^'\\\n]|\\.)*+'?"
_COMMENTS = {"javascript": _SLASHES, "sql": _DASHES}


@cache
def _expression(language: str) -> re.Pattern[str]:
    words = "|".join(_WORDS[language].split())
    comment = _COMMENTS.get(language, _HASH)
    strings = f"{_LONG}|{_SHORT}" if language == "python" else f"{_SHORT}|`(?:[^`\\\\]|\\\\.)*+`?"
    flags = re.IGNORECASE if language == "sql" else 0
    return re.compile(
        rf"(?P<c>{comment})|(?P<s>{strings})|\b(?P<k>(?:{words}))\b|\b(?P<n>\d[\w.]*)|[A-Za-z_]\w*", flags
    )


def highlighted(source: str, language: str) -> str:
    """The source as the content of <code>, without highlights if the language has no keywords here."""
    language = _ALIASES.get(language, language)
    if language not in _WORDS:
        return escape(source)
    pieces: list[str] = []
    at = 0
    for token in _expression(language).finditer(source):
        if token.lastgroup is None:
            continue
        pieces += (escape(source[at : token.start()]), f'<span class="{token.lastgroup}">{escape(token[0])}</span>')
        at = token.end()
    return "".join((*pieces, escape(source[at:])))
