"""The addresses of what is known: written in one way wherever they appear."""

from urllib.parse import quote

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
