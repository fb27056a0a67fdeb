"""The only access to kio's native reader, for untrusted bytes.

The native reader trusts lengths, so ``request_guard`` validates each payload first. For any bytes
the result is an entity or ``MalformedRequest``.
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
"""Errors of the readers for a read past the end, invalid UTF-8 and impossible timestamps."""


Reader = Callable[[Buffer, int], Any]
"""Reads the entity at a position of a buffer."""


def guarded_reader(entity_type: Any, max_elements: int = MAX_ELEMENTS) -> Reader:
    """The reader of one version of an entity; it raises only ``MalformedRequest``.

    An entity with more than ``max_elements`` in all of its arrays is malformed.

    Bytes after the entity are ignored, as in Kafka: librdkafka's Metadata request for all
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
