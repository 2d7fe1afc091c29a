"""The addresses of project context, written the same way wherever they appear."""

from urllib.parse import quote, unquote

from cellwright.core.errors import InvalidUri

OVERVIEW_URI = "context://project/overview"
CURRENT_URI = "context://session/current"
RECENT_URI = "context://sessions/recent"
DISCOVERIES_URI = "context://discoveries"
MODULE_PREFIX = "context://module/"
FILE_PREFIX = "context://file/"


def module_uri(name: str) -> str:
    return MODULE_PREFIX + quote(name, safe="/")


def file_uri(path: str) -> str:
    return FILE_PREFIX + quote(path, safe="/")


def canonical(uri: str) -> str:
    """The address under which changes are announced: without parameters, and with a module's name in our own spelling."""
    plain = uri.partition("?")[0]
    return module_uri(unquote(plain.removeprefix(MODULE_PREFIX))) if plain.startswith(MODULE_PREFIX) else plain


def name_of(quoted: str) -> str:
    """The path or the module's name in an address, decoded."""
    try:
        return unquote(quoted, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidUri(
            f"{quoted[:200]!a} names nothing: its %-signs stand for no UTF-8",
            details={"reason": "names are written as UTF-8, percent-encoded"},
            hint="copy the address from resources/list",
        ) from error
