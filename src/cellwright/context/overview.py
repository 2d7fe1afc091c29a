"""The overview and how much of a model's window it takes: made once for what there is to say, made smaller when it is too much."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cellwright.context import discoveries as known
from cellwright.context import pages
from cellwright.context.model import Project, Session
from cellwright.context.relevance import FULL, Use, lowest_fifth, score
from cellwright.core.text.tokens import estimate_tokens
from cellwright.storage.database import Database, Transaction

MOST_PASSES = 20
"""Every pass archives a fifth: after so many hardly anything is left."""


@dataclass(frozen=True)
class Share:
    """What a model would be given, in tokens."""

    overview: int
    modules: int
    session: int
    window: int
    archived: list[str] = field(default_factory=list[str])

    @property
    def total(self) -> int:
        return self.overview + self.modules + self.session


@dataclass(frozen=True)
class _Made:
    """What follows from the project and what of it is archived."""

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
        self._made: _Made | None = None

    async def page(self, project: Project, uses: Mapping[str, Use], session: Session | None) -> str:
        """The overview. Archives the least used fifth while it, or the window, is too full."""
        made = self._current(project, uses)
        for _ in range(MOST_PASSES):
            left = [name for name in project.modules if name not in made.archived]
            if len(left) <= 1 or not self._is_crowded(made, session):
                break
            await self._database.write(lambda tx, left=left: self._archive(tx, left))
            uses = await self._database.read(self.uses)
            made = self._current(project, uses)
        if made.bytes <= pages.OVERVIEW_BYTES:
            return made.text
        now = self._clock()
        worth = {name: score(uses.get(f"module:{name}", Use(name)), now) for name in project.modules}
        return pages.overview(project, worth, made.archived)

    async def share(self, project: Project, session: Session | None) -> Share:
        """What a model would be given: the overview, the pages of the modules in it, the session."""
        made = self._current(project, await self._database.read(self.uses))
        return Share(made.tokens, made.modules, self._session_tokens(session), self._window, list(made.archived))

    async def archived(self, project: Project) -> tuple[str, ...]:
        """The modules that the overview leaves out."""
        return _archived(project, await self._database.read(self.uses))

    def uses(self, tx: Transaction) -> dict[str, Use]:
        """How often and when each item was used."""
        return known.uses(tx, self._key)

    def _current(self, project: Project, uses: Mapping[str, Use]) -> _Made:
        archived = _archived(project, uses)
        if self._made is None or self._made.project is not project or self._made.archived != archived:
            self._made = _make(project, archived)
        return self._made

    def _is_crowded(self, made: _Made, session: Session | None) -> bool:
        total = made.tokens + made.modules + self._session_tokens(session)
        return made.bytes > pages.OVERVIEW_BYTES or total > FULL * self._window

    def _session_tokens(self, session: Session | None) -> int:
        return estimate_tokens(pages.session_page(session, self._clock())) if session else 0

    def _archive(self, tx: Transaction, left: list[str]) -> None:
        uses = self.uses(tx)
        candidates = [uses.get(f"module:{name}", Use(f"module:{name}")) for name in left]
        known.archive(tx, self._key, lowest_fifth(candidates, self._clock()))


def _make(project: Project, archived: tuple[str, ...]) -> _Made:
    text = pages.overview(project, {}, archived)
    shown = (module for name, module in project.modules.items() if name not in archived)
    size = pages.overview_bytes(project, archived)
    modules = sum(estimate_tokens(pages.module_page(module)) for module in shown)
    return _Made(project, archived, size, text, estimate_tokens(text), modules)


def _archived(project: Project, uses: Mapping[str, Use]) -> tuple[str, ...]:
    found = (name for name in project.modules if (use := uses.get(f"module:{name}")) is not None and use.archived)
    return tuple(found)
