"""Where a document's changes go: into the room that others share, or into the file when nobody can share it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cellwright.core.errors import CellwrightError, NotFound, Unavailable
from cellwright.jupyter.documents.room import Room
from cellwright.jupyter.documents.saving import After, Saver
from cellwright.jupyter.documents.writing import FileWrites
from cellwright.jupyter.errors import UnknownOutcome, answered_soon
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.model import FileInfo, FileKind
from cellwright.jupyter.port import Documents

log = logging.getLogger(__name__)

TRUST_SECONDS = 1.0
"""For how long a file that was there is believed to be there."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What is known of a change when it is reported."""

    live: bool
    """Whether it went into the document that people share, as opposed to the file."""
    saved: bool
    """Whether it is known to be in the file by now, with all that was changed before it."""
    not_saved: str = ""
    """Why it is not in the file, and what to do; empty where that is plain, as for a proposal."""
    reaches_others: bool = True
    """False when the server has stopped passing changes on to people who have the document open."""


class Backing(Protocol):
    """What stands behind an open document."""

    @property
    def live(self) -> bool: ...

    @property
    def is_open(self) -> bool:
        """Whether it can still be used; if not, the document is opened anew."""
        ...

    @property
    def size(self) -> int:
        """About how many bytes the document has."""
        ...

    @property
    def settled(self) -> bool:
        """Whether all our changes have arrived."""
        ...

    def check_open(self) -> None: ...

    async def refresh(self) -> None:
        """Check that the file is still there, under this name, and as it was read. If not, raise, or close this backing."""
        ...

    async def catch_up(self) -> None:
        """Wait until everything that others changed up to now is here."""
        ...

    async def acknowledge(self) -> Acknowledged:
        """Wait until our changes have arrived. Raises UnknownOutcome if that cannot be known."""
        ...

    async def settle(self, after: After) -> str:
        """Have our changes saved, now or soon. Returns why they are not in the file yet, and what to do; nothing if they are."""
        ...

    async def save(self) -> bool:
        """Write the file now. Returns whether it was written."""
        ...

    async def close(self) -> None: ...


class RoomBacking:
    """Changes go into the room. The server writes the file."""

    live = True

    def __init__(self, room: Room, documents: Documents, path: DocPath) -> None:
        self.room = room
        self._documents = documents
        self._path = path
        self.writes = FileWrites(room, documents, path)
        self.saver = Saver(self.writes, lambda: room.size, lambda: room.changes, path.text)
        self.unwritten = False
        """True from anybody's change until the server says that it is in the file."""
        self._named_at_first = self.writes.name
        self._looked = time.monotonic()

    @property
    def is_open(self) -> bool:
        return self.room.is_open

    @property
    def size(self) -> int:
        return self.room.size

    @property
    def settled(self) -> bool:
        return self.room.settled

    def check_open(self) -> None:
        self.room.check_open()

    async def refresh(self) -> None:
        self._check_name()
        if time.monotonic() - self._looked > TRUST_SECONDS:
            info = await answered_soon(self.writes.look(), self._path.text)
            if info.kind is FileKind.DIRECTORY:
                raise NotFound(f"{self._path} is a folder now", hint="list_documents shows what is in it")
            self._looked = time.monotonic()

    def _check_name(self) -> None:
        """Raise if the file was renamed: the room follows its file. Right after joining, the room may still have an older name."""
        named = self.writes.name
        if isinstance(named, str) and named not in ("", self._path.text, self._named_at_first):
            raise NotFound(f"{self._path} was renamed to {named}", hint=f"Use {named}")

    async def catch_up(self) -> None:
        try:
            await self.room.flush()
        except UnknownOutcome as error:
            raise Unavailable(
                f"Jupyter does not answer; nothing was changed in {self._path}", hint="Try again"
            ) from error

    async def acknowledge(self) -> Acknowledged:
        await self.room.flush()
        try:
            await self.refresh()
        except NotFound as error:
            raise NotFound(
                f"{error.message}: the change reached those who have it open, but there is no such file any more",
                hint=error.hint or "Its text can still be copied from an open tab",
            ) from error
        except CellwrightError as error:
            # The change has arrived. The next change checks again whether its file is still there.
            log.info("file_not_looked_at_after_a_change path=%s error=%s", self._path, error)
        return Acknowledged(live=True, saved=False, reaches_others=self.room.reaches_others)

    async def settle(self, after: After) -> str:
        return await self.saver.settle(after)

    async def save(self) -> bool:
        """Write the file, and know it: the server reports success also when writing failed."""
        self._check_name()
        return await self.saver.save()

    async def close(self) -> None:
        self.saver.close()
        self.writes.close()
        await self.room.leave()


class FileBacking:
    """Changes go into the file, after a check that nobody else changed it. For servers that share no documents."""

    live = False

    def __init__(
        self, documents: Documents, path: DocPath, kind: FileKind, info: FileInfo, content: Callable[[], Any]
    ) -> None:
        self._documents = documents
        self._path = path
        self._kind = kind
        self._info = info
        self._content = content
        self._writing = asyncio.Lock()
        self._spoiled: CellwrightError | None = None
        self._outdated = False

    @property
    def is_open(self) -> bool:
        return self._spoiled is None and not self._outdated

    @property
    def size(self) -> int:
        return self._info.size or 0

    @property
    def settled(self) -> bool:
        return not self._writing.locked()

    def check_open(self) -> None:
        if self._spoiled is not None:
            raise self._spoiled
        if self._outdated:
            raise Unavailable(f"{self._path} was changed on disk and is read anew", hint="Try again")

    async def refresh(self) -> None:
        if await self._documents.live():
            # The server was restarted and now shares documents: this one is opened anew, as a room.
            self._outdated = True
            return
        now = await self._documents.stat(self._path)
        before = self._info
        if not self._writing.locked() and (now.last_modified, now.size) != (before.last_modified, before.size):
            self._outdated = True

    async def catch_up(self) -> None:
        """The file was compared when the document was leased, and is again before it is written."""

    async def acknowledge(self) -> Acknowledged:
        async with self._writing:
            self.check_open()
            try:
                if await self._documents.live(now=True):
                    raise Unavailable(f"{self._path} is shared now; nothing was written", hint="Try again")
                self._info = await self._documents.write(self._path, self._kind, self._content(), expect=self._info)
            except CellwrightError as error:
                # Our copy has a change that the file has not: nobody may read it, and it must not be written later.
                self._spoiled = error
                raise
        return Acknowledged(live=False, saved=True)

    async def settle(self, after: After) -> str:  # noqa: ARG002 - every change is written at once
        return ""

    async def save(self) -> bool:
        """Every change is written at once; nothing is left to save."""
        return self.is_open

    async def close(self) -> None:
        self._outdated = True
