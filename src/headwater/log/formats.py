"""The values that the log keeps in the metadata store.

Each is a msgpack map with its format version under ``v``. Fields that this release does not
know are kept and written back; a version that it does not know is refused.
"""

from functools import cache
from typing import Any, ClassVar, TypeVar

import msgspec

from headwater.errors import UnknownFormat

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()

V = TypeVar("V", bound="Value")


class Value(msgspec.Struct, dict=True, omit_defaults=True, kw_only=True):
    """The root of stored values; ``unknown`` holds the fields of newer releases."""

    FORMAT: ClassVar[int] = 1

    @property
    def unknown(self) -> dict[str, Any]:
        kept: dict[str, Any] = self.__dict__.get("unknown", {})
        return kept


def encode(value: Value) -> bytes:
    fields = msgspec.structs.asdict(value) if value.unknown else None
    if fields is not None:
        return _encoder.encode({"v": value.FORMAT, **fields, **value.unknown})
    body = _encoder.encode(value)
    assert 0x80 <= body[0] < 0x8F, "a map of fewer than 15 fields has room for one more"
    return bytes((body[0] + 1, 0xA1, 0x76, value.FORMAT)) + body[1:]


def decode(kind: type[V], data: bytes) -> V:
    """Raises ``UnknownFormat`` when the value was written in a newer format."""
    fields: dict[str, Any] = _decoder.decode(data)
    version = fields.pop("v")
    if version != kind.FORMAT:
        raise UnknownFormat(
            f"{kind.__name__} has format {version}, this release knows {kind.FORMAT}; "
            "run a newer release of headwater on this data"
        )
    value = msgspec.convert(fields, kind)
    unknown = fields.keys() - _known_fields(kind)
    if unknown:
        value.__dict__["unknown"] = {name: fields[name] for name in unknown}
    return value


@cache
def _known_fields(kind: type[Value]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


INLINE = 0
WAL = 1


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
    size: int = 0
    """Bytes produced so far; it never shrinks."""
    deleted: bool = False
    producers: dict[int, ProducerState] = {}


class Layout(Value):
    """A stream's arrangement below its end, compared and set by trims and swaps."""

    log_start: int = 0
    generation: int = 0
    """Grows with every change of the index other than an append."""


class IndexEntry(Value):
    """Where the records of ``[start, end)`` are; the end stands in the key."""

    start: int
    end: int
    kind: int
    length: int
    """Bytes of the chunk."""
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
    left_out: list[int] = []
    """The chunk's batches, by number, that the commit refused or found to be duplicates."""
    data: bytes | None = None
    """The chunk itself where the kind is INLINE."""


class StreamCommit(msgspec.Struct, array_like=True):
    """What a commit did to one stream."""

    stream: int
    verdicts: list[tuple[int, int, int]]
    """(batch number, error code, offset) of the batches that were not appended."""
    start: int
    end: int
    entry: bytes | None
    """The encoded index entry, without inline data; None where nothing was appended."""


class Incarnation(Value):
    """An incarnation's last commit: watchers follow it, and it settles unknown outcomes."""

    broker: int
    number: int = 0
    growing: str = ""
    """The object that its commits add to, where objects grow; those before it are complete."""
    streams: list[StreamCommit] = []


GROWING = 0


class ObjectRecord(Value):
    """One committed part of an object and which streams' chunks in it are still referenced."""

    size: int
    parts: int
    """How many parts the object has; GROWING while its incarnation may add to it."""
    live: list[int]
    created_ms: int


class Release(Value):
    """Chunks that lost their index entry: (object key, part, stream) each."""

    chunks: list[tuple[str, int, int]]
    released_ms: int


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


class Cluster(Value):
    """The cluster's identity; ``epoch`` is the leader epoch that clients see."""

    id: str
    level: int = 1
    epoch: int = 0


class Counter(Value):
    """The next number to give out."""

    next: int = 0
