"""What the page reads from a request that was let in."""

import json
from typing import cast

from starlette.requests import Request

from cellwright.core.errors import InvalidArgument
from cellwright.core.types import PRINCIPAL_KEY, Call, Principal


def caller_of(request: Request) -> Principal:
    return cast("Principal", request.scope[PRINCIPAL_KEY])


def call_of(request: Request) -> Call:
    return Call(caller_of(request))


def header_of(request: Request, name: str) -> str:
    """The value of a header; the last one if there are several."""
    return next(reversed(request.headers.getlist(name)), "")


def text_of(request: Request, name: str) -> str:
    """A parameter that the query must have."""
    text = request.query_params.get(name, "")
    if not text:
        raise InvalidArgument(f"the query lacks {name!r}", hint=f"give it as ?{name}=…")
    return text


def number_of(request: Request, name: str, default: int, most: int) -> int:
    """A number from 0 to `most` that the query may have."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= most):  # noqa: PLR2004
        raise InvalidArgument(
            f"{name} is a whole number from 0 to {most}", hint="give a number in that range, or leave it out"
        )
    return int(text)


async def object_of(request: Request) -> dict[str, object]:
    """The body, which must be a JSON object. No body means an empty object."""
    try:
        body: object = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidArgument("the body is not a JSON object", hint="send application/json with an object")
    return cast("dict[str, object]", body)
