"""Toolset `documents`: text files, read and changed live together with people; and files made, moved, copied and deleted."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.documents.text import TextDocument, excerpt
from cellwright.jupyter.edits.edited import compared
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.meaning import ANY
from cellwright.jupyter.notebooks.notebook import LiveNotebook
from cellwright.jupyter.notebooks.notebookjson import notebook_json, with_ids
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import EditAcknowledgement, EditOutcome, acknowledgement, author_of, off_the_loop
from cellwright.jupyter.tools.documents.common import (
    BESIDES_TOKENS,
    DEFAULT_CONTENT,
    TEXT_TOKENS,
    DocumentFiles,
    LineEndsNote,
    MaxContent,
    OmittedSpan,
    Path,
    UnseenCharacters,
    line_ends,
    omitted,
    unseen,
)
from cellwright.jupyter.tools.documents.files import (
    copy_document,
    create_document,
    delete_document,
    list_documents,
    rename_document,
)
from cellwright.jupyter.tools.documents.info import get_document_info
from cellwright.jupyter.tools.documents.shown import Belief, SeenText
from cellwright.notebook.shortdiff import text_diff

Position = Annotated[int, Field(ge=0, description="counts Unicode characters, from 0")]
Length = Annotated[int, Field(ge=0)]
Expect = Annotated[str | None, Field(description="revision it must have, or any")]
View = Annotated[str | None, Field(description="revision of the positions; else your last")]
T = TypeVar("T")


class DocumentContent(UnseenCharacters, LineEndsNote):
    content: str
    truncated: bool
    content_length: int
    path: str
    position: int
    omitted: OmittedSpan | None
    revision: str
    live: bool


async def get_document_content(
    files: DocumentFiles,
    call: Call,
    path: Path,
    max_content: MaxContent = DEFAULT_CONTENT,
    position: Position = 0,
    length: Annotated[int | None, Field(ge=0, description="without it, to the end")] = None,
) -> Reply[DocumentContent]:
    """Read a text document as it is now, also unsaved edits of people; or a span of it. Where it goes on is in omitted."""
    doc_path = files.text_path(path, "read_nb_cells")
    async with files.text(call, doc_path) as document:
        text, revision, live = document.view.text, document.view.revision, document.live
        lines = line_ends(document.view)
    end = len(text) if length is None else min(position + length, len(text))
    if position > len(text):
        raise InvalidArgument(
            f"there is no position {position}: {doc_path} has {len(text)} characters",
            hint="give a position from 0 to that number",
        )
    part = await off_the_loop(end - position, excerpt, text, position, end, max_content, TEXT_TOKENS)
    whole = position == 0 and end == len(text) and part.omitted is None
    earlier = None if whole else files.shown.seen(call, doc_path, None)
    files.shown.remember(call, doc_path, text, revision, earlier.belief if earlier else None)
    data: DocumentContent = {
        "content": part.text,
        "truncated": part.omitted is not None,
        "content_length": len(text),
        "path": doc_path.text,
        "position": position,
        "omitted": omitted(part),
        "revision": revision,
        "live": live,
        **unseen(part),
        **lines,
    }
    return Reply(data, max_tokens=TEXT_TOKENS + BESIDES_TOKENS)


class TextState(LineEndsNote):
    """The state of the text after an edit, for the next one."""

    content_length: int
    revision: str


class EditedDocument(TextState, EditAcknowledgement):
    diff: str


class EditedSpan(EditedDocument):
    message: str
    position: int
    length: int


async def insert_document_text(
    files: DocumentFiles,
    call: Call,
    path: Path,
    position: Annotated[int, Field(ge=-1, description="counts Unicode characters, from 0; -1 is the end")],
    text: str,
    expect: Expect = None,
    view: View = None,
) -> EditedSpan:
    """Insert text into a document that people may have open. Nothing else in it changes."""

    def change(document: TextDocument, seen: SeenText | None) -> tuple[int, int]:
        start = len(document.text) if position < 0 else _position(document, seen, position)
        document.insert(start, text, expect=exactly(expect), author=author_of(call))
        return start, len(document.adapted(text))

    (start, length), after = await _edit(files, call, path, change, expect, view)
    message = f"Inserted {length} characters at position {start}"
    return {"message": message, "position": start, "length": length, **after}


async def delete_document_text(
    files: DocumentFiles,
    call: Call,
    path: Path,
    position: Position,
    length: Length,
    expect: Expect = None,
    view: View = None,
) -> EditedSpan:
    """Delete a span of characters from a document that people may have open."""

    def change(document: TextDocument, seen: SeenText | None) -> int:
        start = _position(document, seen, position, length)
        document.delete(start, length, expect=exactly(expect), author=author_of(call))
        return start

    start, after = await _edit(files, call, path, change, expect, view)
    message = f"Deleted {length} characters from position {start}"
    return {"message": message, "position": start, "length": length, **after}


class ReplacedSpan(EditedSpan):
    new_length: int


async def replace_document_text(
    files: DocumentFiles,
    call: Call,
    path: Path,
    position: Position,
    length: Length,
    text: str,
    expect: Expect = None,
    view: View = None,
) -> ReplacedSpan:
    """Put text in the place of a span of characters, in a document that people may have open."""

    def change(document: TextDocument, seen: SeenText | None) -> tuple[int, int]:
        start = _position(document, seen, position, length)
        document.replace(start, length, text, expect=exactly(expect), author=author_of(call))
        return start, len(document.adapted(text))

    (start, new_length), after = await _edit(files, call, path, change, expect, view)
    message = f"Replaced {length} characters with {new_length} new characters at position {start}"
    return {"message": message, "position": start, "length": length, "new_length": new_length, **after}


class OverwrittenDocument(EditedDocument):
    message: str
    path: str


class OverwrittenNotebook(EditOutcome):
    message: str
    path: str
    cell_count: int
    changed_cells: int


async def overwrite_document(
    files: DocumentFiles, call: Call, path: Path, content: str, expect: Expect = None, view: View = None
) -> OverwrittenDocument | OverwrittenNotebook:
    """Make this the whole text of a document, or a notebook's JSON. What others typed since you read it is merged or refuses it."""
    doc_path = files.path(path)
    if doc_path.is_notebook:
        return await _overwrite_notebook(files, call, NotebookPath(doc_path.text), content, expect, view)

    def change(document: TextDocument, seen: SeenText | None) -> None:
        text = content if seen is None or expect == ANY else seen.merged(document, content)
        document.overwrite(text, expect=exactly(expect), author=author_of(call))

    _, after = await _edit(files, call, path, change, expect, view, written=content)
    return {"message": f"Overwrote {doc_path}", "path": doc_path.text, **after}


