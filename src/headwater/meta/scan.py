"""Reads a range of keys that may not fit into memory."""

from collections.abc import AsyncGenerator
from typing import Final

from headwater.meta.store import Entry, MetadataStore, prefix_end

PAGE: Final = 100


async def scan_all(
    meta: MetadataStore, start: str, end: str | None = None, *, page: int = PAGE
) -> AsyncGenerator[Entry, None]:
    """Every entry with ``start <= key < end`` in key order; without ``end``, the prefix ``start``.

    Each page of ``page`` entries is read when it is needed. Unlike ``MetadataStore.scan_pages``,
    this therefore returns changes that are committed between two pages.
    """
    end = prefix_end(start) if end is None else end
    while True:
        found = (await meta.scan(start, end, limit=page)).entries
        for entry in found:
            yield entry
        if len(found) < page:
            return
        start = found[-1].key + "\0"
