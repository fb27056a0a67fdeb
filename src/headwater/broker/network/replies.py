"""What handlers answer with.

Most answer with plain nested dicts whose names are those of the protocol's fields: what a
version does not have is left out, and what a handler does not give gets the field's default,
so that a handler is written once for all versions. The hot path answers with ``Encoded``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from headwater.wire.messages.encoder import Segments, encode_values
from headwater.work_budget import TURN_ELEMENTS

Values = dict[str, Any]
"""A reply: field names to values, nested by dicts and sequences."""


class Encoded(ABC):
    """A reply of the hot path, which is written without going through names."""

    __slots__ = ()

    throttle_ms: int = 0
    """How long the handler wants the client to wait."""
    rows: int = 0
    """How many topics and partitions it has, if they may be many."""

    @abstractmethod
    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        """The whole frame, which tells the client to wait for ``throttle_ms``."""


Reply = Values | Encoded


class LateRows(Collection[Values]):
    """Entities that are made only when they are written.

    A reply with hundreds of thousands of them would otherwise hold all of them at once.
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


_ARRAYS: Final = frozenset({list, tuple, LateRows})
"""Looked up by exact type: it is done for each value of each reply."""


def is_large(reply: Reply) -> bool:
    """Whether writing it takes longer than one turn of the event loop may."""
    if isinstance(reply, Encoded):
        return reply.rows > TURN_ELEMENTS
    return _rows_left(reply, TURN_ELEMENTS) < 0


def _rows_left(values: Mapping[str, Any], left: int) -> int:
    """``left`` less the entities in ``values``; it stops to count below zero."""
    for value in values.values():
        if type(value) not in _ARRAYS:
            continue
        left -= len(value)
        if left < 0:
            break
        if type(value) is LateRows or not value or type(value[0]) is not dict:
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
    """What stands in place of a reply where Kafka sends none (acks=0)."""

    SILENT = 0
    CLOSE = 1
    """The request failed and the client cannot be told otherwise."""


def encode_reply(
    api_key: int, version: int, correlation_id: int, reply: Reply, throttle_ms: int = 0
) -> Segments:
    """A reply as it goes to the socket; ``version`` is the body's."""
    if isinstance(reply, Encoded):
        return reply.segments(version, correlation_id, throttle_ms)
    if throttle_ms:
        reply = {**reply, "throttle_time": throttle_ms}
    return encode_values(api_key, version, correlation_id, reply)
