"""Entities from bytes that a peer chose: the one door to kio's native reader.

The native reader trusts the lengths that it is given, so each payload is walked first
(``request_guard``). Whatever the bytes are, the outcome is an entity or ``MalformedRequest``.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from headwater.errors import MalformedRequest
from headwater.wire.messages.request_guard import (
    MAX_ELEMENTS,
    Buffer,
    compile_walk,
    without_unknown_tags,
)

BREACHES: Final = (
    SerialError,
    struct.error,
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
)
"""What reading past the end, wrong UTF-8 and impossible times raise in the readers."""


Reader = Callable[[Buffer, int], Any]
"""From a buffer and a position in it to the entity that starts there."""


def guarded_reader(entity_type: Any, max_elements: int = MAX_ELEMENTS) -> Reader:
    """The reader of one version of an entity; it raises nothing but ``MalformedRequest``.

    An entity with more than ``max_elements`` in all of its arrays is malformed.

    Bytes behind the entity are ignored, as in Kafka: librdkafka's Metadata request for all
    topics has three of them.
    """
    walk = compile_walk(entity_type, max_elements)
    build = entity_reader(entity_type)

    def read(data: Buffer, position: int) -> Any:
        try:
            _end, has_unknown_tags = walk(data, position)
            if has_unknown_tags:
                data, position = without_unknown_tags(entity_type, data, position), 0
            return build(data, position)[0]
        except BREACHES as error:
            raise MalformedRequest(f"{type(error).__name__}: {error}") from error

    return read
