"""What each connection was shown last. Calls that are sent together know nothing of each other's answers."""

from collections import OrderedDict, deque
from collections.abc import Callable

from cellwright.core.turns import MOMENTS, Turn
from cellwright.core.types import Call

REMEMBERED_CONNECTIONS = 256
REMEMBERED_FORGOTTEN = 10_000
"""Connections of which it is remembered that what they were shown is not."""
REMEMBERED_ANSWERS = 64
"""Of one connection: so many calls may be under way at once."""


class LastShown:
    """For each connection the name of what it was shown last. What a call shows counts for later calls once its answer goes out."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, deque[tuple[int, str]]] = OrderedDict()
        self._under_way: dict[Turn, list[Callable[[], str]]] = {}
        self._names: dict[Turn, str] = {}
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def note(self, call: Call, name: str, count_as: Callable[[], str] | None = None) -> None:
        """The answer of this call shows this. `count_as` gives, when it goes out, the name of what the connection knows by then."""
        turn, counted = call.turn, count_as or (lambda: name)
        if turn is None:
            self._count(call.session, counted())
            return
        if turn not in self._under_way:
            self._under_way[turn] = []
            turn.at_end(lambda answered: self._end(turn, call.session, answered=answered))
        self._under_way[turn].append(counted)
        self._names[turn] = name

    def of(self, call: Call) -> str | None:
        """What the caller was shown last when it made this call: by the call itself, or by an answer before it."""
        if call.turn is None:
            return self.latest(call.session)
        return self._names.get(call.turn) or self._before(call.session, call.turn.began)

    def surely_of(self, call: Call) -> str | None:
        """The same, without the answers to calls that were sent together with this one: the caller may not have had them."""
        if call.turn is None or call.turn in self._names:
            return self.of(call)
        return self._before(call.session, call.turn.batch_began)

    def _before(self, session: str, moment: int) -> str | None:
        answers = self._answers.get(session, ())
        return next((name for answered, name in reversed(answers) if answered < moment), None)

    def latest(self, session: str) -> str | None:
        """What the connection was shown last, by answers that have gone out."""
        answers = self._answers.get(session)
        return answers[-1][1] if answers else None

    def is_forgotten(self, call: Call) -> bool:
        """Whether something was shown before this call, and it is not remembered what."""
        return call.session in self._forgotten or len(self._answers.get(call.session, ())) == REMEMBERED_ANSWERS

    @property
    def needed(self) -> set[str]:
        """The last of each connection, and of each call that is under way."""
        return {answers[-1][1] for answers in self._answers.values()} | {*self._names.values()}

    def _end(self, turn: Turn, session: str, *, answered: bool) -> None:
        del self._names[turn]
        names = [counted() for counted in self._under_way.pop(turn) if answered]
        if names:
            self._count(session, names[-1])

    def _count(self, session: str, name: str) -> None:
        answers = self._answers.setdefault(session, deque(maxlen=REMEMBERED_ANSWERS))
        answers.append((next(MOMENTS), name))
        self._answers.move_to_end(session)
        self._forgotten.pop(session, None)
        if len(self._answers) > REMEMBERED_CONNECTIONS:
            forgotten, _ = self._answers.popitem(last=False)
            self._forgotten[forgotten] = None
        if len(self._forgotten) > REMEMBERED_FORGOTTEN:
            self._forgotten.popitem(last=False)
