"""Serves Parquet files as a part of the log: reads row groups and encodes them as batches.

The footer of a file is read first, with one or two requests. It has the position, the offsets and
the largest timestamp of each row group. A row group is one request and one piece. Recently used
footers stay in memory up to ``FOOTER_BYTES``; pieces are in the piece cache.

Decoding and encoding run off the event loop, ``AT_ONCE`` row groups at a time. Arrow and numba (the
extra ``table``) are imported by ``warm_up`` or when the first Parquet file is read, so a broker
without tables does not load them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar

from cachetools import LRUCache

from headwater.errors import CorruptMessage, KafkaStorageError
from headwater.extras import install_command
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.filler import filler_batches
from headwater.log.read.pieces import Piece, make_spanning_piece
from headwater.log.read.sources import Extent, store_of
from headwater.objects.store import ObjectStore

if TYPE_CHECKING:
    from headwater.log.read.parquet.rows import Footer

logger = logging.getLogger(__name__)

T = TypeVar("T")

FOOTER_GUESS = 64 * 1024
"""Bytes of the end of a file that are read first."""
FOOTER_BYTES = 8 * 1024 * 1024
"""Encoded bytes of cached footers; decoded footers are a few times larger."""
TRAILER = 8
"""A file ends with the length of its footer, in four bytes, and the magic."""
MAGIC = b"PAR1"
AT_ONCE = 2
"""Row groups that are decoded concurrently."""


class Offload(Protocol):
    """Runs a blocking function off the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


def in_thread(function: Callable[[], T]) -> Awaitable[T]:
    """Run a function in the loop's default executor."""
    return asyncio.get_running_loop().run_in_executor(None, function)


class ParquetSource:
    """See ``sources.PieceSource``. Raises ``KafkaStorageError`` if the extra is missing."""

    def __init__(
        self, objects: Mapping[str, ObjectStore], *, leader_epoch: int, offload: Offload
    ) -> None:
        self._objects = objects
        self._leader_epoch = leader_epoch
        self._offload = offload
        # A footer larger than the whole cache replaces all others.
        self._footers: LRUCache[str, Footer] = LRUCache(
            FOOTER_BYTES, getsizeof=lambda footer: min(footer.size, FOOTER_BYTES)
        )
        self._module: ModuleType | None = None
        self._told = False
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def warm_up(self) -> None:
        """Load the libraries, so that the first fetch does not wait for them."""
        rows = await self._rows()
        async with self._at_once:
            await self._offload(rows.warm_up)

    def is_large(self, entry: IndexEntry) -> bool:
        return True

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        return (await self._footer(entry)).extents

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        assert extent is not None
        if extent.row_group < 0:
            batches = filler_batches(extent.start, extent.end)
            return make_spanning_piece(batches, extent.start, extent.end, self._leader_epoch)
        footer = await self._footer(entry)
        store = store_of(self._objects, entry)
        data = await store.get_range(entry.key, extent.position, extent.length)
        rows = await self._rows()
        async with self._at_once:
            return await self._offload(
                partial(rows.read_piece, footer, extent, data, self._leader_epoch)
            )

    async def _footer(self, entry: IndexEntry) -> "Footer":
        known = self._footers.get(entry.key)
        if known is not None:
            return known
        rows = await self._rows()
        tail = await footer_bytes(store_of(self._objects, entry), entry)
        async with self._at_once:
            footer: Footer = await self._offload(partial(rows.parse_footer, tail, entry))
        self._footers[entry.key] = footer
        return footer

    async def _rows(self) -> ModuleType:
        if self._module is None:
            try:
                async with self._at_once:
                    self._module = await self._offload(_import_rows)
            except ImportError as error:
                if not self._told:
                    self._told = True
                    logger.error(  # noqa: TRY400 - the trace adds nothing
                        "Cannot read Parquet files without the extra `table`",
                        extra={"error": error, "install": install_command("table")},
                    )
                raise KafkaStorageError(
                    "this broker cannot read Parquet files: the extra `table` is not installed"
                ) from error
        return self._module


async def footer_bytes(store: ObjectStore, entry: IndexEntry) -> bytearray:
    """The end of a file, at least from the start of its footer on."""
    guess = min(FOOTER_GUESS, entry.length)
    tail = await store.get_range(entry.key, entry.length - guess, guess)
    needed = footer_length(tail, entry)
    if needed > guess:
        tail = await store.get_range(entry.key, entry.length - needed, needed)
    return tail


def footer_length(tail: bytearray, entry: IndexEntry) -> int:
    """Bytes from the start of the footer to the end of the file; ``tail`` is the end of the file.

    Raises ``CorruptMessage`` if the file does not end as a Parquet file does.
    """
    if len(tail) < TRAILER or tail[-len(MAGIC) :] != MAGIC:
        raise CorruptMessage(f"{entry.key} does not end as a Parquet file does")
    needed = int.from_bytes(tail[-TRAILER : -len(MAGIC)], "little") + TRAILER
    if needed > entry.length:
        raise CorruptMessage(f"the footer of {entry.key} is longer than the file")
    return needed


def _import_rows() -> ModuleType:
    from headwater.log.read.parquet import rows as parquet_rows

    return parquet_rows
