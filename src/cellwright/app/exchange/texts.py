"""A notebook as a model may read it; a long text in pages."""

from dataclasses import replace

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.budget import estimate_tokens
from cellwright.core.text.counting import counted
from cellwright.core.text.fitting import compact_json
from cellwright.notebook.model import Notebook
from cellwright.thinking.outputs import Cleaner

LIKELY_CHARACTERS = 4
PAGE_SHRINKS = 0.8


def cleaned(notebook: Notebook) -> tuple[Notebook, list[str]]:
    """The notebook as a model may read it, and a note if cells differ from the original."""
    cleaner = Cleaner()
    cells = tuple(
        replace(
            cell,
            source=cleaner.text(cell.source),
            language=cleaner.text(cell.language),
            filename=cleaner.text(cell.filename),
            outputs=tuple(cleaner.json(output) for output in cell.outputs),
            metadata=cleaner.json(dict(cell.metadata)),
        )
        for cell in notebook.cells
    )
    cleaned_notebook = Notebook(
        cleaner.text(notebook.title), cleaner.text(notebook.language), cells, cleaner.json(dict(notebook.metadata))
    )
    changed = sum(1 for old, new in zip(notebook.cells, cells, strict=True) if old != new)
    if not changed:
        return cleaned_notebook, []
    hidden = f" ({counted(cleaner.hidden, 'hidden character')})" if cleaner.hidden else ""
    note = (
        f"terminal colours, control and invisible characters of {counted(changed, 'cell')} are not in this text{hidden}; "
        "import_notebook keeps them"
    )
    return cleaned_notebook, [note]


def page(text: str, offset: int, tokens: int) -> tuple[str, int | None]:
    """As much of the text as fits, from `offset` on, and where the next page begins, if there is one."""
    if offset > len(text):
        raise InvalidArgument(
            f"there is no position {offset}: the text has {len(text)} characters",
            hint="give a position from 0 to that number",
        )
    size = min(len(text) - offset, tokens * LIKELY_CHARACTERS)
    while size > 1 and estimate_tokens(compact_json(text[offset : offset + size])) > tokens:
        size = int(size * PAGE_SHRINKS)
    end = offset + size
    return text[offset:end], end if end < len(text) else None
