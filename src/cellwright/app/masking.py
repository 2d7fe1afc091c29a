"""The secrets of this process, and what stands in their place wherever one would leave in an answer."""

import html
import json
import re
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

from pydantic_core import PydanticSerializationError, to_json

from cellwright.core.types import Secret

MASK = "***"
SHORTEST_SECRET = 8
"""A shorter one is an ordinary word: to take it out everywhere would make texts unreadable and give it away."""
_OUR_TOKEN = re.compile(r"cw_(?:[a-z2-7]{8}_)?[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
"""A token of ours, anybody's: we keep no token that we could compare with."""


class KnownSecrets:
    """Every secret that is known by now. More become known while the program runs."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        self._written: tuple[str, ...] = ()
        """The same as they stand in JSON."""
        self.add(*secrets)

    def add(self, *secrets: Secret | None) -> None:
        """From now on, these are masked as well, in each form in which they may be written."""
        forms = {form for secret in secrets if secret for text in _parts(secret.reveal()) for form in _forms(text)}
        # The longest first: one may be a part of another.
        self._forms = tuple(sorted({*self._forms, *forms}, key=lambda form: (-len(form), form)))
        self._written = tuple(json.dumps(form, ensure_ascii=False)[1:-1] for form in self._forms)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return _OUR_TOKEN.sub(MASK, text) if "cw_" in text else text

    def data(self, body: bytes) -> bytes:
        """The same for what is about to be sent."""
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def json(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """The same for every text in JSON."""
        return self._each(value) if self._may_hold(value) else value

    def _may_hold(self, value: Any) -> bool:  # noqa: ANN401 - JSON
        """Whether there may be a secret in any of its texts: nearly always not, which is seen at once in what they are written as."""
        try:
            written = to_json(value).decode("utf-8")
        except PydanticSerializationError:
            # There is half a character in one of them.
            return True
        return "cw_" in written or any(map(written.__contains__, self._written))

    def _each(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {self.text(key): self._each(item) for key, item in items}
        return [self._each(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _parts(secret: str) -> list[str]:
    """The secret, and the password in it if it is an address."""
    if "://" not in secret:
        return [secret]
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    return [secret, unquote(password)] if password else [secret]


def _forms(text: str) -> set[str]:
    """A secret as it stands in a text, in JSON, in an address, in a page."""
    if len(text) < SHORTEST_SECRET:
        return set()
    plain, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    return {text, plain, ascii_only, quote(text, safe=""), quote(text), html.escape(text)}
