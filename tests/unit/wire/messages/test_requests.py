import contextlib
import io
import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_writer

from headwater.errors import MalformedRequest, UnknownApi, UnsupportedVersion
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.requests import parse_request, read_header
from headwater.wire.varint import encode_unsigned
from tests.support.wire.entities import entity, every_version

VERSIONS = every_version()


def request_frame(api_key: int, version: int, payload: Any, client_id: str | None = "c") -> bytes:
    body = io.BytesIO()
    header_type = type(payload).__header_schema__
    header = header_type(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=77,
        client_id=client_id,
    )
    entity_writer(header_type)(body, header)
    entity_writer(type(payload))(body, payload)
    return body.getvalue()


def some_frame(api_key: int, version: int, seed: int) -> bytes:
    payload = entity(load_request_schema(api_key, version), random.Random(seed))
    return request_frame(api_key, version, payload)


def plain_produce(payload: Any) -> Any:
    return (
        payload.transactional_id,
        payload.acks,
        payload.timeout_ms
        if hasattr(payload, "timeout_ms")
        else round(payload.timeout.total_seconds() * 1000),
        [
            (
                getattr(topic, "name", None),
                getattr(topic, "topic_id", None),
                [(part.index, part.records) for part in topic.partition_data],
            )
            for topic in payload.topic_data
        ],
    )


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_request_that_kio_writes_is_read_back(api_key: int, version: int) -> None:
    for seed in range(6):
        payload = entity(load_request_schema(api_key, version), random.Random(seed))
        client_id = [None, "", "zone_id=a,é"][seed % 3]
        frame = request_frame(api_key, version, payload, client_id)
        request = parse_request(frame)
        assert (request.api_key, request.version) == (api_key, version)
        assert (request.correlation_id, request.client_id) == (77, client_id)
        if api_key == 0:
            assert plain_produce(request.payload) == plain_produce(payload)
        else:
            assert request.payload == payload


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_cut_requests_are_malformed(api_key: int, version: int) -> None:
    frame = some_frame(api_key, version, 3)
    for end in {*range(8, min(len(frame), 60)), len(frame) // 2, len(frame) - 1}:
        if end < len(frame):
            with pytest.raises(MalformedRequest):
                parse_request(frame[:end])


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_bytes_after_a_request_are_let_be_except_in_produce(api_key: int, version: int) -> None:
    frame = some_frame(api_key, version, 3)
    if api_key == 0:
        with pytest.raises(MalformedRequest):
            parse_request(frame + b"\0")
    else:
        assert parse_request(frame + b"\0\0\0").payload == parse_request(frame).payload


def test_records_of_a_produce_request_are_views_of_the_frame() -> None:
    schema = load_request_schema(0, 12)
    frame = memoryview(
        next(
            data
            for data in (
                request_frame(ApiKey.PRODUCE, 12, entity(schema, random.Random(seed)))
                for seed in range(99)
            )
            if len(data) > 17_000
        )
    )
    views = [
        part.records
        for topic in parse_request(frame).payload.topic_data
        for part in topic.partition_data
        if part.records is not None
    ]
    assert views
    assert all(view.obj is frame.obj for view in views)


def with_header(api_key: int, version: int, payload: bytes, *, flexible: bool) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1) + b"\0" * flexible + payload


@pytest.mark.parametrize("count", [-(2**31), -2, -1, 2, 1_000, 10**6, 2**31 - 1])
def test_an_array_length_that_the_frame_does_not_hold_is_malformed(count: int) -> None:
    topics = struct.pack(">i", count)
    with pytest.raises(MalformedRequest):
        parse_request(with_header(0, 8, struct.pack(">hhi", -1, 1, 0) + topics, flexible=False))
    offsets = struct.pack(">ib", -1, 0) + topics
    with pytest.raises(MalformedRequest):
        parse_request(with_header(2, 5, offsets, flexible=False))


@pytest.mark.parametrize("count", [0, 3, 1_000, 2**31, 2**32 - 1, 2**35 - 1, 2**70])
def test_a_compact_array_length_that_the_frame_does_not_hold_is_malformed(count: int) -> None:
    topics = encode_unsigned(count)
    with pytest.raises(MalformedRequest):
        parse_request(with_header(0, 9, b"\0" + struct.pack(">hi", 1, 0) + topics, flexible=True))
    with pytest.raises(MalformedRequest):
        parse_request(with_header(2, 6, struct.pack(">ib", -1, 0) + topics, flexible=True))


def test_more_elements_than_any_request_has_are_refused() -> None:
    topics = encode_unsigned(1_000_002) + b"\1" * 1_100_000
    with pytest.raises(MalformedRequest):
        parse_request(with_header(20, 4, topics, flexible=True))


def test_null_arrays_do_not_raise_the_number_of_elements() -> None:
    """Each partition of this topic has null in place of its replicas."""
    partition = struct.pack(">i", 0) + b"\0\0"
    topic = b"\2t" + encode_unsigned(100_001) + partition * 100_000 + b"\0"
    for topics, refused in ((2, False), (3, True)):
        frame = struct.pack(">i", 1_000) + encode_unsigned(topics + 1) + topic * topics + b"\0"
        with pytest.raises(MalformedRequest) if refused else contextlib.nullcontext():
            parse_request(with_header(45, 0, frame, flexible=True))


