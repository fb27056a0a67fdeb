"""Quotas over the wire: altering, describing and enforcing them."""

import asyncio
from typing import Any

import pytest

from headwater.broker.quotas import throttle as quotas_throttle
from headwater.broker.quotas.throttle import TimedAwaitable
from headwater.meta.memory import MemoryStore
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    RunningBroker,
    WireClient,
    batch,
    dynamic_state,
    fetch_fields,
    produce_fields,
)

CLIENT = "test"
"""What the tests' client calls itself."""

NO_TOPICS = {"topics": [], "allow_auto_topic_creation": False}
ALL_TOPICS = {"topics": None, "allow_auto_topic_creation": False}

AS_CLIENTS_ASK = {
    "allow_auto_topic_creation": True,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}

Part = tuple[str, str | None]


async def alter(
    broker: RunningBroker, entity: list[Part], *, validate_only: bool = False, **limits: Any
) -> tuple[int, str | None]:
    operations = [
        {"key": key, "value": value or 0.0, "remove": value is None}
        for key, value in limits.items()
    ]
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": operations,
    }
    response = await broker.call(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=validate_only
    )
    (result,) = response.entries
    return int(result.error_code), result.error_message


async def describe(
    broker: RunningBroker, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    return await broker.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, strict=strict,
        components=[{"entity_type": k, "match_type": t, "match": m} for k, t, m in components],
    )  # fmt: skip


def shown(response: Any) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


async def test_quotas_are_set_changed_and_removed(broker: RunningBroker) -> None:
    assert await alter(broker, [("user", "u")], producer_byte_rate=5.0) == (0, None)
    assert (await alter(broker, [("client-id", None)], request_percentage=2.5))[0] == 0
    assert (await alter(broker, [("user", "u"), ("client-id", "c")], consumer_byte_rate=7.0))[
        0
    ] == 0
    assert shown(await describe(broker)) == [
        ({"client-id": None}, {"request_percentage": 2.5}),
        ({"client-id": "c", "user": "u"}, {"consumer_byte_rate": 7.0}),
        ({"user": "u"}, {"producer_byte_rate": 5.0}),
    ]
    changes: dict[str, Any] = {"producer_byte_rate": None, "consumer_byte_rate": 9.0}
    assert (await alter(broker, [("user", "u")], **changes))[0] == 0
    assert shown(await describe(broker, ("user", 0, "u"), strict=True)) == [
        ({"user": "u"}, {"consumer_byte_rate": 9.0})
    ]
    assert (await alter(broker, [("user", "u")], consumer_byte_rate=None))[0] == 0
    assert shown(await describe(broker, ("user", 0, "u"), strict=True)) == []


@pytest.mark.parametrize(
    ("entity", "limits", "message"),
    [([], {"producer_byte_rate": 1.0}, "Invalid empty"),
     ([("zip", "u")], {"producer_byte_rate": 1.0}, "Unhandled client quota entity type: zip"),
     ([("user", "")], {"producer_byte_rate": 1.0}, "Empty user not supported"),
     ([("ip", "not an ip")], {"connection_creation_rate": 1.0}, "not an ip is not a valid IP"),
     ([("ip", "::1"), ("user", "u")], {"connection_creation_rate": 1.0}, "combination"),
     ([("ip", "::1")], {"producer_byte_rate": 1.0}, "Invalid configuration key"),
     ([("user", "u")], {"connection_creation_rate": 1.0}, "Invalid configuration key"),
     ([("user", "u")], {"producer_byte_rate": -1.0}, "must be greater than 0"),
     ([("user", "u")], {"producer_byte_rate": 1.5}, "cannot be a fractional value"),
     ([("user", "u")], {"producer_byte_rate": 1e30}, "too large for a LONG"),
     ([("ip", None)], {"connection_creation_rate": 1e10}, "too large for an INT")],
)  # fmt: skip
async def test_illegal_changes_are_refused_in_kafkas_words(
    broker: RunningBroker, entity: list[Part], limits: dict[str, Any], message: str
) -> None:
    code, given = await alter(broker, entity, **limits)
    assert code == Code.INVALID_REQUEST
    assert message in (given or "")
    assert shown(await describe(broker)) == []


async def test_an_entity_given_twice_is_refused_once(broker: RunningBroker) -> None:
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "u"}],
        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
    }
    response = await broker.call(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry, entry], validate_only=False
    )
    assert [entry.error_code for entry in response.entries] == [Code.INVALID_REQUEST]


async def test_validating_changes_nothing(broker: RunningBroker) -> None:
    await alter(broker, [("user", "u")], producer_byte_rate=5.0, validate_only=True)
    assert shown(await describe(broker)) == []


