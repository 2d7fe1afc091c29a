"""Toolset `documents`: text files, read and changed live together with people; and files made, moved, copied and deleted."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import Field

from cellwright.core.errors import InvalidArgument
from cellwright.core.text.counting import counted
from cellwright.core.toolset import Reply, Toolset, read, write
from cellwright.core.types import Call
from cellwright.jupyter.documents.text import TextDocument, excerpt
from cellwright.jupyter.edits.overwriting import overwrite
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.notebooks.notebookjson import notebook_json, with_ids
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import EditAcknowledgement, acknowledgement, author_of, off_the_loop
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

Position = Annotated[int, Field(ge=0, description="counts Unicode characters, from 0")]
Length = Annotated[int, Field(ge=0)]
Expect = Annotated[str | None, Field(description="revision the document must still have")]
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
    pass


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
) -> EditedSpan:
    """Insert text into a document that people may have open. Nothing else in it changes."""

    def change(view: TextDocument) -> tuple[int, int]:
        start = len(view.text) if position < 0 else position
        view.insert(start, text, expect=expect, author=author_of(call))
        return start, len(view.adapted(text))

    (start, length), after = await _edit(files, call, path, change)
    message = f"Inserted {length} characters at position {start}"
    return {"message": message, "position": start, "length": length, **after}


async def delete_document_text(
    files: DocumentFiles, call: Call, path: Path, position: Position, length: Length, expect: Expect = None
) -> EditedSpan:
    """Delete a span of characters from a document that people may have open."""
    _, after = await _edit(
        files, call, path, lambda view: view.delete(position, length, expect=expect, author=author_of(call))
    )
    message = f"Deleted {length} characters from position {position}"
    return {"message": message, "position": position, "length": length, **after}


class ReplacedSpan(EditedSpan):
    new_length: int


async def replace_document_text(
    files: DocumentFiles, call: Call, path: Path, position: Position, length: Length, text: str, expect: Expect = None
) -> ReplacedSpan:
    """Put text in the place of a span of characters, in a document that people may have open."""

    def change(view: TextDocument) -> int:
        view.replace(position, length, text, expect=expect, author=author_of(call))
        return len(view.adapted(text))

    new_length, after = await _edit(files, call, path, change)
    message = f"Replaced {length} characters with {new_length} new characters at position {position}"
    return {"message": message, "position": position, "length": length, "new_length": new_length, **after}


class OverwrittenDocument(EditedDocument):
    message: str
    path: str


class OverwrittenNotebook(EditAcknowledgement):
    message: str
    path: str
    cell_count: int
    changed_cells: int


async def overwrite_document(
    files: DocumentFiles, call: Call, path: Path, content: str, expect: Expect = None
) -> OverwrittenDocument | OverwrittenNotebook:
    """Make this the whole text of an existing document, or a notebook's JSON. Only what differs changes; expect guards what others type."""
    doc_path = files.path(path)
    if doc_path.is_notebook:
        return await _overwrite_notebook(files, call, NotebookPath(doc_path.text), content, expect)
    _, after = await _edit(
        files, call, path, lambda view: view.overwrite(content, expect=expect, author=author_of(call))
    )
    return {"message": f"Overwrote {doc_path}", "path": doc_path.text, **after}


async def _overwrite_notebook(
    files: DocumentFiles, call: Call, path: NotebookPath, content: str, expect: str | None
) -> OverwrittenNotebook:
    if expect is not None:
        raise InvalidArgument(
            f"{path} is a notebook, which has a revision for each cell and none as a whole",
            hint="Leave expect out; or change cells with modify_nb_cells, which takes their revisions",
        )
    notebook = notebook_json(content)
    async with files.notebooks.open(call, path) as document:
        changed, acknowledged = await document.change(
            lambda view: overwrite(view, with_ids(notebook, view.outline()), author=author_of(call))
        )
        count = document.view.cell_count
    message = (
        f"Overwrote {path}, which has {counted(count, 'cell')} now; came, went or changed: {changed}; "
        "undo_nb_edit takes it back"
    )
    return {
        "message": message,
        "path": path.text,
        "cell_count": count,
        "changed_cells": changed,
        **acknowledgement(acknowledged),
    }


async def _edit(
    files: DocumentFiles, call: Call, path: str, change: Callable[[TextDocument], T]
) -> tuple[T, EditedDocument]:
    """Make an edit. Returns its outcome, and the state of the text after it."""
    doc_path = files.text_path(path, "edit_nb_cell, or modify_nb_cells")

    def edit(view: TextDocument) -> tuple[T, TextState]:
        outcome = change(view)
        # The state right after this edit, without what people type while it is sent.
        return outcome, {"content_length": len(view.text), "revision": view.revision, **line_ends(view)}

    async with files.text(call, doc_path) as document:
        (outcome, after), acknowledged = await document.change(edit)
    return outcome, {**after, **acknowledgement(acknowledged)}


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
