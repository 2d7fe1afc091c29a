"""Which notebooks each caller has in use, and which one a call without a name means. Never one for the whole process."""

from dataclasses import dataclass, field

from cellwright.core.arguments import nearest
from cellwright.core.errors import InvalidArgument, LimitReached, NotFound
from cellwright.core.text.counting import counted
from cellwright.core.types import Call
from cellwright.jupyter.files.paths import NotebookPath

MAX_PRINCIPALS = 1_000
MAX_SESSIONS = 100
"""Per principal. The least recently used one is forgotten, never another principal's."""
MAX_NAMES = 100
MAX_NAME_CHARACTERS = 200


class Ambiguous(InvalidArgument):
    """It is not known which notebook is meant."""


@dataclass(frozen=True, slots=True)
class InUse:
    """A notebook under the name that its user gave it."""

    name: str
    path: NotebookPath


@dataclass(slots=True)
class Chosen:
    """What one caller has chosen; or several, where nothing tells them apart."""

    paths: dict[str, NotebookPath] = field(default_factory=dict[str, NotebookPath])
    """By name, the latest choice last: that one is current."""
    replaced: set[str] = field(default_factory=set[str])
    """The names that have meant another notebook before."""

    @property
    def leaves_open(self) -> bool:
        """Whether several clients may mean different notebooks with "the current one"."""
        return bool(self.replaced) or len(set(self.paths.values())) > 1


class CurrentNotebooks:
    """The choices of every caller, bounded, each seen by nobody else."""

    def __init__(
        self,
        *,
        principals: int = MAX_PRINCIPALS,
        sessions: int = MAX_SESSIONS,
        names: int = MAX_NAMES,
        default: NotebookPath | None = None,
    ) -> None:
        """`default` is the notebook of callers who have chosen none; the operator may set one."""
        self._default = default
        self._most_principals, self._most_sessions, self._most_names = principals, sessions, names
        self._choices: dict[str, dict[str, Chosen]] = {}

    def of(self, call: Call) -> tuple[InUse, ...]:
        """What the caller has in use; the last is current."""
        return tuple(InUse(name, path) for name, path in self._chosen(call).paths.items())

    def current(self, call: Call) -> InUse | None:
        return next(iter(self.of(call)[::-1]), None)

    def check(self, call: Call, name: str) -> None:
        """Raise if the caller cannot use a notebook under this name."""
        if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
            raise InvalidArgument(
                f"a notebook's name has 1 to {MAX_NAME_CHARACTERS} characters, this has {len(name)}",
                hint="choose a shorter name that is not empty",
            )
        paths = self._chosen(call).paths
        if name not in paths and len(paths) >= self._most_names:
            raise LimitReached(
                f"you use {counted(len(paths), 'notebook')} already", hint="unuse_notebook lets go of one"
            )

    def use(self, call: Call, name: str, path: NotebookPath) -> NotebookPath | None:
        """Make this the caller's current notebook. Returns the path that the name had before."""
        self.check(call, name)
        chosen = self._chosen_or_new(call)
        before = chosen.paths.pop(name, None)
        chosen.paths[name] = path
        if before not in (None, path):
            chosen.replaced.add(name)
        return before

    def let_go(self, call: Call, name: str) -> InUse:
        """Forget a name. If it was current, the choice before it is current again."""
        self.named(call, name)
        chosen = self._chosen(call)
        chosen.replaced.discard(name)
        return InUse(name, chosen.paths.pop(name))

    def named(self, call: Call, name: str) -> InUse:
        """The notebook that the caller uses under this name."""
        paths = self._chosen(call).paths
        if name not in paths:
            similar_name = nearest(name, list(paths))
            suggestion = f"did you mean {similar_name!r}?" if similar_name else f"yours: {', '.join(paths) or 'none'}"
            raise NotFound(
                f"you use no notebook named {name[:MAX_NAME_CHARACTERS]!r}",
                hint=f"{suggestion}; use_notebook with notebook_path begins with one",
            )
        return InUse(name, paths[name])

    def implied(self, call: Call) -> NotebookPath | None:
        """The notebook of a call that names none: the caller's current one, or else the default."""
        current = self.current(call)
        return self._default if current is None else current.path

    def find(self, call: Call, name_or_path: str | None) -> NotebookPath:
        """The notebook of this name or path; without one, the caller's current notebook."""
        if name_or_path is None:
            path = self.implied(call)
            if path is None:
                raise NotFound(
                    "you have no current notebook",
                    hint="call use_notebook first, or give notebook (a path); list_notebook shows what there is",
                )
            return path
        if name_or_path not in self._chosen(call).paths and name_or_path.endswith(".ipynb"):
            return NotebookPath(name_or_path)
        return self.named(call, name_or_path).path

    def find_to_change(self, call: Call, name_or_path: str | None) -> NotebookPath:
        """The same for a call that changes the notebook or runs code in it. It is refused if another client may have chosen it."""
        path = self.find(call, name_or_path)
        if self.is_in_doubt(call, name_or_path):
            meant = "the current notebook" if name_or_path is None else repr(name_or_path)
            raise Ambiguous(
                f"{meant} is {path}, but another client with your token may have chosen it: several notebooks are in use, and your "
                "requests have no connection that tells you apart; nothing was done",
                hint=f"give notebook: {path.text!r}, or the path that you mean; unuse_notebook lets go of a name",
            )
        return path

    def is_in_doubt(self, call: Call, name_or_path: str | None) -> bool:
        """Whether the notebook of this name, or the current one, may be another client's choice."""
        chosen = self._chosen(call)
        is_open = chosen.leaves_open if name_or_path is None else name_or_path in chosen.replaced
        return call.may_be_another and is_open

    def _chosen(self, call: Call) -> Chosen:
        """The caller's choices. Looking them up counts as use, so that a busy caller is not forgotten."""
        sessions = self._choices.get(call.principal.id)
        if sessions is None or call.session not in sessions:
            return Chosen()
        self._choices[call.principal.id] = self._choices.pop(call.principal.id)
        chosen = sessions[call.session] = sessions.pop(call.session)
        return chosen

    def _chosen_or_new(self, call: Call) -> Chosen:
        """The caller's choices, an empty new entry if there is none."""
        if call.principal.id not in self._choices:
            _make_room(self._choices, self._most_principals)
        sessions = self._choices.setdefault(call.principal.id, {})
        if call.session not in sessions:
            _make_room(sessions, self._most_sessions)
        sessions.setdefault(call.session, Chosen())
        return self._chosen(call)


def _make_room(entries: dict[str, Chosen] | dict[str, dict[str, Chosen]], limit: int) -> None:
    while len(entries) >= limit:
        del entries[next(iter(entries))]