def test_tagged_fields_that_the_schema_does_not_have_are_skipped() -> None:
    known = parse_request(with_header(2, 6, b"\xff\xff\xff\xff\0\1" + b"\0", flexible=True))
    tags = b"\2" + b"\x07\3abc" + b"\x63\0"
    frame = with_header(2, 6, b"\xff\xff\xff\xff\0\1" + tags, flexible=True)
    assert parse_request(frame).payload == known.payload


@pytest.mark.parametrize("version", [12, 15, 17, 18])
def test_known_tagged_fields_survive_unknown_ones_beside_them(version: int) -> None:
    for seed in range(20):
        payload = entity(load_request_schema(1, version), random.Random(seed))
        frame = request_frame(1, version, payload)
        tags_start = len(frame) - len(tag_section(payload))
        count = frame[tags_start]
        patched = frame[:tags_start] + bytes([count + 1]) + frame[tags_start + 1 :] + b"\x63\2xy"
        assert parse_request(patched).payload == payload


def tag_section(payload: Any) -> bytes:
    """The bytes of a fetch request's own tagged fields, which are its last."""
    whole, bare = io.BytesIO(), io.BytesIO()
    entity_writer(type(payload))(whole, payload)
    untagged = {
        name: getattr(payload, name)
        for name in payload.__slots__
        if name not in ("cluster_id", "replica_state")
    }
    entity_writer(type(payload))(bare, type(payload)(**untagged))
    return whole.getvalue()[len(bare.getvalue()) - 1 :]


def test_unknown_tagged_fields_of_the_header_are_skipped() -> None:
    payload = b"\xff\xff\xff\xff\0\1\0"
    frame = struct.pack(">hhih", 2, 6, 1, -1) + b"\1\5\3abc" + payload
    assert parse_request(frame).payload.topics == ()


def test_an_unknown_api_is_distinguished_from_an_unsupported_version() -> None:
    with pytest.raises(UnknownApi, match="999"):
        parse_request(struct.pack(">hhih", 999, 0, 1, -1))
    with pytest.raises(UnsupportedVersion, match="API 18 has no version 99"):
        parse_request(struct.pack(">hhih", 18, 99, 1, -1))
    with pytest.raises(UnsupportedVersion):
        parse_request(struct.pack(">hhih", 0, 2, 1, -1))


def test_the_header_of_an_unsupported_version_can_be_read() -> None:
    assert read_header(struct.pack(">hhi", 18, 99, 4711) + b"?") == (18, 99, 4711)
    with pytest.raises(MalformedRequest):
        read_header(b"\0" * 7)


def parse_or_refuse(frame: bytes) -> None:
    with contextlib.suppress(MalformedRequest, UnknownApi, UnsupportedVersion):
        parse_request(memoryview(frame))


@given(data=st.binary(max_size=200), version=st.sampled_from(VERSIONS))
@settings(max_examples=500, deadline=None)
def test_arbitrary_bytes_are_a_request_or_refused(data: bytes, version: tuple[int, int]) -> None:
    parse_or_refuse(struct.pack(">hhi", *version, 5) + data)
    parse_or_refuse(data)


@given(
    version=st.sampled_from(VERSIONS),
    seed=st.integers(0, 5),
    edits=st.lists(st.tuples(st.integers(8, 4000), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.integers(0, 4000),
)
@settings(max_examples=500, deadline=None)
def test_mutated_requests_are_requests_or_refused(
    version: tuple[int, int], seed: int, edits: list[tuple[int, int]], cut: int
) -> None:
    frame = bytearray(some_frame(*version, seed))
    for position, value in edits:
        frame[min(8 + position % max(len(frame) - 8, 1), len(frame) - 1)] = value
    parse_or_refuse(bytes(frame))
    parse_or_refuse(bytes(frame[: 8 + cut % max(len(frame) - 8, 1)]))


def test_tagged_fields_count_as_elements() -> None:
    """ListOffsets with 2,000 topics fits, but not with 150 tagged fields in each."""
    topics, tags = 2_000, 150
    topic = b"\2t\1" + encode_unsigned(tags) + b"\x63\0" * tags
    payload = struct.pack(">ib", -1, 0) + encode_unsigned(topics + 1) + topic * topics + b"\0"
    with pytest.raises(MalformedRequest, match="tagged fields"):
        parse_request(with_header(2, 6, payload, flexible=True))


def test_a_section_of_very_many_unknown_tagged_fields_is_refused() -> None:
    tags = encode_unsigned(100_000) + b"\x63\0" * 100_000
    header = struct.pack(">hhih", 2, 6, 1, -1) + tags
    with pytest.raises(MalformedRequest, match="100000 tagged fields"):
        parse_request(header + b"\xff\xff\xff\xff\0\1\0")
    topic = b"\2t\1" + tags
    produce = b"\0" + struct.pack(">hi", 1, 0) + b"\2" + topic + b"\0"
    with pytest.raises(MalformedRequest, match="100000 tagged fields"):
        parse_request(with_header(0, 9, produce, flexible=True))


def test_a_string_has_at_most_kafkas_length() -> None:
    for size, refused in ((2**15 - 1, False), (2**15, True), (40_000, True)):
        name = encode_unsigned(size + 1) + b"g" * size
        delete_groups = b"\2" + name + b"\0"
        produce = name + struct.pack(">hi", 1, 0) + b"\1\0"
        for frame in (
            with_header(42, 2, delete_groups, flexible=True),
            with_header(0, 9, produce, flexible=True),
        ):
            if refused:
                with pytest.raises(MalformedRequest):
                    parse_request(frame)
            else:
                parse_request(frame)
