"""Reads ranges of keys: page by page, and not older than a known revision."""

from collections.abc import AsyncGenerator
from typing import Final

from headwater.errors import StoreUnavailable
from headwater.meta.store import Entry, MetadataStore, Scan, prefix_end

PAGE: Final = 100


async def scan_all(
    meta: MetadataStore,
    start: str,
    end: str | None = None,
    *,
    page: int = PAGE,
    min_revision: int = 0,
) -> AsyncGenerator[Entry, None]:
    """Every entry with ``start <= key < end`` in key order; without ``end``, the prefix ``start``.

    Each page of ``page`` entries is read when it is needed, by ``scan_since``. Unlike
    ``MetadataStore.scan_pages``, this therefore returns changes that are committed between two
    pages.
    """
    end = prefix_end(start) if end is None else end
    while True:
        found = (await scan_since(meta, start, end, min_revision, limit=page)).entries
        for entry in found:
            yield entry
        if len(found) < page:
            return
        start = found[-1].key + "\0"


async def scan_since(
    meta: MetadataStore, start: str, end: str, min_revision: int, *, limit: int | None = None
) -> Scan:
    """Scan a range; raises ``StoreUnavailable`` if the answer is older than ``min_revision``.

    A server that was deposed as leader and does not know it yet can give such an answer.
    """
    found = await meta.scan(start, end, limit=limit)
    if found.revision < min_revision:
        raise StoreUnavailable(
            f"the metadata store answered with revision {found.revision}, "
            f"but revision {min_revision} is known"
        )
    return found
