"""Requests for a fuzzer: lifelike ones, the same with bytes changed, and absurdly large ones.

A lifelike request is made from Kafka's schema. Its names, numbers and ids come from a small set, so
that requests of one session meet in the same topics, groups and members.
"""

import io
import struct
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_writer

from headwater.wire.messages.api_versions import ADVERTISED, LOWEST_SERVED_PRODUCE, ApiKey
from headwater.wire.messages.schema import ENTITY, fields_of
from tests.support.broker.running import batch
from tests.support.wire.entities import entity, primitive

TOPICS = ("orders", "payments", "keyed", "recoded", "missing", "", "é" * 300, "../x", "__consumer")
TOPIC_CONFIGS = {
    "orders": {},
    "keyed": {"cleanup.policy": "compact"},
    "recoded": {"compression.type": "lz4"},
}
"""The topics that a fuzzed broker has beforehand."""
GROUPS = ("readers", "writers", "", "g" * 400)
NAMES = (
    *("readers-1", "", "m" * 70, "range", "uniform", "consumer", "retention.ms", "cleanup.policy"),
    *("1", "-1", "1_000", "compact", "gzip", "9" * 40, "^a.*", "(((((a*)*)*)*)*)$", ".*"),
)
SMALL = (0, 0, 0, 1, 2, 3, 4, -1, -2, 2**31 - 1, -(2**31))
COUNTS = (-(2**31), -2, -1, 0x7F, 0xFFFF, 2**24, 2**31 - 1)
LENGTH = struct.Struct(">H")
ABSURD_ELEMENTS = 20_000


class Mutation(Enum):
    """What happens to a lifelike request before it is sent."""

    NONE = "none"
    BYTES = "bytes"
    CUT = "cut"
    COUNT = "count"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class FuzzedRequest:
    """One request of a session; the same step is the same bytes."""

    api: ApiKey
    version: int
    seed: int
    change: Mutation

    def frame(self) -> bytes:
        """The request with its length before it."""
        chance = Random(self.seed)
        payload = lifelike(self.api, self.version, chance)
        if self.change is Mutation.REPEAT:
            payload = with_repeats(payload, chance)
        data = encode(self.api, self.version, payload)
        data = changed(data, self.change, chance)
        return struct.pack(">i", len(data)) + data


@st.composite
def steps(draw: st.DrawFn) -> FuzzedRequest:
    api = draw(st.sampled_from(sorted(ADVERTISED)))
    lowest, highest = ADVERTISED[api]
    lowest = max(lowest, LOWEST_SERVED_PRODUCE) if api is ApiKey.PRODUCE else lowest
    version = draw(st.integers(lowest, highest))
    seed = draw(st.integers(0, 2**32 - 1))
    # Most are whole: a request that does not parse ends its session.
    change = draw(st.sampled_from([Mutation.NONE] * 12 + list(Mutation)))
    return FuzzedRequest(api, version, seed, change)


def lifelike(api: ApiKey, version: int, chance: Random) -> Any:
    return entity(load_request_schema(api, version), chance, value_of=_value)


def _value(name: str, kind: str, chance: Random) -> Any:
    if chance.random() < 0.1:
        return primitive(kind, chance)
    match kind:
        case "string":
            return chance.choice(_names_for(name))
        case "records":
            return chance.choice(_some_records())
        case "bytes":
            return chance.choice(
                (b"", b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff", b"{}", b"\xff" * 9)
            )
        case "int8" | "int16" | "int32" | "int64":
            bits = int(kind.removeprefix("int"))
            fitting = [each for each in SMALL if -(2 ** (bits - 1)) <= each < 2 ** (bits - 1)]
            return chance.choice(fitting)
        case _:
            return primitive(kind, chance)


def _names_for(field: str) -> tuple[str, ...]:
    if "topic" in field or field in {"name", "resource_name"}:
        return TOPICS
    return GROUPS if "group" in field or field == "key" else (*NAMES, *TOPICS)


@cache
def _some_records() -> tuple[bytes | None, ...]:
    good = batch(b"a", b"b", b"c")
    return (
        *(None, b"", good, good + good, good[:-1], good[:61], b"\0" * 61),
        *(batch(b"x" * 5_000, codec=codec) for codec in range(1, 5)),
        batch(b"a", keyed=False),
        batch(b"\0" * 2**20, codec=4),
    )


def with_repeats(payload: Any, chance: Random) -> Any:
    """The request with one of its arrays repeated many times over."""
    arrays = [
        field.name
        for field in fields_of(_type_of(payload))
        if field.is_array and getattr(payload, field.name)
    ]
    if not arrays:
        return payload
    name = chance.choice(arrays)
    values = getattr(payload, name)
    if chance.random() < 0.5 and fields_of_entities(payload, name):
        return replace(payload, **{name: (with_repeats(values[0], chance), *values[1:])})
    return replace(payload, **{name: values * (ABSURD_ELEMENTS // len(values))})


def _type_of(payload: Any) -> Any:
    return type(payload)


def fields_of_entities(payload: Any, name: str) -> bool:
    """Whether an array of a request holds entities."""
    return any(each.name == name and each.type == ENTITY for each in fields_of(_type_of(payload)))


def encode(api: int, version: int, payload: Any) -> bytes:
    header_type: Any = type(payload).__header_schema__
    header = header_type(
        request_api_key=api, request_api_version=version, correlation_id=7, client_id="fuzz"
    )
    body = io.BytesIO()
    entity_writer(header_type)(body, header)
    entity_writer(type(payload))(body, payload)
    return body.getvalue()


def changed(data: bytes, change: Mutation, chance: Random) -> bytes:
    """Bytes behind the header changed; API and version stay, so that the change is parsed."""
    at = chance.randrange(8, len(data)) if len(data) > 8 else 8
    match change:
        case Mutation.NONE | Mutation.REPEAT:
            return data
        case Mutation.BYTES:
            edited = bytearray(data)
            for _ in range(chance.choice((1, 1, 2, 8))):
                edited[chance.randrange(8, len(data))] = chance.choice((0, 1, 127, 128, 255))
            return bytes(edited)
        case Mutation.CUT:
            return data[:at]
        case Mutation.COUNT:
            count = struct.pack(">i", chance.choice(COUNTS))
            return data[:at] + count + data[at + 4 :]


def frames_in(data: bytes) -> list[bytes]:
    """The requests of an input; a length beyond its end stands for the rest.

    >>> frames_in(input_of([b"ab", b"c"]) + b"\\x00\\x09d")
    [b'ab', b'c', b'd']
    """
    frames = []
    while len(data) > LENGTH.size:
        (length,) = LENGTH.unpack_from(data)
        data = data[LENGTH.size :]
        frames.append(data[:length])
        data = data[length:]
    return frames


def input_of(frames: list[bytes]) -> bytes:
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)
