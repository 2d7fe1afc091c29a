"""The bytes of a tenant's pads and their earlier versions: totals that each change updates, and their limits."""

from typing import cast

from cellwright.core.errors import LimitReached
from cellwright.scratch.history import forget_until
from cellwright.scratch.model import PadLimits
from cellwright.scratch.rows import CELLS
from cellwright.storage.cells import NotebookKey
from cellwright.storage.database import Transaction


def add_bytes(tx: Transaction, key: NotebookKey, in_pad: int, in_history: int, limits: PadLimits) -> None:
    """Count bytes that were added to a pad and to its history, or removed if negative.

    Over the tenant's limit (0: none) the oldest history is deleted, and if that is not enough, the change is refused.
    """
    limit = limits.total_bytes
    pad = tx.row(
        "UPDATE pads SET bytes = bytes + ? WHERE tenant = ? AND id = ? RETURNING bytes",
        *(in_pad + in_history, key.owner, key.id),
    )
    if pad is not None and 0 < limits.pad_bytes < cast("int", pad[0]) and in_pad > 0:
        size = bytes_of_pad(tx, key)
        if size > limits.pad_bytes:
            raise LimitReached(
                f"pad {key.id!r} would have {size} bytes, more than the limit of --scratch-max-pad-bytes, {limits.pad_bytes}",
                hint="go on in another pad",
                details={"limit": limits.pad_bytes},
            )
    row = tx.row(
        "UPDATE tenants SET bytes = bytes + ? WHERE tenant = ? RETURNING bytes", in_pad + in_history, key.owner
    )
    (total,) = cast("tuple[int]", row)
    if not limit or total <= limit:
        return
    # More is deleted than is needed, so that not every later change has to look for the oldest history.
    freed = _forget_oldest(tx, key.owner, total - limit + limit // 16)
    tx.run("UPDATE tenants SET bytes = bytes - ? WHERE tenant = ?", freed, key.owner)
    if total - freed > limit and in_pad > 0:
        raise LimitReached(
            f"the pads would have {total - freed} bytes together, more than the limit of --scratch-max-bytes, {limit}",
            hint="delete pads that are not needed any more with scratch_delete",
            details={"limit": limit},
        )


def bytes_of_pad(tx: Transaction, key: NotebookKey) -> int:
    """The bytes of the pad as it is now, without its earlier versions."""
    row = tx.row(
        "SELECT coalesce(sum(octet_length(description) + octet_length(body)), 0) FROM shared_schemas WHERE tenant = ? AND pad = ?",
        *(key.owner, key.id),
    )
    assert row is not None
    return CELLS.bytes_of(tx, key) + int(cast("int", row[0]))


def _forget_oldest(tx: Transaction, tenant: str, bytes_to_free: int) -> int:
    """Delete the oldest changes of all pads of this tenant until so many bytes are free. Returns how many are."""
    last_versions: dict[str, int] = {}
    freed = 0
    for pad_id, version, size in cast(
        "list[tuple[str, int, int]]",
        tx.rows("SELECT pad, version, bytes FROM pad_changes WHERE tenant = ? ORDER BY at, pad, version", tenant),
    ):
        if freed >= bytes_to_free:
            break
        last_versions[pad_id] = max(version, last_versions.get(pad_id, 0))
        freed += size
    freed = 0
    for pad_id, version in last_versions.items():
        size = forget_until(tx, NotebookKey(tenant, pad_id), version)
        tx.run("UPDATE pads SET bytes = bytes - ? WHERE tenant = ? AND id = ?", size, tenant, pad_id)
        freed += size
    return freed
