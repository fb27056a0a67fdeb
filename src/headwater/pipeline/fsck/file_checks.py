"""Checks of files against the index. Only headers and footers are read."""

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, IndexEntry
from headwater.log.formats.segment import FOOTER, FOOTER_MAGIC, HEADER, parse_index
from headwater.log.formats.segment import MAGIC as SEGMENT_MAGIC
from headwater.log.read.parquet.source import footer_bytes
from headwater.log.reclaim.releases import object_keys
from headwater.objects.store import ObjectStore


async def file_problem(entry: IndexEntry, store: ObjectStore) -> tuple[str | None, int]:
    """A problem of an entry's file, and the number of rows in its footer (-1 if it has none).

    Raises ``StoreError`` if the store fails.
    """
    try:
        if entry.kind == PARQUET:
            return None, await _parquet_rows(entry, store)
        if entry.kind == SEGMENT:
            await _check_segment(entry, store)
    except CorruptMessage as error:
        return str(error), -1
    return None, -1


async def _parquet_rows(entry: IndexEntry, store: ObjectStore) -> int:
    from headwater.log.read.parquet.rows import parse_footer

    footer = parse_footer(await footer_bytes(store, entry), entry)
    notes = footer.metadata.metadata or {}
    stated = tuple(notes.get(name, b"").decode() for name in (b"headwater.start", b"headwater.end"))
    if stated != (str(entry.start), str(entry.end)):
        raise CorruptMessage(
            f"its footer has the range [{stated[0]}, {stated[1]}), and its index entry "
            f"[{entry.start}, {entry.end})"
        )
    rows: int = footer.metadata.num_rows
    return rows


async def _check_segment(entry: IndexEntry, store: ObjectStore) -> None:
    if entry.length < HEADER.size + FOOTER.size:
        raise CorruptMessage(f"{entry.length} bytes are too few for a segment")
    head = HEADER.unpack(await store.get_range(entry.key, 0, HEADER.size))
    foot = FOOTER.unpack(await store.get_range(entry.key, entry.length - FOOTER.size, FOOTER.size))
    if head[0] != SEGMENT_MAGIC or foot[2] != FOOTER_MAGIC:
        raise CorruptMessage("it is not a complete segment: its magic number is wrong")
    if head[3] != entry.start or foot[1] != entry.end - 1:
        raise CorruptMessage(
            f"it has the range [{head[3]}, {foot[1] + 1}), and its index entry "
            f"[{entry.start}, {entry.end})"
        )
    _, index_key = object_keys(SEGMENT, entry.key)
    marks = parse_index(await store.get(index_key))
    fits = marks and marks[0] == (entry.start, HEADER.size)
    inside = all(
        HEADER.size <= position < entry.length - FOOTER.size and entry.start <= offset < entry.end
        for offset, position in marks
    )
    if not fits or not inside or marks != sorted(marks):
        raise CorruptMessage("its .index object does not match it")
