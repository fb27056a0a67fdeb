"""Responses to bytes, by functions compiled once per message version from kio's schema.

kio's own writer walks the schema for every message; these functions have it unrolled. What they
write is kio's output byte for byte, and the tests hold them to it for every response.

A response is given in one of three forms:

- ``encode_response``: one of kio's entities.
- ``encode_values``: nested dicts whose keys are the field names of any version. What a version
  lacks is not written, and what is not given has the schema's default, or is null or empty.
- ``compile_rows``: tuples in a fixed layout, for the replies of the hot path
  (``headwater.wire.messages.replies``), where building anything else costs more than encoding it.

In dicts and tuples error codes are integers, times are milliseconds (-1: none), ids are UUIDs or
16 bytes (tuples: bytes), and records are lists of buffers, which
become segments of the frame without a copy. Tuples never send tagged fields. Error messages are
cut to what Kafka's strings may hold.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import Struct
from typing import Any, Final

from kio.index import load_response_schema

from headwater.wire.messages.encoder_compiler import Compiler
from headwater.wire.messages.encoder_forms import Dicts, Entities, Layout, Rows

Segments = list[bytes | memoryview]
"""A whole frame in pieces, to be sent in order; most responses are one piece.

Records are pieces of their own, uncopied, and a long response is cut into several."""

_PREFIX: Final = Struct(">ii")
_PREFIX_WITH_TAGS: Final = Struct(">iix")

_Encode = Callable[[Callable[[bytes], None], list[bytes], Segments, Any], None]


def encode_response(correlation_id: int, response: Any) -> bytes:
    """A whole response frame, length prefix and header included, of a kio response entity."""
    parts: list[bytes] = []
    response_type: Any = type(response)
    _entity_encoder(response_type)(parts.append, parts, [], response)
    body = b"".join(parts)
    return _frame_prefix(response_type, correlation_id, len(body)) + body


def encode_values(
    api_key: int, version: int, correlation_id: int, values: Mapping[str, Any]
) -> Segments:
    """A whole response frame of nested dicts; raises where a value does not fit its field."""
    return _values_encoder(api_key, version)(correlation_id, values)


def compile_rows(response_type: Any, layout: Layout) -> Callable[[int, Any], Segments]:
    """A function from (correlation id, tuple) to a whole response frame."""
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
    """Length and response header; the header's version is the one that kio names."""
    if response_type.__header_schema__.__flexible__:
        return _PREFIX_WITH_TAGS.pack(body_size + 5, correlation_id)
    return _PREFIX.pack(body_size + 4, correlation_id)
