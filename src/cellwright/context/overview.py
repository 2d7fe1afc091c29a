"""The overview of a project and how much of a model's window it takes. It is rendered once, and made smaller when it is too large."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cellwright.context import discoveries as discovery_rows
from cellwright.context import pages
from cellwright.context.model import Project, Session
from cellwright.context.relevance import FULL, Use, lowest_fifth, score
from cellwright.core.text.tokens import estimate_tokens
from cellwright.storage.database import Database, Transaction

MOST_PASSES = 20
"""Every pass archives a fifth: after so many hardly anything is left."""


@dataclass(frozen=True)
class Share:
    """How many tokens a model would be given."""

    overview: int
    modules: int
    session: int
    window: int
    archived: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> int:
        return self.overview + self.modules + self.session


@dataclass(frozen=True)
class _Rendered:
    """The overview of a project without its archived modules, and its size."""

    project: Project
    archived: tuple[str, ...]
    bytes: int
    text: str
    tokens: int
    modules: int
    """Tokens of the pages of all modules that are shown."""


class Overview:
    """The overview of one project, for a window of so many tokens."""

    def __init__(self, database: Database, project_key: str, window: int, clock: Callable[[], float]) -> None:
        self._database = database
        self._key = project_key
        self._window = window
        self._clock = clock
        self._rendered: _Rendered | None = None

    async def page(self, project: Project, uses: Mapping[str, Use], session: Session | None) -> str:
        """The overview. While it, or the window, is too full, the least used fifth of the modules is archived."""
        rendered = self._current(project, uses)
        for _ in range(MOST_PASSES):
            shown_modules = [name for name in project.modules if name not in rendered.archived]
            if len(shown_modules) <= 1 or not self._is_crowded(rendered, session):
                break
            await self._database.write(
                lambda tx, shown_modules=shown_modules: self._archive_least_used(tx, shown_modules)
            )
            uses = await self._database.read(self.uses)
            rendered = self._current(project, uses)
        if rendered.bytes <= pages.OVERVIEW_BYTES:
            return rendered.text
        now = self._clock()
        worth = {name: score(uses.get(f"module:{name}", Use(name)), now) for name in project.modules}
        return pages.overview(project, worth, rendered.archived)

    async def share(self, project: Project, session: Session | None) -> Share:
        """The tokens that a model would be given: the overview, the pages of the modules in it, the session."""
        rendered = self._current(project, await self._database.read(self.uses))
        return Share(
            rendered.tokens, rendered.modules, self._session_tokens(session), self._window, list(rendered.archived)
        )

    async def archived(self, project: Project) -> tuple[str, ...]:
        """The modules that the overview leaves out."""
        return _archived(project, await self._database.read(self.uses))

    def uses(self, tx: Transaction) -> dict[str, Use]:
        """How often and when each item was used."""
        return discovery_rows.uses(tx, self._key)

    def _current(self, project: Project, uses: Mapping[str, Use]) -> _Rendered:
        archived = _archived(project, uses)
        cached = self._rendered
        if cached is None or cached.project is not project or cached.archived != archived:
            cached = self._rendered = _render(project, archived)
        return cached

    def _is_crowded(self, rendered: _Rendered, session: Session | None) -> bool:
        total = rendered.tokens + rendered.modules + self._session_tokens(session)
        return rendered.bytes > pages.OVERVIEW_BYTES or total > FULL * self._window

    def _session_tokens(self, session: Session | None) -> int:
        return estimate_tokens(pages.session_page(session, self._clock())) if session else 0

    def _archive_least_used(self, tx: Transaction, modules: list[str]) -> None:
        uses = self.uses(tx)
        candidates = [uses.get(f"module:{name}", Use(f"module:{name}")) for name in modules]
        discovery_rows.archive(tx, self._key, lowest_fifth(candidates, self._clock()))


def _render(project: Project, archived: tuple[str, ...]) -> _Rendered:
    text = pages.overview(project, {}, archived)
    shown_modules = (module for name, module in project.modules.items() if name not in archived)
    size = pages.overview_bytes(project, archived)
    modules = sum(estimate_tokens(pages.module_page(module)) for module in shown_modules)
    return _Rendered(project, archived, size, text, estimate_tokens(text), modules)


def _archived(project: Project, uses: Mapping[str, Use]) -> tuple[str, ...]:
    return tuple(name for name in project.modules if (use := uses.get(f"module:{name}")) is not None and use.archived)
