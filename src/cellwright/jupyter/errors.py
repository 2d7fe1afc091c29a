"""What can go wrong between us and a Jupyter server."""

from cellwright.core.errors import CellwrightError, Unavailable


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
