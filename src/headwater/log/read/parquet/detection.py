"""Whether a cluster's log has Parquet files, which brokers read only with the extra ``table``."""

from typing import Final

from headwater.log.formats.metadata_values import PARQUET, IndexEntry, Layout
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.values import decode

_DOMAIN: Final = 0
_PAGE: Final = 500
_FIRST_ENTRIES: Final = 64
"""Compaction begins at the start of a stream; only entries in quarantine stay before its files."""


async def has_parquet_files(meta: MetadataStore) -> bool:
    """Look at the first index entries of every stream whose layout has changed.

    This takes one read for each such stream.
    """
    async for stored in scan_all(meta, keys.layouts(_DOMAIN), page=_PAGE):
        stream = int(stored.key.rpartition("/")[2])
        if decode(Layout, stored.value).generation and await _begins_with_files(meta, stream):
            return True
    return False


async def _begins_with_files(meta: MetadataStore, stream: int) -> bool:
    prefix = keys.index(_DOMAIN, stream)
    first = await meta.scan(prefix, prefix_end(prefix), limit=_FIRST_ENTRIES)
    return any(decode(IndexEntry, entry.value).kind == PARQUET for entry in first.entries)
