"""Reading a range of keys that may be longer than fits into memory."""

from collections.abc import AsyncGenerator
from typing import Final

from headwater.meta.store import Entry, MetadataStore, prefix_end

PAGE: Final = 100


async def scan_all(
    meta: MetadataStore, start: str, end: str | None = None, *, page: int = PAGE
) -> AsyncGenerator[Entry, None]:
    """Every entry with ``start <= key < end`` in key order; without an end, all below a prefix.

    ``page`` entries are read at a time, each page as it is when it is read: what changes behind
    the last entry meanwhile is seen, unlike with ``MetadataStore.scan_pages``.
    """
    end = prefix_end(start) if end is None else end
    while True:
        found = (await meta.scan(start, end, limit=page)).entries
        for entry in found:
            yield entry
        if len(found) < page:
            return
        start = found[-1].key + "\0"
