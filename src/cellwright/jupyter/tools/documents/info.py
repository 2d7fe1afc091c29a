"""`get_document_info`: what is known of a file, and its contents if they can be shown."""

import asyncio
import json
from dataclasses import dataclass
from typing import NotRequired

from cellwright.core.toolset import Image, Reply
from cellwright.core.types import Call
from cellwright.jupyter.documents.text import NotText, excerpt
from cellwright.jupyter.files.paths import DocPath, NotebookPath
from cellwright.jupyter.kernels.images import FittedImage
from cellwright.jupyter.model import FileInfo, FileKind, JsonObject
from cellwright.jupyter.notebooks.whole import whole_json
from cellwright.jupyter.service import LiveNotebooks
from cellwright.jupyter.tools.common import compact, off_the_loop
from cellwright.jupyter.tools.documents.common import (
    BESIDES_TOKENS,
    DEFAULT_CONTENT,
    TEXT_TOKENS,
    DescribedFile,
    DocumentFiles,
    MaxContent,
    OmittedSpan,
    Path,
    UnseenCharacters,
    described,
    format_of,
    omitted,
    unseen,
)


class ContentsNote(UnseenCharacters):
    """Size and cuts of a file's contents."""

    content_length: int | None
    truncated: bool
    omitted: NotRequired[OmittedSpan]


class DocumentInfo(DescribedFile):
    format: str | None
    mimetype: str | None


class DocumentWithContent(DocumentInfo, ContentsNote):
    content: str | None


@dataclass(frozen=True, slots=True)
class _Contents:
    """A note about a file's contents, and the contents if they can be shown."""

    about: ContentsNote
    content: str | Image | None = None


async def get_document_info(
    files: DocumentFiles,
    call: Call,
    path: Path,
    include_content: bool = False,
    max_content: MaxContent = DEFAULT_CONTENT,
) -> Reply[DocumentInfo | DocumentWithContent]:
    """What is known of a file or folder; with include_content also its text, or the picture it is."""
    doc_path = files.path(path)
    connected = await files.notebooks.connected(call)
    documents = connected.found.jupyter.documents
    info = await documents.stat(doc_path)
    file_format = await format_of(documents, doc_path, info)
    about: DocumentInfo = {
        **described(info, await documents.pages()),
        "format": file_format,
        "mimetype": info.mime_type,
    }
    if not include_content:
        return Reply(about)
    contents = await _contents(files.notebooks, call, doc_path, info, file_format, max_content)
    blocks = (compact(about), compact(contents.about), *(() if contents.content is None else (contents.content,)))
    text = contents.content if isinstance(contents.content, str) else None
    whole: DocumentWithContent = {**about, **contents.about, "content": text}
    return Reply(whole, blocks, max_tokens=TEXT_TOKENS + 2 * BESIDES_TOKENS)


async def _contents(
    notebooks: LiveNotebooks, call: Call, path: DocPath, info: FileInfo, file_format: str | None, most: int
) -> _Contents:
    connected = await notebooks.connected(call)
    if info.kind is FileKind.DIRECTORY:
        note = "a folder: list_documents shows what is in it"
        return _Contents({"content_length": None, "truncated": False, "note": note})
    if info.kind is FileKind.NOTEBOOK:
        async with connected.rooms.notebook(NotebookPath(path.text)) as notebook:
            whole = await whole_json(notebook.view)
        # With an indent the encoder runs in Python, so that other threads can work in between.
        text = await asyncio.to_thread(lambda: json.dumps(_without_pictures(whole), ensure_ascii=False, indent=1))
        note = "read_nb_cells reads a notebook better; pictures are left out here"
    elif file_format == "text":
        try:
            async with connected.rooms.document(path) as document:
                text = document.view.text
        except NotText:
            # A large file is judged by its name at first.
            return await _binary(notebooks, call, path, info)
        note = None
    else:
        return await _binary(notebooks, call, path, info)
    part = await off_the_loop(len(text), excerpt, text, 0, len(text), most, TEXT_TOKENS)
    cut = omitted(part)
    about: ContentsNote = {"content_length": len(text), "truncated": cut is not None}
    if cut is not None:
        about["omitted"] = cut
    if note is not None:
        about["note"] = note
    return _Contents({**about, **unseen(part)}, part.text)


async def _binary(notebooks: LiveNotebooks, call: Call, path: DocPath, info: FileInfo) -> _Contents:
    note = f"not text: {info.size or 0:,} bytes of {info.mime_type or 'unknown kind'}"
    about: ContentsNote = {"content_length": info.size, "truncated": False, "note": note}
    if not (info.mime_type or "").startswith("image/"):
        return _Contents(about)
    documents = (await notebooks.connected(call)).found.jupyter.documents
    encoded = (await documents.read(path, FileKind.FILE)).content
    if not isinstance(encoded, str):
        return _Contents(about)
    picture = await notebooks.pictures.fit(encoded, str(info.mime_type), call.principal.id)
    if not isinstance(picture, FittedImage):
        return _Contents({**about, "note": f"{note}; not shown: {picture.reason}"})
    return _Contents(about, Image(picture.data, picture.mime_type))


def _without_pictures(notebook: JsonObject) -> JsonObject:
    """The notebook with a note in the place of each picture: cut base64 is of no use to anybody."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data: JsonObject = output.get("data") or {}
            for mime, value in data.items():
                if mime.startswith("image/") and isinstance(value, str):
                    data[mime] = f"… {len(value):,} characters left out …"
    return notebook