async def _overwrite_notebook(
    files: DocumentFiles, call: Call, path: NotebookPath, content: str, expect: str | None, shown: str | None
) -> OverwrittenNotebook:
    if exactly(expect) is not None:
        raise InvalidArgument(
            f"{path} is a notebook, which has a revision for each cell and none as a whole",
            hint="Leave expect out; or change cells with modify_nb_cells, which takes their revisions",
        )
    notebook = notebook_json(content)
    sight = files.notebooks.sight(call, path, shown)

    def overwrite_all(view: LiveNotebook) -> int:
        sight.check_nothing_changed(view, expect)
        return overwrite(view, with_ids(notebook, view.outline()), author=author_of(call))

    async with files.notebooks.open(call, path) as document:
        await document.catch_up()
        edited, acknowledged = await document.change(compared(overwrite_all))
        changed, count, new_view = edited.result, document.view.cell_count, sight.show_all(edited.after)
    message = (
        f"Overwrote {path}, which has {counted(count, 'cell')} now; came, went or changed: {changed}; "
        "undo_nb_edit takes it back"
    )
    return {
        "message": message,
        "path": path.text,
        "cell_count": count,
        "changed_cells": changed,
        "diff": edited.diff,
        "view": new_view,
        **acknowledgement(acknowledged),
    }


async def _edit(
    files: DocumentFiles,
    call: Call,
    path: str,
    change: Callable[[TextDocument, SeenText | None], T],
    expect: str | None,
    revision: str | None,
    written: str | None = None,
) -> tuple[T, EditedDocument]:
    """Make an edit, which is given what the caller saw. Returns its outcome, and the state of the text after it.

    `written` is the whole text, where the caller gives that.
    """
    doc_path = files.text_path(path, "edit_nb_cell, or modify_nb_cells")
    # Whoever says which revision the text must have means the text as it is.
    seen = None if exactly(expect) is not None else files.shown.seen(call, doc_path, revision)

    def edit(view: TextDocument) -> tuple[T, TextState, str]:
        before = view.text
        outcome = change(view, seen)
        after, new_revision = view.text, view.revision
        # The state right after this edit, without what people type while it is sent.
        state: TextState = {"content_length": len(after), "revision": new_revision, **line_ends(view)}
        belief = seen.belief_after(before, after) if seen is not None else None
        if written is not None:
            belief = Belief(view.adapted(written))
        files.shown.remember(call, doc_path, after, new_revision, belief)
        return outcome, state, text_diff(before, after)

    async with files.text(call, doc_path) as document:
        (outcome, state, diff), acknowledged = await document.change(edit)
    return outcome, {**state, "diff": diff, **acknowledgement(acknowledged)}


def _position(document: TextDocument, seen: SeenText | None, position: int, length: int = 0) -> int:
    return position if seen is None else seen.position_now(document, position, length)


def exactly(expect: str | None) -> str | None:
    """The revision that the text must have."""
    return None if expect == ANY else expect


def documents_toolset(notebooks: LiveNotebooks, *, allow_hidden: bool = False) -> Toolset:
    tools = (
        read(get_document_content),
        write(insert_document_text),
        write(delete_document_text, destructive=True),
        write(replace_document_text, destructive=True),
        read(list_documents),
        write(create_document),
        read(get_document_info),
        write(delete_document, destructive=True),
        write(rename_document),
        write(copy_document),
        write(overwrite_document, destructive=True, idempotent=True),
    )
    service = DocumentFiles(notebooks, allow_hidden)
    return Toolset(
        "documents", "text files live, together with people; files made, moved, copied, deleted", tools, service
    )
