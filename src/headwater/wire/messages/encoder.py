"""Encoding responses, with functions that are compiled once per message version from kio's schema.

kio's writer interprets the schema for every message; these functions do not. Their output equals
kio's byte for byte, which tests check for every response.

A response is given in one of three forms:

- ``encode_response``: one of kio's entities.
- ``encode_values``: nested dicts whose keys are the field names of any version. Fields that a
  version lacks are not written. Missing fields have the schema's default, or are null or empty.
- ``compile_rows``: tuples with a fixed layout, for the responses of the hot path
  (``headwater.wire.messages.replies``), where building other objects costs more than encoding.

In dicts and tuples error codes are integers, times are milliseconds (-1: none), ids are UUIDs or
16 bytes (tuples: bytes), and records are lists of buffers, which become segments of the frame
without a copy. Tuples have no tagged fields. Error messages are cut to the limit of Kafka's
strings.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import Struct
from typing import Any, Final

from kio.index import load_response_schema

from headwater.wire.messages.encoder_compiler import Compiler
from headwater.wire.messages.encoder_forms import Dicts, Entities, Layout, Rows

Segments = list[bytes | memoryview]
"""A frame as a list of pieces to send in order; most responses have one piece.

Records are separate pieces without a copy, and a long response has several pieces."""

_PREFIX: Final = Struct(">ii")
_PREFIX_WITH_TAGS: Final = Struct(">iix")

_Encode = Callable[[Callable[[bytes], None], list[bytes], Segments, Any], None]


def encode_response(correlation_id: int, response: Any) -> bytes:
    """Encode a kio response entity as a frame with length prefix and header."""
    parts: list[bytes] = []
    response_type: Any = type(response)
    _entity_encoder(response_type)(parts.append, parts, [], response)
    body = b"".join(parts)
    return _frame_prefix(response_type, correlation_id, len(body)) + body


def encode_values(
    api_key: int, version: int, correlation_id: int, values: Mapping[str, Any]
) -> Segments:
    """Encode nested dicts as a response frame; raises if a value does not fit its field."""
    return _values_encoder(api_key, version)(correlation_id, values)


def compile_rows(response_type: Any, layout: Layout) -> Callable[[int, Any], Segments]:
    """Compile a function that encodes (correlation id, tuple) as a response frame."""
    return _in_segments(response_type, Compiler(Rows(layout)).compile(response_type))


@cache
def _values_encoder(api_key: int, version: int) -> Callable[[int, Any], Segments]:
    response_type = load_response_schema(api_key, version)
    return _in_segments(response_type, Compiler(Dicts()).compile(response_type))


@cache
def _entity_encoder(entity_type: Any) -> _Encode:
    encode: _Encode = Compiler(Entities()).compile(entity_type)
    return encode


def _in_segments(response_type: Any, encode: _Encode) -> Callable[[int, Any], Segments]:
    def encode_segments(correlation_id: int, message: Any) -> Segments:
        parts: list[bytes] = []
        segments: Segments = []
        encode(parts.append, parts, segments, message)
        if not segments:
            body = b"".join(parts)
            return [_frame_prefix(response_type, correlation_id, len(body)) + body]
        segments.append(b"".join(parts))
        prefix = _frame_prefix(response_type, correlation_id, sum(map(len, segments)))
        segments[0] = prefix + segments[0]
        return segments

    return encode_segments


def _frame_prefix(response_type: Any, correlation_id: int, body_size: int) -> bytes:
    """The length prefix and the response header, in the version that kio names."""
    if response_type.__header_schema__.__flexible__:
        return _PREFIX_WITH_TAGS.pack(body_size + 5, correlation_id)
    return _PREFIX.pack(body_size + 4, correlation_id)
