import io
import random
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from headwater.wire.messages.encoder import encode_response, encode_values
from headwater.wire.messages.schema import fields_of
from tests.support.wire.entities import entity, every_version


def kio_frame(correlation_id: int, response: Any) -> bytes:
    body = io.BytesIO()
    header = type(response).__header_schema__
    entity_writer(header)(body, header(correlation_id=correlation_id))
    entity_writer(type(response))(body, response)
    return len(body.getvalue()).to_bytes(4, "big") + body.getvalue()


@pytest.mark.parametrize(("api_key", "version"), every_version())
def test_every_response_is_written_as_kio_writes_it(api_key: int, version: int) -> None:
    response_type = load_response_schema(api_key, version)
    for seed in range(12):
        response = entity(response_type, random.Random(seed))
        assert encode_response(seed, response) == kio_frame(seed, response)


def test_arrays_longer_than_a_short_length_are_written_as_kio_writes_them() -> None:
    for version in (8, 13):
        response = entity(load_response_schema(3, version), random.Random(1), items=300)
        assert encode_response(7, response) == kio_frame(7, response)


def test_the_header_of_an_api_versions_response_never_has_tags() -> None:
    response = entity(load_response_schema(18, 4), random.Random(1))
    assert encode_response(1, response) == kio_frame(1, response)
    assert type(response).__header_schema__.__version__ == 0


def plain(value: Any) -> Any:
    """An entity as the nested dicts that a handler writes, every field given."""
    if is_dataclass(value):
        return {
            field.name: plain_field(field, getattr(value, field.name)) for field in fields(value)
        }
    return value


def plain_field(field: Any, value: Any) -> Any:
    kind = field.metadata.get("kafka_type", "")
    if kind.startswith("timedelta"):
        return round(value.total_seconds() * 1000)
    if kind == "datetime_i64":
        return -1 if value is None else round(value.timestamp() * 1000)
    if kind == "records" and value is not None:
        return [value[:1], memoryview(value)[1:]]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if is_dataclass(value) and value == field.default:
        return None if "tag" in field.metadata else plain(value)
    return plain(value)


@pytest.mark.parametrize(("api_key", "version"), every_version())
def test_every_response_given_as_dicts_is_written_as_kio_writes_it(
    api_key: int, version: int
) -> None:
    response_type = load_response_schema(api_key, version)
    for seed in range(6):
        response = entity(response_type, random.Random(seed))
        values = plain(response) | {"a_field_of_another_version": 1}
        assert b"".join(encode_values(api_key, version, seed, values)) == kio_frame(seed, response)


def test_a_field_that_is_not_given_has_its_default() -> None:
    frame = b"".join(encode_values(3, 12, 1, {"topics": [{"name": "a", "error_code": 3}]}))
    response_type: Any = load_response_schema(3, 12)
    topic_type = fields_of(response_type)[-1].entity
    topic = topic_type(error_code=ErrorCode(3), name="a", topic_id=None, partitions=())
    response = response_type(throttle_time=timedelta(0), brokers=(), topics=(topic,))
    assert frame == kio_frame(1, response)


def test_a_message_that_is_too_long_for_a_string_is_cut() -> None:
    """A client chose the name in it, and what old versions cannot write closes the connection."""
    for version in (2, 5):
        topic = {"name": "t", "error_code": 42, "error_message": "é" * 40_000}
        frame = b"".join(encode_values(19, version, 1, {"topics": [topic, topic]}))
        schema = load_response_schema(19, version)
        header: Any = schema.__header_schema__
        _, size = entity_reader(header)(frame, 4)
        reply: Any = entity_reader(schema)(frame, 4 + size)[0]
        assert [len(one.error_message) for one in reply.topics] == [8_000, 8_000]


def test_a_long_response_is_written_in_a_few_pieces() -> None:
    response_type: Any = load_response_schema(20, 5)
    topic_type = fields_of(response_type)[-1].entity
    topics = tuple(
        topic_type(name=f"t{number}", error_code=ErrorCode(3), error_message=None)
        for number in range(20_000)
    )
    response = response_type(throttle_time=timedelta(0), responses=topics)
    pieces = encode_values(20, 5, 1, {"responses": [plain(topic) for topic in topics]})
    assert b"".join(pieces) == kio_frame(1, response)
    assert 2 <= len(pieces) < 50
