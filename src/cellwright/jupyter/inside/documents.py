"""Documents of the Jupyter server we run inside of: its files, and the rooms in which it shares them."""

from typing import Any, cast

from jupyter_server.serverapp import ServerApp

from cellwright.core.types import Secret
from cellwright.jupyter.files import rules as filerules
from cellwright.jupyter.files.paths import DocPath
from cellwright.jupyter.inside.calls import ServerCalls
from cellwright.jupyter.inside.contents import LocalContents
from cellwright.jupyter.inside.forks import YdocForks
from cellwright.jupyter.inside.rooms import YdocRooms
from cellwright.jupyter.model import RoomKind
from cellwright.jupyter.port import Forks, RoomAccess
from cellwright.jupyter.remote.adapter import PAGES, RemoteDocuments, Sharing
from cellwright.jupyter.remote.rest import Rest
from cellwright.jupyter.server.address import JupyterAddress

YDOC = "jupyter_server_ydoc"
FOREIGN = {"jupyter_server_documents": Sharing.DOCUMENTS, "jupyter_collaboration": Sharing.COLLABORATION}
"""Other extensions that share documents. We do not know their rooms from the inside, so they are joined over the network."""


PAGES_OF = {"jupyterlab": "lab", "notebook": "tree", "nbclassic": "tree"}
"""Extensions with pages that show files, and the name of each page."""


class LocalDocuments(LocalContents):
    """Files of this server, and their rooms."""

    def __init__(self, serverapp: ServerApp, calls: ServerCalls, url: str) -> None:
        super().__init__(serverapp, calls)
        self._server: Any = cast("Any", serverapp)
        self._url = url
        self._rooms: YdocRooms | None = None
        self._forks: YdocForks | None = None
        self._rest: Rest | None = None
        self._foreign: RemoteDocuments | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def forks(self) -> Forks:
        extension = self._extension(YDOC)
        if extension is None:
            return self._from_outside().forks
        if self._forks is None:
            self._forks = YdocForks(extension)
        return self._forks

    async def pages(self) -> str | None:
        pages = next((PAGES[page] for name, page in PAGES_OF.items() if self._extension(name) is not None), None)
        return f"{self._url}/{pages}" if pages else None

    async def live(self, *, now: bool = False) -> bool:  # noqa: ARG002 - it is looked up each time
        return self.sharing() is not Sharing.NONE

    def sharing(self) -> Sharing:
        """How documents are shared. Looked up each time: extensions are loaded in any order, and we may be the first."""
        extension = self._extension(YDOC)
        if extension is not None:
            # With `disable_rtc` there are rooms, but people's JupyterLab writes files without them.
            return Sharing.NONE if extension.disable_rtc else Sharing.COLLABORATION
        return next((sharing for name, sharing in FOREIGN.items() if self._extension(name)), Sharing.NONE)

    async def join(self, path: DocPath, kind: RoomKind) -> RoomAccess:
        # Joining the room of a file that does not exist stops live updates in every room of the server.
        filerules.check_joinable(path, await self.stat(path), kind)
        extension = self._extension(YDOC)
        if extension is None:
            return await self._from_outside().join(path, kind)
        if self._rooms is None:
            self._rooms = YdocRooms(extension)
        return await self._rooms.join(path, kind)

    async def close(self) -> None:
        if self._rest is not None:
            await self._rest.close()

    def _extension(self, name: str) -> Any:  # noqa: ANN401 - whatever class it is
        """The running extension of this name. An extension that is installed but switched off has no app."""
        return next(iter(self._server.extension_manager.extension_apps.get(name, ())), None)

    def _from_outside(self) -> RemoteDocuments:
        if self._foreign is None:
            token = Secret(str(getattr(self._server.identity_provider, "token", "") or ""))
            self._rest = Rest(JupyterAddress.parse(self._server.connection_url, token=token))
            self._foreign = RemoteDocuments(self._rest)
        return self._foreign
