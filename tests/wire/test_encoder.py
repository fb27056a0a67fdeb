import io
import random
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_writer

from headwater.wire.encoder import encode_response
from tests.wire.entities import entity, every_version


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
