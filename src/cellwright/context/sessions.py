"""Sessions as rows: written whole by the process they belong to, completed by anybody once that process is gone."""

import json
import os
import socket
from collections.abc import Iterable, Sequence

from cellwright.context.model import SECONDS_A_DAY, Session, SessionStatus, Touched
from cellwright.storage.database import Transaction
from cellwright.storage.values import Row
from cellwright.system import machine

ARCHIVED_AFTER = 30 * SECONDS_A_DAY
COLUMNS = "id, status, started, last, ended, client, calls, failures, discoveries, topics"


def this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def is_gone(process: str) -> bool:
    """Whether a process of this machine has ended. False for processes of other machines, of which nothing is known."""
    host, _, pid = process.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not machine.is_alive(int(pid))


def save(tx: Transaction, project: str, tenant: str, session: Session) -> None:
    """Write a session as it is now, with the places that it touched."""
    tx.run(
        "INSERT INTO context_sessions (project, tenant, id, client, process, status, started, last, ended, calls, failures, discoveries, "
        "topics) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project, tenant, id) DO UPDATE SET status = excluded.status, "
        "last = excluded.last, ended = excluded.ended, calls = excluded.calls, failures = excluded.failures, "
        "discoveries = excluded.discoveries, topics = excluded.topics",
        project,
        tenant,
        session.id,
        session.client,
        this_process(),
        session.status.value,
        session.started,
        session.last,
        session.ended,
        session.calls,
        session.failures,
        session.discoveries,
        json.dumps(session.topics, ensure_ascii=False),
    )
    save_touched(tx, project, tenant, session.id, session.touched)


def save_touched(tx: Transaction, project: str, tenant: str, session: str, touched: Iterable[Touched]) -> None:
    for place in touched:
        tx.run(
            "INSERT INTO context_touched (project, tenant, session, kind, path, uri, count, first, last) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (project, tenant, session, kind, path) DO UPDATE SET count = excluded.count, last = excluded.last",
            project,
            tenant,
            session,
            place.kind,
            place.path,
            place.uri,
            place.count,
            place.first,
            place.last,
        )


def recover(tx: Transaction, project: str, idle: float, now: float) -> int:
    """Complete sessions whose process is gone or that were silent for too long, and archive old ones.

    Returns how many were completed.
    """
    rows = tx.rows(
        "SELECT tenant, id, process, last FROM context_sessions WHERE project = ? AND status = ?",
        project,
        SessionStatus.ACTIVE.value,
    )
    completed = 0
    for tenant, session, process, last in rows:
        own = process == this_process()
        if (not own and is_gone(str(process))) or (isinstance(last, float) and last < now - idle):
            completed += tx.run(
                "UPDATE context_sessions SET status = ?, ended = last WHERE project = ? AND tenant = ? AND id = ?",
                SessionStatus.COMPLETED.value,
                project,
                tenant,
                session,
            )
    tx.run(
        "UPDATE context_sessions SET status = ? WHERE project = ? AND status = ? AND last < ?",
        SessionStatus.ARCHIVED.value,
        project,
        SessionStatus.COMPLETED.value,
        now - ARCHIVED_AFTER,
    )
    return completed


def recent(tx: Transaction, project: str, tenant: str, limit: int) -> list[Session]:
    """The last sessions of a caller, newest first, without the archived ones."""
    rows = tx.rows(
        f"SELECT {COLUMNS} FROM context_sessions WHERE project = ? AND tenant = ? AND status <> ? ORDER BY started DESC, id LIMIT ?",  # noqa: S608
        project,
        tenant,
        SessionStatus.ARCHIVED.value,
        limit,
    )
    return [_session(row, touched(tx, project, tenant, str(row[0]))) for row in rows]


def touched(tx: Transaction, project: str, tenant: str, session: str) -> tuple[Touched, ...]:
    rows = tx.rows(
        "SELECT kind, path, uri, count, first, last FROM context_touched WHERE project = ? AND tenant = ? AND session = ? "
        "ORDER BY count DESC, path",
        project,
        tenant,
        session,
    )
    return tuple(
        Touched(str(kind), str(path), str(uri), as_int(count), as_float(first), as_float(last))
        for kind, path, uri, count, first, last in rows
    )


def _session(row: Row, places: Sequence[Touched]) -> Session:
    session_id, status, started, last, ended, client, calls, failures, discoveries, topics = row
    return Session(
        str(session_id),
        SessionStatus(str(status)),
        as_float(started),
        as_float(last),
        None if ended is None else as_float(ended),
        str(client),
        as_int(calls),
        as_int(failures),
        as_int(discoveries),
        tuple(json.loads(str(topics))),
        tuple(places),
    )


def as_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def as_int(value: object) -> int:
    return value if isinstance(value, int) else 0
