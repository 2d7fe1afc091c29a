"""cellwright: one MCP server that gives an AI agent a whole notebook workspace."""

__version__ = "0.1.0"
DOCUMENTATION = "https://github.com/cellwright/cellwright/blob/main/docs"
"""Where the pages are that messages point to: the package itself does not carry them."""


def _jupyter_server_extension_points() -> list[dict[str, object]]:  # pyright: ignore[reportUnusedFunction] - Jupyter calls it
    """What Jupyter Server asks of a package that it loads as an extension; the name is Jupyter's."""
    from cellwright.app.extension.app import CellwrightExtension  # noqa: PLC0415 - needs Jupyter, which is there only now

    return [{"module": "cellwright.app.extension", "app": CellwrightExtension}]
