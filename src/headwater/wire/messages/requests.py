"""Parsing request frames.

A frame is not trusted: for any bytes the result is a request or one of the documented errors.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from kio.index import KioIndexError, UnknownAPIKey, load_request_schema

from headwater.errors import MalformedRequest, UnknownApi, UnsupportedVersion
from headwater.wire.messages.guarded_reader import BREACHES, guarded_reader
from headwater.wire.messages.produce_request import read_produce_request
from headwater.wire.messages.request_guard import skip_tagged_fields

PRODUCE: Final = 0

_HEADER: Final = struct.Struct(">hhi")
_CLIENT_ID_LENGTH: Final = struct.Struct(">h")


class Header(NamedTuple):
    """The fields at the start of every request of any API and version."""

    api_key: int
    version: int
    correlation_id: int


@dataclass(slots=True)
class Request:
    """One request. ``payload`` is kio's entity; for Produce, one with views of the frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    payload: Any


def read_header(frame: bytes | memoryview) -> Header:
    """Read the header, which has the same fields for every API and version.

    Raises ``MalformedRequest`` if the frame is shorter.
    """
    if len(frame) < _HEADER.size:
        raise MalformedRequest(f"a request of {len(frame)} bytes has no header")
    return Header(*_HEADER.unpack_from(frame))


def parse_request(frame: bytes | memoryview, header: Header | None = None) -> Request:
    """Parse the request in a read-only frame without its length prefix.

    ``header`` is the result of ``read_header``, if the caller has it.
    Raises ``UnknownApi``, ``UnsupportedVersion`` or ``MalformedRequest``. A Produce request's
    records are views of the frame.
    """
    api_key, version, correlation_id = header or read_header(frame)
    read_payload, flexible_header = _reader(api_key, version)
    try:
        client_id, position = _read_client_id(frame)
        if flexible_header:
            if frame[position] == 0:
                position += 1
            else:
                position = skip_tagged_fields(frame, position)
        payload = read_payload(frame, position)
    except MalformedRequest as error:
        raise MalformedRequest(f"API {api_key} version {version}: {error}") from None
    except BREACHES as error:
        reason = f"{type(error).__name__}: {error}"
        raise MalformedRequest(f"API {api_key} version {version}: {reason}") from error
    return Request(api_key, version, correlation_id, client_id, payload)


def _read_client_id(frame: bytes | memoryview) -> tuple[str | None, int]:
    """The client's id, which has the old string format in every header version."""
    start = _HEADER.size + 2
    (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, _HEADER.size)
    if length < 0:
        return None, start
    end = start + length
    if end > len(frame):
        raise MalformedRequest(f"a client id of {length} bytes does not fit the frame")
    return str(frame[start:end], "utf-8"), end


@cache
def _reader(api_key: int, version: int) -> tuple[Callable[[bytes | memoryview, int], Any], bool]:
    """A payload's reader, and whether its header has tagged fields. Schemas load on first use."""
    try:
        schema = load_request_schema(api_key, version)
    except UnknownAPIKey:
        raise UnknownApi(f"no API has key {api_key}") from None
    except KioIndexError:
        raise UnsupportedVersion(f"API {api_key} has no version {version}") from None
    flexible_header = schema.__header_schema__.__flexible__
    if api_key == PRODUCE:
        return _produce_reader(version), flexible_header
    return guarded_reader(schema), flexible_header


def _produce_reader(version: int) -> Callable[[bytes | memoryview, int], Any]:
    def read(frame: bytes | memoryview, position: int) -> Any:
        return read_produce_request(memoryview(frame), position, version)

    return read
