"""Retention by time and size: which offset a stream's log should start at.

Whole index entries are kept or dropped, oldest first, as Kafka does with segments.
"""

from collections.abc import AsyncIterator

from headwater.log.formats.metadata_values import IndexEntry

UNLIMITED = -1


async def retained_from(
    entries: AsyncIterator[IndexEntry],
    *,
    size: int,
    retention_ms: int,
    retention_bytes: int,
    now_ms: int,
) -> int:
    """The end of the last entry that exceeds a limit; 0 if there is none.

    ``size`` is the stream's running size. An entry is removed if its newest record is older than
    ``retention_ms`` (or its commit, if no record has a timestamp), or if the entries after it have
    at least ``retention_bytes``.
    """
    start = 0
    async for entry in entries:
        newest = entry.max_timestamp if entry.max_timestamp >= 0 else entry.created_ms
        too_old = retention_ms != UNLIMITED and newest < now_ms - retention_ms
        too_much = retention_bytes != UNLIMITED and size - entry.size >= retention_bytes
        if not (too_old or too_much):
            break
        start = entry.end
    return start
