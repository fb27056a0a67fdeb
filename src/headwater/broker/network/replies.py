"""The replies that handlers return.

Most handlers return nested dicts keyed by kio's field names. Fields that a version lacks are
skipped, and missing fields get their defaults, so one handler serves all versions. The handlers
of the hot path return an ``EncodedReply``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from headwater.wire.messages.encoder import Segments, encode_values
from headwater.work_budget import TURN_ELEMENTS

Values = dict[str, Any]
"""A reply: field names to values, nested by dicts and sequences."""


class EncodedReply(ABC):
    """A reply of the hot path, which encodes itself."""

    __slots__ = ()

    throttle_ms: int = 0
    """The throttle time that the handler asks for, in milliseconds."""
    rows: int = 0
    """The number of its topics and partitions, if they may be many."""

    @abstractmethod
    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        """The whole frame, with this throttle time."""


Reply = Values | EncodedReply


class LazyRows(Collection[Values]):
    """Rows of a reply that are built while it is encoded.

    A reply may have hundreds of thousands of rows, which would otherwise be in memory at once.
    """

    __slots__ = ("_count", "_rows")

    def __init__(self, count: int, rows: Callable[[], Iterable[Values]]) -> None:
        self._count = count
        self._rows = rows

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Values]:
        return iter(self._rows())

    def __contains__(self, row: object) -> bool:
        return any(row == own for own in self)


_ARRAYS: Final = frozenset({list, tuple, LazyRows})
"""Compared by exact type, because ``is_large`` looks at each value of each reply."""


def is_large(reply: Reply) -> bool:
    """Whether encoding it would hold the event loop for more than one turn."""
    if isinstance(reply, EncodedReply):
        return reply.rows > TURN_ELEMENTS
    return _rows_left(reply, TURN_ELEMENTS) < 0


def _rows_left(values: Mapping[str, Any], left: int) -> int:
    """``left`` minus the number of rows in ``values``; counting stops below zero."""
    for value in values.values():
        if type(value) not in _ARRAYS:
            continue
        left -= len(value)
        if left < 0:
            break
        if type(value) is LazyRows or not value or type(value[0]) is not dict:
            continue
        for item in value:
            for inner in item.values():
                if type(inner) in _ARRAYS:
                    left = _rows_left(item, left)
                    break
            if left < 0:
                return left
    return left


class NoReply(Enum):
    """In place of a reply: nothing is sent, as in Kafka for acks=0."""

    SILENT = 0
    """The request succeeded."""
    CLOSE = 1
    """The request failed. The connection closes, because no reply can report it."""


def encode_reply(
    api_key: int, version: int, correlation_id: int, reply: Reply, throttle_ms: int = 0
) -> Segments:
    """The frame of a reply, for the socket; ``version`` is the version of its body."""
    if isinstance(reply, EncodedReply):
        return reply.segments(version, correlation_id, throttle_ms)
    if throttle_ms:
        reply = {**reply, "throttle_time": throttle_ms}
    return encode_values(api_key, version, correlation_id, reply)
