"""The values that the log keeps in the metadata store."""

import msgspec

from headwater.meta.values import Value

INLINE = 0
"""The chunk travels in the index entry itself."""
WAL = 1
"""The chunk is a part of a WAL object."""
PARQUET = 2
"""The records are the rows of a Parquet file, a data file of the topic's table."""
SEGMENT = 3
"""The batches are in a ``.kfs`` file, byte for byte, with a sparse ``.index`` beside it."""
HOLE = 4
"""The offsets were given out and their records were lost with the metadata store. Readers are taken
past them; no object stands behind the entry."""
OBJECTLESS = (INLINE, HOLE)
"""The kinds of entries that no object stands behind."""


class ProducerState(msgspec.Struct, array_like=True):
    """What a stream remembers of an idempotent producer."""

    epoch: int
    seen_ms: int
    batches: list[tuple[int, int, int]]
    """(first sequence, last sequence, first offset) of its last five batches, oldest first."""
    transaction_start: int = -1
    coordinator_epoch: int = -1


class Tail(Value):
    """A stream's end, compared and set by every append. An absent tail is an empty stream."""

    high_watermark: int = 0
    last_stable: int = 0
    """Where stable records end; ``judge`` sets it by the rules in ``open_transactions``."""
    size: int = 0
    """Bytes produced so far; it never shrinks."""
    deleted: bool = False
    producers: dict[int, ProducerState] = msgspec.field(default_factory=dict)


class Layout(Value):
    """A stream's arrangement below its end, compared and set by trims and swaps."""

    log_start: int = 0
    generation: int = 0
    """Grows with every change of the index other than an append."""
    trimmed_size: int = 0
    """The stream's running size at the end of the last index entry that was removed."""
    restores: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """(leader epoch, its first offset) of each restore: what was read below that offset under an
    older epoch still holds."""


class IndexEntry(Value):
    """Where the records of ``[start, end)`` are; the end stands in the key."""

    start: int
    end: int
    kind: int
    length: int
    """Bytes of the chunk; of the whole file where the kind is PARQUET or SEGMENT."""
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
    """The chunk's batches, by number, that the commit refused or found to be duplicates."""
    data: bytes | None = None
    """The chunk itself where the kind is INLINE."""
    set_aside: str = ""
    """Why the pipeline left this entry as it is; empty where it did not."""
    delete_horizon_ms: int = 0
    """A file of a compacted topic that was cleaned: its tombstones stay until then; -1 where it
    has none. 0: it was not cleaned yet."""


AT_THE_END = -1


class StreamCommit(msgspec.Struct, array_like=True):
    """What a commit did to one stream.

    Invariant: ``last_stable`` is at most ``end``. Releases of feature level 2 neither write nor
    read it, which is right while no transaction is open: it is at ``end`` then.
    """

    stream: int
    verdicts: list[tuple[int, int, int]]
    """(batch number, error code, offset) of the batches that were not appended."""
    start: int
    end: int
    entry: bytes | None
    """The encoded index entry, without inline data; None where nothing was appended."""
    last_stable: int = AT_THE_END
    """The stream's last stable offset after the commit."""

    def __post_init__(self) -> None:
        if self.last_stable == AT_THE_END:
            self.last_stable = self.end


class Incarnation(Value):
    """An incarnation's last commit: watchers follow it, and it settles unknown outcomes."""

    broker: int
    number: int = 0
    growing: str = ""
    """The object that its commits add to, where objects grow; those before it are complete."""
    section: tuple[str, int, int] = ("", 0, 0)
    """The last section that it committed, from feature level 2 on: the object's key, where the
    section begins in it, and how many of its chunks are committed."""
    streams: list[StreamCommit] = msgspec.field(default_factory=list)


GROWING = 0
ADOPTED = 0
"""Who holds an object with records that a restore found no place for: no stream has this number."""


class ObjectRecord(Value):
    """One committed part of an object and which streams' chunks in it are still referenced."""

    size: int
    parts: int
    """How many parts the object has at least; GROWING while its incarnation may add to it."""
    live: list[int]
    created_ms: int


class Release(Value):
    """Chunks that lost their index entry: (object key, part, stream) each."""

    chunks: list[tuple[str, int, int]]
    released_ms: int
    stream: int = 0
    """Whose entries they were; 0 where they never had any."""
    end: int = 0
    """The end of the last of those entries."""


class Pin(Value):
    """A reader outside the brokers: what a stream holds from ``low`` on is kept for it."""

    low: int
    expires_ms: int


class TopicRecord(Value):
    """A topic; its streams' ids by partition."""

    id: bytes
    streams: list[int]
    configs: dict[str, str]
    domain: int = 0


class DeletedTopic(Value):
    """A topic whose record is gone and whose streams are still to be cleaned up."""

    name: str
    streams: list[int]
    domain: int = 0
