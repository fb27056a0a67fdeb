"""The values that the log keeps in the metadata store."""

import msgspec

from headwater.meta.values import Value

INLINE = 0
"""The chunk is in the index entry itself."""
WAL = 1
"""The chunk is a part of a WAL object."""
PARQUET = 2
"""The records are the rows of a Parquet file, a data file of the topic's table."""
SEGMENT = 3
"""The batches are in a ``.kfs`` file, byte for byte, with a sparse ``.index`` beside it."""
HOLE = 4
"""The records of these offsets were lost with the metadata store. Readers skip them; the entry has
no object."""
OBJECTLESS = (INLINE, HOLE)
"""The kinds of entries without an object."""


class ProducerState(msgspec.Struct, array_like=True):
    """What a stream remembers of an idempotent producer."""

    epoch: int
    seen_ms: int
    batches: list[tuple[int, int, int]]
    """(first sequence, last sequence, first offset) of its last five batches, oldest first."""
    transaction_start: int = -1
    coordinator_epoch: int = -1


class Tail(Value):
    """A stream's end, compared and set by every append. A stream without a tail is empty."""

    high_watermark: int = 0
    last_stable: int = 0
    """Where stable records end; ``judge`` sets it by the rules in ``open_transactions``."""
    size: int = 0
    """Bytes produced so far; it never decreases."""
    deleted: bool = False
    producers: dict[int, ProducerState] = msgspec.field(default_factory=dict)


class Layout(Value):
    """A stream's arrangement below its end, compared and set by trims and swaps."""

    log_start: int = 0
    generation: int = 0
    """Incremented by every change of the index except appends."""
    trimmed_size: int = 0
    """The stream's running size at the end of the last index entry that was removed."""
    restores: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """(leader epoch, its first offset) of each restore. Records below that offset that were read
    under an older epoch are still the same."""


class IndexEntry(Value):
    """Where the records of ``[start, end)`` are; the end is in the key."""

    start: int
    end: int
    kind: int
    length: int
    """Bytes of the chunk, or of the whole file if the kind is PARQUET or SEGMENT."""
    size: int
    """The stream's running size at ``end``."""
    max_timestamp: int
    created_ms: int
    """When its last record was committed."""
    store: str = ""
    key: str = ""
    part: int = 0
    """Which of the object's commits holds the chunk."""
    position: int = 0
    """Where the chunk begins in its object."""
    blocks: tuple[int, int] = (0, 0)
    """Position and number of the chunk's block index in its object."""
    left_out: list[int] = msgspec.field(default_factory=list)
    """Numbers of the chunk's batches that the commit refused or found to be duplicates."""
    data: bytes | None = None
    """The chunk itself if the kind is INLINE."""
    set_aside: str = ""
    """Why the pipeline put this entry in quarantine; empty if it did not."""
    delete_horizon_ms: int = 0
    """Of a file after key compaction: until when its tombstones stay; -1 if it has none. 0 before
    key compaction."""


AT_THE_END = -1


class StreamCommit(msgspec.Struct, array_like=True):
    """What a commit did to one stream.

    Invariant: ``last_stable`` is at most ``end``. Releases of feature level 2 neither write nor
    read it. That is correct while no transaction is open, because then it equals ``end``.
    """

    stream: int
    verdicts: list[tuple[int, int, int]]
    """(batch number, error code, offset) of the batches that were not appended."""
    start: int
    end: int
    entry: bytes | None
    """The encoded index entry, without inline data; None if nothing was appended."""
    last_stable: int = AT_THE_END
    """The stream's last stable offset after the commit."""

    def __post_init__(self) -> None:
        if self.last_stable == AT_THE_END:
            self.last_stable = self.end


class Incarnation(Value):
    """An incarnation's last commit. Other brokers watch it, and it resolves unknown outcomes."""

    broker: int
    number: int = 0
    growing: str = ""
    """The growing object that its commits append to; its earlier objects are complete."""
    section: tuple[str, int, int] = ("", 0, 0)
    """The last section that it committed, from feature level 2 on: the object's key, where the
    section begins in it, and how many of its chunks are committed."""
    streams: list[StreamCommit] = msgspec.field(default_factory=list)


GROWING = 0
ADOPTED = 0
"""Pseudo stream of an object with records that a restore could not place."""


class ObjectRecord(Value):
    """One committed part of an object, and the streams whose chunks in it are still used."""

    size: int
    parts: int
    """Least number of the object's parts; GROWING while its incarnation may add to it."""
    live: list[int]
    created_ms: int


class Release(Value):
    """Chunks that lost their index entry: (object key, part, stream) each."""

    chunks: list[tuple[str, int, int]]
    released_ms: int
    stream: int = 0
    """The stream of the entries; 0 if there were none."""
    end: int = 0
    """The end of the last of those entries."""


class Pin(Value):
    """A reader outside the brokers, for which the stream is kept from offset ``low`` on."""

    low: int
    expires_ms: int


class TopicRecord(Value):
    """A topic; its streams' ids by partition."""

    id: bytes
    streams: list[int]
    configs: dict[str, str]
    domain: int = 0


class DeletedTopic(Value):
    """A topic whose record is deleted and whose streams are not cleaned up yet."""

    name: str
    streams: list[int]
    domain: int = 0
