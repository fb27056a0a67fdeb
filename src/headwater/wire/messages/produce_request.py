"""Parsing Produce requests without copying records.

Field names are those of kio's entities. Unlike these, ``records`` are views of the frame, a topic
has both ``name`` and ``topic_id`` (one of them None), and the timeout is in milliseconds.
"""

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from headwater.errors import MalformedRequest
from headwater.wire.messages.request_guard import MAX_STRING_BYTES, read_varint, skip_tagged_fields

FIRST_FLEXIBLE: Final = 9
FIRST_WITH_TOPIC_IDS: Final = 13

MAX_ELEMENTS: Final = 20_000
"""Maximum topics and partitions of one request, which the event loop handles in one turn."""

_NO_TOPIC: Final = bytes(16)
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_acks_and_timeout = struct.Struct(">hi").unpack_from


@dataclass(slots=True)
class PartitionProduceData:
    index: int
    records: memoryview | None


@dataclass(slots=True)
class TopicProduceData:
    name: str | None
    topic_id: UUID | None
    partition_data: list[PartitionProduceData]


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData]


def read_produce_request(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """Read the payload from ``position`` to the end of the frame.

    Raises ``MalformedRequest``, ``IndexError``, ``struct.error`` or ``UnicodeDecodeError``.
    """
    reader = _FrameReader(frame, position, flexible=version >= FIRST_FLEXIBLE)
    transactional_id = reader.text()
    acks, timeout_ms = _acks_and_timeout(frame, reader.position)
    reader.position += 6
    topics = []
    for _ in range(reader.count()):
        name = topic_id = None
        if version >= FIRST_WITH_TOPIC_IDS:
            topic_id = reader.uuid()
        else:
            name = reader.text()
            if name is None:
                raise MalformedRequest("a topic has no name")
        partitions = []
        for _ in range(reader.count()):
            (index,) = _int32(frame, reader.position)
            reader.position += 4
            partitions.append(PartitionProduceData(index, reader.records()))
            reader.tags()
        topics.append(TopicProduceData(name, topic_id, partitions))
        reader.tags()
    reader.tags()
    if reader.position != len(frame):
        raise MalformedRequest(f"{len(frame) - reader.position} bytes are left over")
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


class _FrameReader:
    """Reads fields of a frame; lengths are checked against the frame's size."""

    __slots__ = ("_elements", "_flexible", "_frame", "position")

    def __init__(self, frame: memoryview, position: int, *, flexible: bool) -> None:
        self._frame = frame
        self._flexible = flexible
        self._elements = MAX_ELEMENTS
        self.position = position

    def _compact(self) -> int:
        position = self.position
        length = self._frame[position]
        if length < 0x80:
            self.position = position + 1
        else:
            length, self.position = read_varint(self._frame, position)
        return length - 1

    def _take(self, length: int) -> memoryview | None:
        if length < 0:
            if length < -1:
                raise MalformedRequest(f"negative length {length}")
            return None
        start = self.position
        self.position = end = start + length
        if end > len(self._frame):
            raise MalformedRequest(f"length {length} does not fit the request")
        return self._frame[start:end]

    def text(self) -> str | None:
        if self._flexible:
            length = self._compact()
        else:
            (length,) = _int16(self._frame, self.position)
            self.position += 2
        if length > MAX_STRING_BYTES:
            raise MalformedRequest(f"a string of {length} bytes")
        data = self._take(length)
        return None if data is None else str(data, "utf-8")

    def uuid(self) -> UUID | None:
        data = self._take(16)
        return None if data is None or data == _NO_TOPIC else UUID(bytes=bytes(data))

    def _int32_length(self) -> int:
        (length,) = _int32(self._frame, self.position)
        self.position += 4
        return int(length)

    def records(self) -> memoryview | None:
        return self._take(self._compact() if self._flexible else self._int32_length())

    def count(self) -> int:
        count = self._compact() if self._flexible else self._int32_length()
        self._elements -= count
        if count < 0 or count > len(self._frame) - self.position or self._elements < 0:
            raise MalformedRequest(f"an array of {count} elements does not fit the request")
        return count

    def tags(self) -> None:
        if not self._flexible:
            return
        if self._frame[self.position] == 0:
            self.position += 1
        else:
            self.position = skip_tagged_fields(self._frame, self.position)
