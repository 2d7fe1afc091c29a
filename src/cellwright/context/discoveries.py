"""Discoveries as rows. The same finding in other words counts as one discovery that was recorded twice."""

import re
import secrets
from collections.abc import Sequence

from cellwright.context.model import Discovery, DiscoveryType
from cellwright.context.relevance import Use
from cellwright.context.sessions import as_float, as_int
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
"""Words that change what a sentence says, as numbers do; `t` is the end of don't and can't."""
COLUMNS = "id, type, content, module, solution, session, created, updated, times"
SELECT = (
    "SELECT d.id, d.type, d.content, d.module, d.solution, d.session, d.created, d.updated, d.times, COALESCE(u.archived, 0) "
    "FROM context_discoveries d LEFT JOIN context_uses u ON u.project = d.project AND u.item = 'discovery:' || d.id WHERE d.project = ?"
)


def words(text: str) -> frozenset[str]:
    every_word = frozenset(word.casefold() for word in _WORD.findall(text))
    return every_word - SMALL_WORDS or every_word


def alike(text: str, second_text: str) -> bool:
    """Whether two texts say the same: they have nearly all words in common and differ in no decisive one."""
    text_words, second_words = words(text), words(second_text)
    if not text_words or not second_words:
        return text.strip() == second_text.strip()
    if any(word in DECISIVE or word.isdigit() for word in text_words ^ second_words):
        return False
    return len(text_words & second_words) / len(text_words | second_words) >= SAME


def list_all(tx: Transaction, project: str, kind: str = "", module: str = "") -> list[Discovery]:
    """Newest first."""
    sql, values = SELECT, [project]
    if kind:
        sql, values = f"{sql} AND d.type = ?", [*values, kind]
    if module:
        sql, values = f"{sql} AND d.module = ?", [*values, module]
    return [_discovery(row) for row in tx.rows(f"{sql} ORDER BY d.updated DESC, d.id", *values)]


def record(tx: Transaction, project: str, draft: Discovery, now: float) -> tuple[Discovery, bool]:
    """Add a discovery, or count it on one that says the same. Returns the discovery and whether it was merged."""
    candidates = tx.rows(
        f"{SELECT} AND d.type = ? AND d.module = ? ORDER BY d.updated DESC LIMIT ?",
        project,
        draft.type.value,
        draft.module,
        MOST_COMPARED,
    )
    recorded = (_discovery(row) for row in candidates)
    same = next((discovery for discovery in recorded if alike(discovery.content, draft.content)), None)
    if same is None:
        discovery_id = draft.id or secrets.token_hex(8)
        tx.run(
            f"INSERT INTO context_discoveries (project, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            project, discovery_id, draft.type.value, draft.content, draft.module, draft.solution, draft.session, now, now, 1,
        )  # fmt: skip
    else:
        discovery_id = same.id
        tx.run(
            "UPDATE context_discoveries SET updated = ?, times = times + 1, solution = ? WHERE project = ? AND id = ?",
            now,
            draft.solution or same.solution,
            project,
            discovery_id,
        )
    row = tx.rows(f"{SELECT} AND d.id = ?", project, discovery_id)[0]
    return _discovery(row), same is not None


def count_use(tx: Transaction, project: str, items: Sequence[str], now: float) -> None:
    """Count a use of each item. An item that is used is no longer archived."""
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
        str(item): Use(str(item), as_int(accesses), as_float(last), bool(archived))
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
    discovery_id, kind, content, module, solution, session, created, updated, times, archived = row
    return Discovery(
        str(discovery_id), DiscoveryType(str(kind)), str(content), str(module), str(solution), str(session),
        as_float(created), as_float(updated), as_int(times), bool(archived),
    )  # fmt: skip
