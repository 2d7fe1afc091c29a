"""How many bytes a tenant keeps in all pads and their earlier versions: a total that each change keeps true, and its limit."""

from typing import cast

from cellwright.core.errors import LimitReached
from cellwright.scratch.history import forget_until
from cellwright.scratch.model import PadLimits
from cellwright.scratch.rows import CELLS
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction


def weigh(tx: Transaction, key: NotebookKey, more: int, recorded: int, limits: PadLimits) -> None:
    """So many bytes more are in this pad and in its history, or fewer. Over the limit (0: none) the oldest history goes first."""
    limit = limits.total_bytes
    pad = tx.row(
        "UPDATE pads SET bytes = bytes + ? WHERE tenant = ? AND id = ? RETURNING bytes",
        *(more + recorded, key.owner, key.id),
    )
    if pad is not None and 0 < limits.pad_bytes < cast("int", pad[0]) and more > 0:
        _refuse_large(tx, key, limits.pad_bytes)
    row = tx.row("UPDATE tenants SET bytes = bytes + ? WHERE tenant = ? RETURNING bytes", more + recorded, key.owner)
    (total,) = cast("tuple[int]", row)
    if not limit or total <= limit:
        return
    # More than is needed, so that not every change has to look for what is oldest.
    freed = _forget_oldest(tx, key.owner, total - limit + limit // 16)
    tx.run("UPDATE tenants SET bytes = bytes - ? WHERE tenant = ?", freed, key.owner)
    if total - freed > limit and more > 0:
        raise LimitReached(
            f"the pads would have {total - freed} bytes together, more than the limit of --scratch-max-bytes, {limit}",
            hint="delete pads that are not needed any more with scratch_delete",
            details={"limit": limit},
        )


def bytes_of_pad(tx: Transaction, key: NotebookKey) -> int:
    """What is in the pad now, without its earlier versions."""
    row = tx.row(
        "SELECT coalesce(sum(octet_length(description) + octet_length(body)), 0) FROM shared_schemas WHERE tenant = ? AND pad = ?",
        *(key.owner, key.id),
    )
    assert row is not None
    return CELLS.bytes_of(tx, key) + int(cast("int", row[0]))


def _refuse_large(tx: Transaction, key: NotebookKey, limit: int) -> None:
    size = bytes_of_pad(tx, key)
    if size > limit:
        raise LimitReached(
            f"pad {key.id!r} would have {size} bytes, more than the limit of --scratch-max-pad-bytes, {limit}",
            hint="go on in another pad",
            details={"limit": limit},
        )


def _forget_oldest(tx: Transaction, tenant: str, wanted: int) -> int:
    """Forget the oldest changes of all pads of this tenant until so many bytes are free. How many are."""
    last: dict[str, int] = {}
    freed = 0
    for pad, version, size in cast(
        "list[tuple[str, int, int]]",
        tx.rows("SELECT pad, version, bytes FROM pad_changes WHERE tenant = ? ORDER BY at, pad, version", tenant),
    ):
        if freed >= wanted:
            break
        last[pad] = max(version, last.get(pad, 0))
        freed += size
    freed = 0
    for pad, version in last.items():
        size = forget_until(tx, NotebookKey(tenant, pad), version)
        tx.run("UPDATE pads SET bytes = bytes - ? WHERE tenant = ? AND id = ?", size, tenant, pad)
        freed += size
    return freed
