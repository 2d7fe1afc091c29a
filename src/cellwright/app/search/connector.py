"""Toolset `connector`: `search` and `fetch` in the shape that chat applications expect of what they connect to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from cellwright.app.search.service import Finder
from cellwright.app.search.tools import Question
from cellwright.core.errors import InvalidUri, NotFound
from cellwright.core.resources import Content, Resources
from cellwright.core.toolset import Toolset, read
from cellwright.core.types import Call

RESULTS = 10


@dataclass(frozen=True)
class Connector:
    """The service of these tools. `resources` are all that the workspace has."""

    finder: Finder
    resources: Callable[[], Sequence[Resources]]

    async def read(self, call: Call, uri: str) -> Sequence[Content]:
        scheme, separator, _ = uri.partition("://")
        if not separator:
            raise InvalidUri(f"{uri[:200]!r} is not an id of a result", hint="take the id as search gave it")
        provider = next((resources for resources in self.resources() if resources.scheme == scheme), None)
        if provider is None:
            raise NotFound(f"no resource {uri[:200]}", hint="take the id as search gave it")
        return await provider.read(call, uri)


class ConnectorHit(TypedDict):
    id: str
    title: str
    url: str


class ConnectorHits(TypedDict):
    results: list[ConnectorHit]


class FetchedText(ConnectorHit):
    text: str
    metadata: dict[str, object]


async def search(connector: Connector, call: Call, query: Question) -> ConnectorHits:
    """Search everything in this workspace: notebooks, files, your pads and thinking notebooks, discoveries."""
    answer = await connector.finder.search(call, query, (), RESULTS)
    return {"results": [{"id": hit.whole, "title": hit.title, "url": hit.whole} for hit in answer.results]}


async def fetch(connector: Connector, call: Call, id: str) -> FetchedText:  # noqa: A002 - the name that clients give
    """Read a result of search, by its id, as text."""
    contents = await connector.read(call, id)
    metadata: dict[str, object] = {}
    for content in contents:
        metadata |= {"mime_type": content.mime_type, **content.meta}
    text = "\n\n".join(_text(content) for content in contents)
    return {"id": id, "title": title_of(id), "text": text, "url": id, "metadata": metadata}


def _text(content: Content) -> str:
    if isinstance(content.body, str):
        return content.body
    return f"({len(content.body):,} bytes of {content.mime_type})"


def title_of(uri: str) -> str:
    return uri.partition("://")[2]


def connector_toolset(connector: Connector) -> Toolset:
    return Toolset(
        "connector",
        "`search` and `fetch` as chat applications expect them of a connector",
        (read(search), read(fetch)),
        connector,
    )
