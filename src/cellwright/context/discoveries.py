"""What was learnt, as rows. The same thing said twice in other words is one discovery, found twice."""

import re
import secrets
from collections.abc import Sequence

from cellwright.context.model import Discovery, DiscoveryType
from cellwright.context.relevance import Use
from cellwright.storage.database import Transaction
from cellwright.storage.values import Row

SAME = 0.8
"""The share of words in common from which two texts say the same."""
MOST_COMPARED = 2_000
_WORD = re.compile(r"\w+")
SMALL_WORDS = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "must", "of", "on", "or", "should", "that", "the",
     "this", "to", "use", "we", "with"]
)  # fmt: skip
DECISIVE = frozenset(
    ["always", "before", "after", "cannot", "except", "false", "never", "no", "none", "not", "only", "t", "true", "unless", "without"]
)  # fmt: skip
"""Words with which a sentence says something else than without them; `t` is what is left of don't and can't. So does a number."""
COLUMNS = "id, type, content, module, solution, session, created, updated, times"
SELECT = (
    "SELECT d.id, d.type, d.content, d.module, d.solution, d.session, d.created, d.updated, d.times, COALESCE(u.archived, 0) "
    "FROM context_discoveries d LEFT JOIN context_uses u ON u.project = d.project AND u.item = 'discovery:' || d.id WHERE d.project = ?"
)


def words(text: str) -> frozenset[str]:
    found = frozenset(word.casefold() for word in _WORD.findall(text))
    return found - SMALL_WORDS or found


def alike(one: str, other: str) -> bool:
    """Whether two texts say the same: word for word but for spelling, or nearly all words in common."""
    first, second = words(one), words(other)
    if not first or not second:
        return one.strip() == other.strip()
    if any(word in DECISIVE or word.isdigit() for word in first ^ second):
        return False
    return len(first & second) / len(first | second) >= SAME


def list_all(tx: Transaction, project: str, kind: str = "", module: str = "") -> list[Discovery]:
    """Newest first."""
    sql, values = SELECT, [project]
    if kind:
        sql, values = f"{sql} AND d.type = ?", [*values, kind]
    if module:
        sql, values = f"{sql} AND d.module = ?", [*values, module]
    return [_discovery(row) for row in tx.rows(f"{sql} ORDER BY d.updated DESC, d.id", *values)]


def record(tx: Transaction, project: str, draft: Discovery, now: float) -> tuple[Discovery, bool]:
    """Add a discovery, or count it on one that says the same. Whether it was merged."""
    known = tx.rows(
        f"{SELECT} AND d.type = ? AND d.module = ? ORDER BY d.updated DESC LIMIT ?",
        project,
        draft.type.value,
        draft.module,
        MOST_COMPARED,
    )
    same = next((one for one in map(_discovery, known) if alike(one.content, draft.content)), None)
    if same is None:
        made = draft.id or secrets.token_hex(8)
        tx.run(
            f"INSERT INTO context_discoveries (project, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            project, made, draft.type.value, draft.content, draft.module, draft.solution, draft.session, now, now, 1,
        )  # fmt: skip
        found = tx.rows(f"{SELECT} AND d.id = ?", project, made)[0]
        return _discovery(found), False
    tx.run(
        "UPDATE context_discoveries SET updated = ?, times = times + 1, solution = ? WHERE project = ? AND id = ?",
        now,
        draft.solution or same.solution,
        project,
        same.id,
    )
    return _discovery(tx.rows(f"{SELECT} AND d.id = ?", project, same.id)[0]), True


def count_use(tx: Transaction, project: str, items: Sequence[str], now: float) -> None:
    """An item that is used is no longer archived."""
    for item in items:
        tx.run(
            "INSERT INTO context_uses (project, item, accesses, last, archived) VALUES (?, ?, 1, ?, 0) ON CONFLICT (project, item) "
            "DO UPDATE SET accesses = context_uses.accesses + 1, last = excluded.last, archived = 0",
            project,
            item,
            now,
        )


def uses(tx: Transaction, project: str) -> dict[str, Use]:
    rows = tx.rows("SELECT item, accesses, last, archived FROM context_uses WHERE project = ?", project)
    return {
        str(item): Use(
            str(item), _whole(accesses), float(last) if isinstance(last, int | float) else 0.0, bool(archived)
        )
        for item, accesses, last, archived in rows
    }


def archive(tx: Transaction, project: str, items: Sequence[str]) -> None:
    for item in items:
        tx.run(
            "INSERT INTO context_uses (project, item, accesses, last, archived) VALUES (?, ?, 0, 0.0, 1) ON CONFLICT (project, item) "
            "DO UPDATE SET archived = 1",
            project,
            item,
        )


def _discovery(row: Row) -> Discovery:
    found, kind, content, module, solution, session, created, updated, times, archived = row
    return Discovery(
        str(found), DiscoveryType(str(kind)), str(content), str(module), str(solution), str(session),
        float(created) if isinstance(created, int | float) else 0.0,
        float(updated) if isinstance(updated, int | float) else 0.0,
        _whole(times), bool(archived),
    )  # fmt: skip


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
