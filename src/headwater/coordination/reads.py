"""Reads of a shard's keys that must not be older than what this broker knows to be written."""

from headwater.errors import StoreUnavailable
from headwater.meta.store import MetadataStore, Scan


async def scan_since(
    meta: MetadataStore, start: str, end: str, least: int, *, limit: int | None = None
) -> Scan:
    """Scan a range; ``StoreUnavailable`` where the answer is from before the revision ``least``.

    A server that was deposed and does not know it may answer so.
    """
    found = await meta.scan(start, end, limit=limit)
    if found.revision < least:
        raise StoreUnavailable(
            f"the metadata store answered as of revision {found.revision}, and {least} is known"
        )
    return found
