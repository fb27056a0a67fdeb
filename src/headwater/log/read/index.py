"""Looks up index entries in the metadata store, page by page."""

from collections.abc import AsyncIterator, Callable

from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.streams import Streams, Window
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.values import decode

PAGE = 32

KeepInline = Callable[[int, IndexEntry], None]
"""Called with each inline entry that a look-up finds, to cache its bytes outside of the windows."""


async def entries_between(
    meta: MetadataStore, stream: int, start: int, end: int
) -> AsyncIterator[IndexEntry]:
    """The stored entries that end after ``start`` and not after ``end``, page by page."""
    first, after = keys.index_entry(0, stream, start + 1), keys.index_entry(0, stream, end + 1)
    async for found in scan_all(meta, first, after, page=PAGE):
        yield decode(IndexEntry, found.value)


class IndexReader:
    """Reads streams' offset indexes."""

    def __init__(self, meta: MetadataStore, streams: Streams, keep_inline: KeepInline) -> None:
        self._meta = meta
        self._streams = streams
        self._keep_inline = keep_inline

    async def look_up(self, stream: int, offset: int) -> IndexEntry | None:
        """The entry that holds ``offset``, or None. The entries after it are cached."""
        entries = await self.page(stream, offset)
        for entry in entries:
            if entry.data is not None:
                self._keep_inline(stream, entry)
                entry.data = None
        window = Window(entries)
        self._streams[stream].cold = window
        return window.find(offset)

    async def page(self, stream: int, offset: int, limit: int = PAGE) -> list[IndexEntry]:
        """Up to ``limit`` entries from the one that holds ``offset`` on."""
        found = await self._meta.scan(
            keys.index_entry(0, stream, offset + 1), prefix_end(keys.index(0, stream)), limit=limit
        )
        return [decode(IndexEntry, entry.value) for entry in found.entries]

    async def newest(
        self,
        stream: int,
        offset: int,
        count: int,
        wanted: Callable[[IndexEntry], bool] = lambda _: True,
    ) -> list[IndexEntry]:
        """The last ``count`` entries that reach above ``offset``, in order, without their data.

        Pages are read from the end backwards, until one has no entry that is ``wanted``.
        """
        newest: list[IndexEntry] = []
        start, end = keys.index_entry(0, stream, offset + 1), prefix_end(keys.index(0, stream))
        while len(newest) < count:
            limit = min(PAGE, count - len(newest))
            found = (await self._meta.scan(start, end, limit=limit, reverse=True)).entries
            page = [decode(IndexEntry, stored.value) for stored in found]
            for entry in page:
                entry.data = None
            newest += page
            if len(found) < limit or not any(map(wanted, page)):
                break
            end = found[-1].key
        newest.reverse()
        return newest

    async def entries(self, stream: int, offset: int = 0) -> AsyncIterator[IndexEntry]:
        """Every entry from the one that holds ``offset`` on, page by page."""
        first, after = keys.index_entry(0, stream, offset + 1), prefix_end(keys.index(0, stream))
        async for found in scan_all(self._meta, first, after, page=PAGE):
            yield decode(IndexEntry, found.value)
