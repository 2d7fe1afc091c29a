"""Why a notebook does not put out what it did, where its own text tells."""

import re
from collections.abc import Iterable, Sequence

_RANDOM = re.compile(
    r"\b(?:random\.(?!seed\b|set_state\b)\w+|default_rng\(\s*\)|rand\(|randn\(|randint\(|shuffle\(|rnorm\(|runif\(|"
    r"uuid4\(|token_hex\(|secrets\.\w+|train_test_split\(|\.sample\()"
)
_SEEDED = re.compile(
    r"\bseed\s*[(=]|manual_seed\(|default_rng\(\s*[^)\s]|RandomState\(\s*[^)\s]|random_state\s*=|random\.Random\(\s*[^)\s]|"
    r"PRNGKey\(|Random\.seed!"
)
_MISSING_NAME = re.compile(r"name '([^']{1,200})' is not defined|object '([^']{1,200})' not found")
LONGEST_NAME = 80


def uses_chance(sources: Iterable[str]) -> bool:
    """Whether this code draws random numbers and nowhere says from which seed."""
    texts = list(sources)
    return any(_RANDOM.search(text) for text in texts) and not any(_SEEDED.search(text) for text in texts)


def missing_name(error_name: str, message: str) -> str | None:
    """The name that the code used and nobody had defined."""
    match = _MISSING_NAME.search(message) if error_name in ("NameError", "UndefVarError", "error", "ERROR") else None
    return None if match is None else match[1] or match[2]


def defines(source: str, name: str) -> bool:
    """Whether this code gives the name a value, as far as its text tells."""
    word = re.escape(name)
    return (
        re.search(
            rf"(?m)^\s*(?:async\s+)?(?:def|class)\s+{word}\b"
            rf"|\bimport\b[^\n]*\b{word}\b|\bas\s+{word}\b|\bfor\b[^\n]*\b{word}\b[^\n]*\bin\b"
            rf"|(?<![\w.]){word}\s*(?:,\s*\w+\s*)*(?::[^=\n]+)?(?:=(?!=)|:=|<-)",
            source,
        )
        is not None
    )


def why_missing(name: str, above: Sequence[str], below: Sequence[tuple[int, str]]) -> str:
    """Why a name is missing in a run from top to bottom. `below` has the indexes of the cells after it, and their code."""
    shown = name[:LONGEST_NAME]
    if any(defines(source, name) for source in above):
        return (
            f"{shown!r} is given a value above, but not in this run: deleted again, or in a branch that was not taken"
        )
    later = [index for index, source in below if defines(source, name)]
    if later:
        return f"{shown!r} is defined only below, in cell {later[0]}: the cells were run in another order"
    return f"no cell defines {shown!r}: the cell that did was deleted or changed after it had run"


def out_of_order(counts: Sequence[tuple[int, int | None]]) -> list[int]:
    """The indexes of cells that were last run before a cell above them. `counts` has indexes and kept execution counts."""
    highest = 0
    earlier: list[int] = []
    for index, count in counts:
        if count is None:
            continue
        if count < highest:
            earlier.append(index)
        highest = max(highest, count)
    return earlier
