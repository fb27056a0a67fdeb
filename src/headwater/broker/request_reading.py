"""Requests as the broker accepts them: like Kafka, bytes after a request's end are let be.

librdkafka's Metadata request for all topics has three of them. ``parse_request`` refuses such a
frame, so it is tried again without them; a request that is well formed pays nothing for that.
"""

import struct
from typing import Any, Final

from kio.index import load_request_schema

from headwater.errors import MalformedRequest
from headwater.wire.api_versions import ApiKey
from headwater.wire.request_guard import compile_walk, skip_tagged_fields
from headwater.wire.requests import Request, parse_request, read_header

_CLIENT_ID: Final = struct.Struct(">h")
_CLIENT_ID_AT: Final = 8


def read_request(frame: memoryview) -> Request:
    """The request at the start of a frame. Raises ``MalformedRequest``."""
    try:
        return parse_request(frame)
    except MalformedRequest:
        end = _end_of_request(frame)
        if end is None:
            raise
        return parse_request(frame[:end])


def _end_of_request(frame: memoryview) -> int | None:
    """Where the request ends if it does so before its frame; None in every other case."""
    header = read_header(frame)
    if header.api_key == ApiKey.PRODUCE:
        return None
    schema: Any = load_request_schema(header.api_key, header.version)
    try:
        (length,) = _CLIENT_ID.unpack_from(frame, _CLIENT_ID_AT)
        position = _CLIENT_ID_AT + 2 + max(0, length)
        if schema.__header_schema__.__flexible__:
            position = skip_tagged_fields(frame, position)
        end, _ = compile_walk(schema)(frame, position)
    except (MalformedRequest, IndexError, struct.error):
        return None
    return end if end < len(frame) else None
