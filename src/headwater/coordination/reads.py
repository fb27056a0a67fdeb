"""Reads of a shard's keys that include everything that this broker knows to be written."""

from headwater.errors import StoreUnavailable
from headwater.meta.store import MetadataStore, Scan


async def scan_since(
    meta: MetadataStore, start: str, end: str, min_revision: int, *, limit: int | None = None
) -> Scan:
    """Scan a range; raises ``StoreUnavailable`` if the answer is older than ``min_revision``.

    A deposed server that does not know that it was deposed can give such an answer.
    """
    found = await meta.scan(start, end, limit=limit)
    if found.revision < min_revision:
        raise StoreUnavailable(
            f"the metadata store answered as of revision {found.revision}, "
            f"and {min_revision} is known"
        )
    return found