async def test_a_contradictory_filter_is_answered_without_entries(
    broker: RunningBroker,
) -> None:
    response = await describe(broker, ("user", 0, None))
    assert (response.error_code, response.entries) == (Code.INVALID_REQUEST, None)
    assert (await describe(broker, ("zip", 0, "x"))).error_code == Code.UNSUPPORTED_VERSION


async def test_users_have_no_credentials(broker: RunningBroker) -> None:
    named = await broker.call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        users=[{"name": "a"}, {"name": "b"}, {"name": "b"}],
    )
    assert [(one.user, one.error_code) for one in named.results] == [
        ("a", Code.RESOURCE_NOT_FOUND),
        ("b", Code.DUPLICATE_RESOURCE),
    ]
    assert (await broker.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)).results == ()


async def test_quotas_reach_every_broker() -> None:
    meta = MemoryStore()
    async with dynamic_state(meta, 1) as one, dynamic_state(meta, 2) as other:
        entity = frozenset({("client-id", "a")})
        await one.stored_quotas.change(entity, {"producer_byte_rate": 10.0})
        assert one.quotas.active
        while not other.quotas.active:
            await asyncio.sleep(0)
        assert other.quotas.charge_produce("a", 1000) > 0
        await other.stored_quotas.change(entity, {"producer_byte_rate": None})
        while one.quotas.active:
            await asyncio.sleep(0)
    await meta.close()


async def timed(client: WireClient, api: int, version: int, **fields: Any) -> tuple[float, Any]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    response = await client.call(api, version, **fields)
    return loop.time() - began, response


def throttle(response: Any) -> float:
    """The throttle time in seconds."""
    return float(response.throttle_time.total_seconds())


async def test_a_producer_over_its_rate_gets_a_throttle_time_and_is_not_read(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t")
    records = batch(b"x" * 5000)
    await alter(broker, [("client-id", CLIENT)], producer_byte_rate=1000.0)
    client = await broker.connect()
    first = await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    assert throttle(first) == 0
    second = await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    assert 0 < throttle(second) <= 1
    waited, third = await timed(client, ApiKey.METADATA, 4, **NO_TOPICS)
    assert waited >= throttle(second) * 0.9
    assert throttle(third) == 0
    await client.close()


async def test_a_throttled_client_does_not_slow_another_down(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await alter(broker, [("client-id", CLIENT)], producer_byte_rate=10.0)
    client = await broker.connect()
    response = await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 5000)))
    assert throttle(response) > 100
    other = await broker.connect()
    waited, _ = await timed(other, ApiKey.METADATA, 4, **NO_TOPICS)
    assert waited < throttle(response)
    await client.close()
    await other.close()


async def test_a_produce_without_acknowledgement_is_throttled_too(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await alter(broker, [("client-id", CLIENT)], producer_byte_rate=500.0)
    client = await broker.connect()
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 5200), acks=0))
    waited, _ = await timed(client, ApiKey.METADATA, 4, **NO_TOPICS)
    assert waited > 0.1
    await client.close()


async def test_a_consumer_over_its_rate_gets_its_records_after_the_throttle_time(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t")
    records = batch(b"x" * 5000)
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    await alter(broker, [("client-id", CLIENT)], consumer_byte_rate=900.0)
    client = await broker.connect()
    session: dict[str, Any] = {
        "session_id": 0, "session_epoch": 0, "forgotten_topics_data": [], "rack_id": ""
    }  # fmt: skip
    first = await client.call(ApiKey.FETCH, 12, **fetch_fields("t", 0, **session))
    assert throttle(first) == 0
    session |= {"session_id": first.session_id, "session_epoch": 1}
    second = await client.call(ApiKey.FETCH, 12, **fetch_fields("t", 0, **session))
    assert throttle(second) > 0
    assert (second.error_code, second.responses) == (0, ())
    assert second.session_id == first.session_id
    session["session_epoch"] = 2
    await alter(broker, [("client-id", CLIENT)], consumer_byte_rate=5000.0)
    third = await client.call(ApiKey.FETCH, 12, **fetch_fields("t", 0, **session))
    assert len(third.responses[0].partitions[0].records) == len(records)
    await client.close()


async def test_a_new_session_is_not_opened_for_a_throttled_consumer(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 5000)))
    await alter(broker, [("client-id", CLIENT)], consumer_byte_rate=100.0)
    response = await broker.call(
        ApiKey.FETCH, 12,
        **fetch_fields(
            "t", 0, session_id=0, session_epoch=0, forgotten_topics_data=[], rack_id=""
        ),
    )  # fmt: skip
    assert throttle(response) > 0
    assert (response.session_id, response.responses) == (0, ())


