"""What handlers answer with.

Most answer with plain nested dicts whose names are those of the protocol's fields: what a
version does not have is left out, and what a handler does not give gets the field's default,
so that a handler is written once for all versions. The hot path answers with ``Encoded``.
"""

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from headwater.wire.encoder import Segments, encode_values

Values = dict[str, Any]
"""A reply: field names to values, nested by dicts and sequences."""


class Encoded(ABC):
    """A reply of the hot path, which is written without going through names."""

    __slots__ = ()

    throttle_ms: int = 0
    """How long the handler wants the client to wait."""

    @abstractmethod
    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        """The whole frame, which tells the client to wait for ``throttle_ms``."""


Reply = Values | Encoded


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
