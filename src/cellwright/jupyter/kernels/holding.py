"""Keeps the notebook of a run open, and opens it again if it is lost, until the last output is written."""

from contextlib import AsyncExitStack

from pycrdt import Map

from cellwright.core.errors import CellwrightError, NotFound
from cellwright.jupyter.documents.open_document import OpenDocument
from cellwright.jupyter.documents.rooms import Rooms
from cellwright.jupyter.files.paths import NotebookPath
from cellwright.jupyter.kernels.executions import CellJob, Execution
from cellwright.jupyter.kernels.outputs import OutputWriter
from cellwright.jupyter.kernels.queue import KernelQueue
from cellwright.jupyter.notebooks.notebook import LiveNotebook

LOST_CHECK_SECONDS = 1.0


class RunHolder:
    """Keeps a notebook open while cells run in it, also across a lost connection.

    Output after the run, from a thread or as an update of a display, is written as long as anybody has the notebook open.
    """

    def __init__(self, rooms: Rooms, path: NotebookPath) -> None:
        self._rooms = rooms
        self._path = path
        self._stack = AsyncExitStack()
        self._execution: Execution | None = None
        self._writers: list[OutputWriter] = []
        self._document: OpenDocument[LiveNotebook] | None = None
        """None after the run, because its results are kept longer than a notebook that nobody uses."""

    async def open(self) -> None:
        def run_ended() -> bool:
            return self._execution is not None and self._execution.ended

        self._document = await self._stack.enter_async_context(self._rooms.notebook(self._path, run_ended=run_ended))

    async def close(self) -> None:
        await self._stack.aclose()

    def job(self, cell_id: str, queue: KernelQueue) -> CellJob:
        def cell() -> Map[object] | None:
            view = self._opened().view
            try:
                return view.shared_cell(cell_id)
            except CellwrightError:
                return None

        def code() -> str | None:
            if self._document is None:
                return None
            view = self._document.view
            try:
                return view.head(view.index_of(cell_id)).source
            except CellwrightError:
                return None

        writer = OutputWriter(cell, queue.displays)
        self._writers.append(writer)
        return CellJob(code, cell_id, writer)

    async def save(self) -> None:
        try:
            document = self._opened()
        except CellwrightError:
            # Either the notebook was left, so Jupyter has everything and saves it; or it was lost, and `hold` opens it again.
            return
        if not document.on_disk().saved:
            await document.save()

    def _opened(self) -> OpenDocument[LiveNotebook]:
        """The notebook of the run; after the run, the one that anybody has open. Raises if there is none."""
        document = self._document or self._rooms.open_notebook(self._path)
        if document is None:
            raise NotFound(f"{self._path} is not open any more", hint="it is opened anew by whoever needs it")
        document.check_open()
        return document

    async def hold(self, execution: Execution) -> None:
        self._execution = execution
        try:
            while not execution.ended:
                await execution.wait(LOST_CHECK_SECONDS)
                await self._renew_if_lost()
            await self._opened().arrive()
            for writer in self._writers:
                writer.settle()
        except CellwrightError as error:
            execution.notes.append(f"The notebook may not show all of this run: {error.message}")
        finally:
            self._document = None
            await self.close()

    async def _renew_if_lost(self) -> None:
        try:
            self._opened()
        except CellwrightError:
            await self.close()
            await self.open()
            for writer in self._writers:
                writer.flush()
