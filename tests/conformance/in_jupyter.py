"""cellwright in Jupyter Server with the names that the official conformance suite asks for. Used by tests only."""

from cellwright.app.extension.app import CellwrightExtension
from cellwright.app.protocol.server import CellwrightServer
from cellwright.app.workspace import Workspace
from conformance.fixture import FixtureServer


class ConformanceExtension(CellwrightExtension):
    def open_server(self, workspace: Workspace) -> CellwrightServer:
        return FixtureServer(workspace)


def _jupyter_server_extension_points() -> list[dict[str, object]]:  # pyright: ignore[reportUnusedFunction] - Jupyter calls it
    return [{"module": "conformance.in_jupyter", "app": ConformanceExtension}]
