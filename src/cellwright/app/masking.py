"""The secrets of this process. They are masked wherever one would appear in an answer."""

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
"""A shorter one may be an ordinary word: to mask it everywhere would make texts unreadable and give it away."""
_OUR_TOKEN = re.compile(r"cw_(?:[a-z2-7]{8}_)?[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
"""Any of our own tokens: tokens are stored as hashes, so there is no text to compare with."""


class KnownSecrets:
    """Every secret that is known so far. More become known while the program runs."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        self._forms_in_json: tuple[str, ...] = ()
        """The same forms as JSON writes them."""
        self.add(*secrets)

    def add(self, *secrets: Secret | None) -> None:
        """Mask these as well from now on, in each form in which they may be written."""
        forms = {form for secret in secrets if secret for text in _parts(secret.reveal()) for form in _forms(text)}
        # The longest first, because one form may be a part of another.
        self._forms = tuple(sorted({*self._forms, *forms}, key=lambda form: (-len(form), form)))
        self._forms_in_json = tuple(json.dumps(form, ensure_ascii=False)[1:-1] for form in self._forms)

    def text(self, text: str) -> str:
        """The text with secrets masked."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return _OUR_TOKEN.sub(MASK, text) if "cw_" in text else text

    def data(self, body: bytes) -> bytes:
        """Bytes with secrets masked."""
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def json(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """A JSON value with secrets masked in all its texts."""
        return self._masked(value) if self._may_hold(value) else value

    def _may_hold(self, value: Any) -> bool:  # noqa: ANN401 - JSON
        """Whether any text in the value may hold a secret. Nearly always none does, and one look at its JSON shows that."""
        try:
            document = to_json(value).decode("utf-8")
        except PydanticSerializationError:
            # A text holds half a surrogate pair.
            return True
        return "cw_" in document or any(map(document.__contains__, self._forms_in_json))

    def _masked(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {self.text(key): self._masked(item) for key, item in items}
        return [self._masked(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _parts(secret: str) -> list[str]:
    """The secret itself, and also its password if it is an address."""
    if "://" not in secret:
        return [secret]
    try:
        password = urlsplit(secret).password
    except ValueError:
        password = None
    return [secret, unquote(password)] if password else [secret]


def _forms(text: str) -> set[str]:
    """A secret as it is written in plain text, JSON, addresses and HTML."""
    if len(text) < SHORTEST_SECRET:
        return set()
    plain, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    return {text, plain, ascii_only, quote(text, safe=""), quote(text), html.escape(text)}
