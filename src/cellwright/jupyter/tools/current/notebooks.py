"""Which notebooks each caller has in use, and which one a call without a name means. Never one for the whole process."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class InUse:
    """A notebook under the name that its user gave it."""

    name: str
    path: NotebookPath


Chosen = dict[str, NotebookPath]
"""By name, the latest choice last: that one is current."""


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
        return tuple(InUse(name, path) for name, path in self._chosen(call).items())

    def current(self, call: Call) -> InUse | None:
        return next(iter(self.of(call)[::-1]), None)

    def check(self, call: Call, name: str) -> None:
        """Raise if the caller cannot use a notebook under this name."""
        if not name.strip() or len(name) > MAX_NAME_CHARACTERS:
            raise InvalidArgument(
                f"a notebook's name has 1 to {MAX_NAME_CHARACTERS} characters, this has {len(name)}",
                hint="choose a shorter name that is not empty",
            )
        chosen = self._chosen(call)
        if name not in chosen and len(chosen) >= self._most_names:
            raise LimitReached(
                f"you use {counted(len(chosen), 'notebook')} already", hint="unuse_notebook lets go of one"
            )

    def use(self, call: Call, name: str, path: NotebookPath) -> NotebookPath | None:
        """Make this the caller's current notebook. Returns the path that the name had before."""
        self.check(call, name)
        chosen = self._chosen_or_new(call)
        before = chosen.pop(name, None)
        chosen[name] = path
        return before

    def let_go(self, call: Call, name: str) -> InUse:
        """Forget a name. If it was current, the choice before it is current again."""
        self.named(call, name)
        return InUse(name, self._chosen(call).pop(name))

    def named(self, call: Call, name: str) -> InUse:
        """The notebook that the caller uses under this name."""
        chosen = self._chosen(call)
        if name not in chosen:
            similar_name = nearest(name, list(chosen))
            suggestion = f"did you mean {similar_name!r}?" if similar_name else f"yours: {', '.join(chosen) or 'none'}"
            raise NotFound(
                f"you use no notebook named {name[:MAX_NAME_CHARACTERS]!r}",
                hint=f"{suggestion}; use_notebook with notebook_path begins with one",
            )
        return InUse(name, chosen[name])

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
        if name_or_path not in self._chosen(call) and name_or_path.endswith(".ipynb"):
            return NotebookPath(name_or_path)
        return self.named(call, name_or_path).path

    def _chosen(self, call: Call) -> Chosen:
        """The caller's choices. Looking them up counts as use, so that a busy caller is not forgotten."""
        sessions = self._choices.get(call.principal.id)
        if sessions is None or call.session not in sessions:
            return {}
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
        sessions.setdefault(call.session, {})
        return self._chosen(call)


def _make_room(entries: dict[str, Chosen] | dict[str, dict[str, Chosen]], limit: int) -> None:
    while len(entries) >= limit:
        del entries[next(iter(entries))]
