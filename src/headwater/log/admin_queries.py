"""What administrators ask of streams: sizes, producers, ends of epochs.

Read from the metadata store page by page, so that a query over very many streams neither sends a
request for each nor blocks the event loop.
"""

from collections.abc import Collection, Mapping, Sequence

from headwater.engine import Producer
from headwater.errors import KafkaStorageError, StoreError, UnknownTopicOrPartition
from headwater.log.formats.metadata_values import Layout, Tail
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import Entry, MetadataStore
from headwater.meta.values import decode

PAGE = 500
MAX_SINGLE_READS = 50
"""Up to this number streams are read one by one. Above it all streams are read in pages."""


async def stored_sizes(meta: MetadataStore, streams: Collection[int]) -> Mapping[int, int]:
    """The produced bytes in each stream; empty streams may be left out."""
    try:
        if len(streams) <= MAX_SINGLE_READS:
            tails = await _each(meta, [keys.tail(0, stream) for stream in streams])
            layouts = await _each(meta, [keys.layout(0, stream) for stream in streams])
        else:
            tails = [entry async for entry in scan_all(meta, keys.tails(0), page=PAGE)]
            layouts = [entry async for entry in scan_all(meta, keys.layouts(0), page=PAGE)]
    except StoreError as error:
        raise KafkaStorageError(f"cannot read the streams' sizes: {error}") from error
    trimmed = {_stream(entry): decode(Layout, entry.value).trimmed_size for entry in layouts}
    wanted = set(streams)
    return {
        stream: decode(Tail, entry.value).size - trimmed.get(stream, 0)
        for entry in tails
        if (stream := _stream(entry)) in wanted
    }


async def remembered_producers(meta: MetadataStore, stream: int) -> Sequence[Producer]:
    """The idempotent producers of a stream, by id."""
    try:
        entry = await meta.get(keys.tail(0, stream))
    except StoreError as error:
        raise KafkaStorageError(f"cannot read the stream's producers: {error}") from error
    tail = Tail() if entry is None else decode(Tail, entry.value)
    if tail.deleted:
        raise UnknownTopicOrPartition("the topic was deleted")
    return [
        Producer(
            id=producer_id,
            epoch=state.epoch,
            last_sequence=state.batches[-1][1] if state.batches else -1,
            last_append_ms=state.seen_ms,
            transaction_start=state.transaction_start,
            coordinator_epoch=state.coordinator_epoch,
        )
        for producer_id, state in sorted(tail.producers.items())
    ]


async def epoch_end(meta: MetadataStore, stream: int, epoch: int) -> int:
    """The offset below which records that were read under a leader epoch are still the same.

    That is the end of the stream, or the lowest offset at which a later restore began.
    """
    try:
        tail = await meta.get(keys.tail(0, stream))
        layout = await meta.get(keys.layout(0, stream))
    except StoreError as error:
        raise KafkaStorageError(f"cannot read the stream's bounds: {error}") from error
    end = 0 if tail is None else decode(Tail, tail.value).high_watermark
    restores = [] if layout is None else decode(Layout, layout.value).restores
    return min([end, *(start for later, start in restores if later > epoch)])


async def _each(meta: MetadataStore, names: Sequence[str]) -> list[Entry]:
    return [entry for name in names if (entry := await meta.get(name)) is not None]


def _stream(entry: Entry) -> int:
    return int(entry.key.rpartition("/")[2])
