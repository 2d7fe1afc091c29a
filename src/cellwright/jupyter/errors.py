"""Errors between us and a Jupyter server."""

from cellwright.core.errors import CellwrightError, Conflict, InvalidArgument, LimitReached, NotFound, Unavailable


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


class NobodyListens(Unavailable):
    """No program takes connections at Jupyter's address: the server has ended, or was never there."""


class RoomLost(Unavailable):
    """The shared document's connection ended before anything was sent."""


def not_there(about: str, server: str) -> NotFound:
    """The server does not have this file, folder, kernel or session. The hint names the tool that shows what it has."""
    running = about.startswith(("kernel", "session"))
    hint = "get_nb_stat shows which kernel a notebook has" if running else "list_nbs shows the notebooks there are"
    return NotFound(f"no {about} on the Jupyter server {server}", hint=hint)


def refusal(status: int, message: str, about: str, server: str) -> CellwrightError:
    """The error that stands for an HTTP status of a Jupyter server and its message."""
    match status:
        case 401 | 403:
            return JupyterDenied(f"Jupyter may not touch {about}: {message}", hint="Check the file's permissions")
        case 404:
            return not_there(about, server)
        case 409:
            return Conflict(
                f"Jupyter refused to change {about}: {message}",
                hint="read it again, then change it or choose another name",
            )
        case 413:
            return LimitReached(
                f"{about} is larger than the Jupyter server accepts",
                hint="make it smaller: clear outputs, or split it",
            )
        case status if status < 500:  # noqa: PLR2004 - HTTP's own numbers
            return InvalidArgument(
                f"Jupyter refused {about}: {message or status}", hint="change what the message names, then call again"
            )
        case status:
            return Unavailable(
                f"Jupyter failed with {about} ({status}): {message or 'see its log'}",
                hint="try again; if it stays, Jupyter's log says why",
            )