async def test_a_client_over_its_time_quota_is_throttled(broker: RunningBroker) -> None:
    await broker.create_topic("t", partitions=200)
    await alter(broker, [("client-id", CLIENT)], request_percentage=0.000001)
    client = await broker.connect()
    await client.call(ApiKey.METADATA, 4, **ALL_TOPICS)
    response = await client.call(ApiKey.METADATA, 4, **ALL_TOPICS)
    assert 0 < throttle(response) <= 1
    waited, _ = await timed(client, ApiKey.METADATA, 4, **ALL_TOPICS)
    assert waited >= throttle(response) * 0.9
    await client.close()


async def test_time_in_which_a_handler_waits_is_not_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    spent: list[float] = []
    monkeypatch.setattr(quotas_throttle, "perf_counter", lambda: clock[0])

    async def pass_time(seconds: float) -> None:
        clock[0] += seconds

    async def work() -> int:
        clock[0] += 1
        waited_for = asyncio.ensure_future(pass_time(100))
        await waited_for
        clock[0] += 2
        return 7

    assert await TimedAwaitable(work(), spent.append) == 7
    assert spent == [1, 2]


async def test_a_timed_handler_can_be_cancelled() -> None:
    cleaned = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()

    async def call() -> None:
        await TimedAwaitable(work(), lambda _: None)

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


def topic(name: str, partitions: int) -> dict[str, Any]:
    return {
        "name": name, "num_partitions": partitions, "replication_factor": 1,
        "assignments": [], "configs": [],
    }  # fmt: skip


async def test_topics_beyond_the_mutation_rate_are_refused(broker: RunningBroker) -> None:
    await alter(broker, [("user", None)], controller_mutation_rate=1.0)
    client = await broker.connect()
    response = await client.call(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[topic("a", 20), topic("b", 1)],
        timeout=1000,
        validate_only=False,
    )
    assert {one.name: one.error_code for one in response.topics} == {
        "a": Code.NONE,
        "b": Code.THROTTLING_QUOTA_EXCEEDED,
    }
    assert throttle(response) > 5
    other = await broker.connect()
    deleted = await other.call(
        ApiKey.DELETE_TOPICS, 6, topics=[{"name": "a", "topic_id": None}], timeout=1000
    )
    assert deleted.responses[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    await client.close()
    await other.close()
    added = await broker.call(
        ApiKey.CREATE_PARTITIONS, 3, timeout=1000, validate_only=False,
        topics=[{"name": "a", "count": 30, "assignments": None}],
    )  # fmt: skip
    assert added.results[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED


async def test_old_clients_over_the_mutation_rate_are_served_and_throttled(
    broker: RunningBroker,
) -> None:
    await alter(broker, [("user", None)], controller_mutation_rate=1.0)
    response = await broker.call(
        ApiKey.CREATE_TOPICS,
        5,
        topics=[topic("a", 20), topic("b", 1)],
        timeout=1000,
        validate_only=False,
    )
    assert [one.error_code for one in response.topics] == [Code.NONE, Code.NONE]
    assert throttle(response) > 5


async def test_connections_above_an_addresss_rate_are_closed(
    broker: RunningBroker,
) -> None:
    await alter(broker, [("ip", "127.0.0.1")], connection_creation_rate=1.0)
    clients = [await broker.connect() for _ in range(10)]
    late = await broker.connect()
    await late.send(ApiKey.METADATA, 4, **NO_TOPICS)
    assert await late.is_closed()
    assert (
        await clients[0].call(ApiKey.METADATA, 4, **NO_TOPICS)
    ).throttle_time.total_seconds() == 0
    for client in (*clients, late):
        await client.close()


async def test_a_stopping_broker_does_not_wait_for_throttled_clients(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t")
    await alter(broker, [("client-id", CLIENT)], producer_byte_rate=10.0)
    client = await broker.connect()
    await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 5000)))
    await broker.server.stop()
    assert await client.is_closed()
    await client.close()


async def test_topics_that_metadata_creates_count_as_mutations(broker: RunningBroker) -> None:
    await alter(broker, [("user", None)], controller_mutation_rate=1.0)
    asked = [{"name": f"t{number}"} for number in range(200)]
    response = await broker.call(ApiKey.METADATA, 8, **AS_CLIENTS_ASK, topics=asked)
    codes = [one.error_code for one in response.topics]
    created = codes.count(0)
    assert 1 <= created <= 12  # the tokens of eleven seconds, and one topic that goes beyond
    assert codes == [Code.NONE] * created + [Code.LEADER_NOT_AVAILABLE] * (200 - created)
    assert throttle(response) > 0
    assert len(await broker.engine.topics.all()) == created
