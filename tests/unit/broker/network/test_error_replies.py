"""The generic error reply answers every item of a request, in every API and version."""

from random import Random

import pytest
from kio.index import load_request_schema

from headwater.broker.network.error_replies import error_reply, reply_to_failure
from headwater.broker.network.replies import LazyRows, NoReply, is_large
from headwater.errors import RequestSuperseded
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ADVERTISED, LOWEST_SERVED_PRODUCE, ApiKey
from headwater.wire.messages.encoder import encode_values
from headwater.wire.messages.requests import Header, parse_request
from headwater.work_budget import TURN_ELEMENTS
from tests.support.broker.running import fetch_fields, produce_fields, request_frame
from tests.support.wire.entities import entity

VERSIONS = [
    (key, version)
    for key, versions in ADVERTISED.items()
    for version in range(versions.lowest, versions.highest + 1)
    if key != ApiKey.PRODUCE or version >= LOWEST_SERVED_PRODUCE
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_error_reply_of_an_empty_request_can_be_encoded(key: ApiKey, version: int) -> None:
    class Nothing:
        pass

    values = error_reply(Nothing(), key, version, -1, "failed")
    assert encode_values(key, version, 1, values)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_error_reply_of_any_request_can_be_encoded(key: ApiKey, version: int) -> None:
    for seed in range(8):
        asked = entity(load_request_schema(key, version), Random(seed))
        assert encode_values(key, version, 1, error_reply(asked, key, version, -1, "failed"))


def test_produce_names_each_partition() -> None:
    frame = request_frame(ApiKey.PRODUCE, 9, 1, **produce_fields("t", b"x", partition=3))
    reply = error_reply(parse_request(frame[4:]).payload, 0, 9, -1, "failed")
    (topic,) = reply["responses"]
    assert topic["name"] == "t"
    assert [(p["index"], p["error_code"]) for p in topic["partition_responses"]] == [
        (3, Code.UNKNOWN_SERVER_ERROR)
    ]


def test_fetch_has_its_code_at_the_top_from_version_7() -> None:
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    frame = request_frame(ApiKey.FETCH, 11, 1, **fetch_fields("t", 0), **session)
    assert (
        error_reply(parse_request(frame[4:]).payload, 1, 11, -1, "")["error_code"]
        == Code.UNKNOWN_SERVER_ERROR
    )


def test_names_that_are_plain_strings_are_repeated() -> None:
    frame = request_frame(ApiKey.DELETE_TOPICS, 5, 1, topic_names=["a", "b"], timeout=1)
    reply = error_reply(parse_request(frame[4:]).payload, 20, 5, -1, "failed")
    assert [(one["name"], one["error_code"]) for one in reply["responses"]] == [
        ("a", Code.UNKNOWN_SERVER_ERROR),
        ("b", Code.UNKNOWN_SERVER_ERROR),
    ]


def test_a_superseded_request_is_not_answered() -> None:
    assert reply_to_failure(None, Header(11, 9, 1), RequestSuperseded()) is NoReply.CLOSE


def test_all_entities_of_a_reply_count_towards_its_size() -> None:
    rows = LazyRows(TURN_ELEMENTS + 1, lambda: iter(()))
    many = [{"partition_index": number} for number in range(TURN_ELEMENTS + 1)]
    assert is_large({"topics": many})
    assert is_large({"topics": [{"name": "refused"}, {"name": "t", "partitions": many}]})
    assert is_large({"results": [{"configs": rows}]})
    assert is_large({"groups": ({"topics": [{"partitions": rows}]},)})
    assert not is_large({"topics": [{"partitions": many[:200]}] * 2, "error_message": "x" * 9_000})
