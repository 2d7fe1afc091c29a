"""What a conversion lost of a notebook, measured by what comes back when the result is read."""

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
"""One property of a cell, given the notebook's language; falsy where the cell does not have it."""


def _language(cell: Cell, main: str) -> str:
    return language_named(cell.language or main) if cell.kind is Kind.CODE else ""


# For each of these we count the cells that lost it. A cell that did not have it cannot lose it.
ASPECTS: Mapping[str, Aspect] = {
    "languages": _language,
    "file names": lambda cell, _: cell.filename,
    "ids": lambda cell, _: cell.id,
    "outputs": lambda cell, _: _plain(cell.outputs),
    "execution counts": lambda cell, _: cell.execution_count,
}


def difference(before: Notebook, after: Notebook, keeper: str) -> dict[str, str]:
    """What `keeper` did not keep: sentences, by what each is about. Empty if everything came back."""
    sentences = _notebook_losses(before, after, keeper)
    if len(before.cells) != len(after.cells):
        sentences["cells"] = f"{keeper} makes {counted(len(after.cells), 'cell')} of {len(before.cells)}"
        counts = {name: _missing(before, after, aspect) for name, aspect in ASPECTS.items()}
        counts["metadata"] = sum(bool(c.metadata) for c in before.cells) - sum(bool(c.metadata) for c in after.cells)
    else:
        pairs = list(zip(before.cells, after.cells, strict=True))
        sentences |= _text_losses(pairs, keeper)
        counts = {
            name: sum(
                1
                for old, new in pairs
                if (value := aspect(old, before.language)) and value != aspect(new, after.language)
            )
            for name, aspect in ASPECTS.items()
        }
        counts["metadata"] = sum(1 for old, new in pairs if _lost_keys(old.metadata, new.metadata))
    return sentences | {
        name: f"{keeper} does not keep the {name} of {counted(count, 'cell')}"
        for name, count in counts.items()
        if count > 0
    }


def _notebook_losses(before: Notebook, after: Notebook, keeper: str) -> dict[str, str]:
    losses: dict[str, str] = {}
    if before.title != after.title:
        losses["title"] = f"{keeper} makes the title {after.title[:80]!r}"
    if language_named(before.language) != language_named(after.language):
        losses["language"] = f"{keeper} makes {after.language!r} the notebook's language instead of {before.language!r}"
    if keys := _lost_keys(before.metadata, after.metadata):
        losses["about"] = f"{keeper} does not keep the notebook's metadata: {', '.join(keys[:NAMED])[:200]}"
    return losses


def _text_losses(pairs: Sequence[tuple[Cell, Cell]], keeper: str) -> dict[str, str]:
    losses: dict[str, str] = {}
    if texts := [number for number, (old, new) in enumerate(pairs) if old.source != new.source]:
        losses["texts"] = f"{keeper} changes the text of {cells_named(texts)}"
    if kinds := [number for number, (old, new) in enumerate(pairs) if old.kind is not new.kind]:
        new_kinds = sorted({f"{old.kind} is now {new.kind}" for old, new in pairs if old.kind is not new.kind})
        losses["kinds"] = f"{keeper} changes the kind of {cells_named(kinds)}: {', '.join(new_kinds)}"
    return losses


def _missing(before: Notebook, after: Notebook, aspect: Aspect) -> int:
    """How many values of cells are gone. The cells cannot be paired here, so the values are counted."""
    old, new = (
        Counter(_countable(aspect(cell, notebook.language)) for cell in notebook.cells) for notebook in (before, after)
    )
    return sum((old - new).values()) - max(old[""] - new[""], 0)


def _lost_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key, value in before.items() if _plain(value) != _plain(after.get(key))]


def _countable(value: object) -> str:
    """A value of a cell as text, so that it can be counted. All empty values are the same."""
    return json.dumps(value, sort_keys=True) if value else ""


def _plain(value: object) -> object:
    """The value as JSON has it, so that a tuple equals a list, and an empty value equals none."""
    return json.loads(json.dumps(value)) if value else None


def cells_named(numbers: Sequence[int]) -> str:
    """The first few cells by their numbers: `cell 2`, `cells 2, 3 and 9 more`."""
    first = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f"cell{'' if len(numbers) == 1 else 's'} {first}{more}"


def reported_losses(own: Sequence[str], measured: Mapping[str, str]) -> list[str]:
    """At most MOST losses for a reply: those that the format names itself, then those that were measured besides."""
    others = (
        loss for about, loss in measured.items() if not any(own_loss.startswith(f"the {about} of") for own_loss in own)
    )
    # Names and kinds in a loss come from the notebook and may have any length.
    losses = list(dict.fromkeys(loss if len(loss) <= LONGEST else f"{loss[:LONGEST]}…" for loss in (*own, *others)))
    return losses if len(losses) <= MOST else [*losses[: MOST - 1], f"and {len(losses) - MOST + 1} more of this kind"]
