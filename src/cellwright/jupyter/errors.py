"""What can go wrong between us and a Jupyter server."""

from cellwright.core.errors import CellwrightError, NotFound, Unavailable


class UnknownOutcome(CellwrightError):
    """The connection was lost after the change was sent and before it was acknowledged."""

    code = "UNKNOWN_OUTCOME"
    meaning = (
        "The change was sent, but the connection to Jupyter was lost before it was acknowledged: "
        "read the document again to see whether it arrived, before you repeat it."
    )
    rpc_code = -32603


class JupyterDenied(CellwrightError):
    """Jupyter does not accept who we are, or does not let us do this."""

    code = "JUPYTER_DENIED"
    meaning = "The Jupyter server refused: its token or password is missing or wrong, or the file may not be changed."


class RoomLost(Unavailable):
    """The shared document's connection ended before anything was sent."""


def not_there(about: str, server: str) -> NotFound:
    """A file, folder, kernel or session that the server does not have, with the tool that shows what there is of its kind."""
    running = about.startswith(("kernel", "session"))
    hint = "get_nb_stat shows which kernel a notebook has" if running else "list_nbs shows the notebooks there are"
    return NotFound(f"no {about} on the Jupyter server {server}", hint=hint)
