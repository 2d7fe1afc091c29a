"""What became of a notebook on its way: measured by what comes back, not by what somebody thought of."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellwright.core.text.counting import counted
from cellwright.notebook.model import Cell, Kind, Notebook, language_named

MOST = 20
LONGEST = 300
NAMED = 6

Aspect = Callable[[Cell, str], object]
"""One thing about a cell, given the notebook's language; falsy where the cell does not have it."""


def _language(cell: Cell, main: str) -> str:
    return language_named(cell.language or main) if cell.kind is Kind.CODE else ""


# Of these it is said how many cells lost them; a cell that had none cannot lose it.
KEPT: Mapping[str, Aspect] = {
    "languages": _language,
    "file names": lambda cell, _: cell.filename,
    "ids": lambda cell, _: cell.id,
    "outputs": lambda cell, _: _plain(cell.outputs),
    "execution counts": lambda cell, _: cell.execution_count,
}


def difference(before: Notebook, after: Notebook, keeper: str) -> dict[str, str]:
    """What `keeper` did not keep, as sentences by what it is about; empty if everything came back."""
    found = _of_the_whole(before, after, keeper)
    if len(before.cells) != len(after.cells):
        found["cells"] = f"{keeper} makes {counted(len(after.cells), 'cell')} of {len(before.cells)}"
        lost = {name: _missing(before, after, aspect) for name, aspect in KEPT.items()}
        lost["metadata"] = sum(1 for cell in before.cells if cell.metadata) - sum(bool(c.metadata) for c in after.cells)
    else:
        pairs = list(zip(before.cells, after.cells, strict=True))
        found |= _of_texts(pairs, keeper)
        lost = {
            name: sum(1 for old, new in pairs if (had := of(old, before.language)) and had != of(new, after.language))
            for name, of in KEPT.items()
        }
        lost["metadata"] = sum(1 for old, new in pairs if _lost_keys(old.metadata, new.metadata))
    return found | {
        name: f"{keeper} does not keep the {name} of {counted(count, 'cell')}"
        for name, count in lost.items()
        if count > 0
    }


def _of_the_whole(before: Notebook, after: Notebook, keeper: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if before.title != after.title:
        found["title"] = f"{keeper} makes the title {after.title[:80]!r}"
    if language_named(before.language) != language_named(after.language):
        found["language"] = f"{keeper} makes {after.language!r} the notebook's language instead of {before.language!r}"
    if keys := _lost_keys(before.metadata, after.metadata):
        found["about"] = f"{keeper} does not keep the notebook's metadata: {', '.join(keys[:NAMED])[:200]}"
    return found


def _of_texts(pairs: Sequence[tuple[Cell, Cell]], keeper: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if texts := [number for number, (old, new) in enumerate(pairs) if old.source != new.source]:
        found["texts"] = f"{keeper} changes the text of {cells_named(texts)}"
    if kinds := [number for number, (old, new) in enumerate(pairs) if old.kind is not new.kind]:
        found["kinds"] = f"{keeper} changes the kind of {cells_named(kinds)}: {_turned(pairs)}"
    return found


def _turned(pairs: Sequence[tuple[Cell, Cell]]) -> str:
    return ", ".join(sorted({f"{old.kind} is now {new.kind}" for old, new in pairs if old.kind is not new.kind}))


def _missing(before: Notebook, after: Notebook, of: Aspect) -> int:
    """How many cells' values are nowhere any more; where the cells are others, nobody can say which."""
    had, has = (Counter(_text(of(cell, notebook.language)) for cell in notebook.cells) for notebook in (before, after))
    return sum((had - has).values()) - max(had[""] - has[""], 0)


def _lost_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key, value in before.items() if _plain(value) != _plain(after.get(key))]


def _text(value: object) -> str:
    """A value of a cell as something to count by; all that is empty is the same."""
    return json.dumps(value, sort_keys=True) if value else ""


def _plain(value: object) -> object:
    """JSON, so that a tuple and a list, or an empty thing and none, are the same."""
    return json.loads(json.dumps(value)) if value else None


def _short(loss: str) -> str:
    """Names and kinds in it are the notebook's, and may be of any length."""
    return loss if len(loss) <= LONGEST else f"{loss[:LONGEST]}…"


def cells_named(numbers: Sequence[int]) -> str:
    """Cells by their numbers, the first few of them: `cell 2`, `cells 2, 3 and 9 more`."""
    shown = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f"cell{'' if len(numbers) == 1 else 's'} {shown}{more}"


def told(own: Sequence[str], measured: Mapping[str, str]) -> list[str]:
    """All of it for a reply: what a format says itself, in its words, then what was measured and not said; so many at most."""
    said = [about for about in measured if any(loss.startswith(f"the {about} of") for loss in own)]
    besides = (text for about, text in measured.items() if about not in said)
    every = list(dict.fromkeys(_short(text) for text in (*own, *besides)))
    return every if len(every) <= MOST else [*every[: MOST - 1], f"and {len(every) - MOST + 1} more of this kind"]
