from random import Random
from typing import Any
from uuid import UUID

import pytest

from headwater.broker.records.fetch_sessions import FetchPartition, FetchSessions, SessionRefused
from headwater.engine import Topic
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    SESSIONLESS,
    RunningBroker,
    WireClient,
    batch,
    fetch_fields,
    produce_fields,
)
from tests.support.waiting import eventually


async def fill(broker: RunningBroker, *sizes: int, partition: int = 0, topic: str = "t") -> None:
    for size in sizes:
        records = batch(b"x" * size)
        await broker.call(ApiKey.PRODUCE, 9, **produce_fields(topic, records, partition=partition))


async def fetch(broker: RunningBroker, offset: int, **more: Any) -> Any:
    response = await broker.call(
        ApiKey.FETCH, 11, **fetch_fields("t", offset, **more), **SESSIONLESS
    )
    return response.responses[0].partitions[0]


def partitions(*asked: tuple[int, int], limit: int = 1 << 20) -> list[dict[str, Any]]:
    return [
        {
            "topic": "t",
            "partitions": [
                {"partition": index, "fetch_offset": offset, "partition_max_bytes": limit}
                for index, offset in asked
            ],
        }
    ]


def many(*asked: tuple[int, int], max_bytes: int = 1 << 20, **more: Any) -> dict[str, Any]:
    fields = fetch_fields("t", 0, max_bytes=max_bytes)
    return {**fields, "topics": partitions(*asked) if asked else [], **SESSIONLESS, **more}


@pytest.mark.parametrize(
    ("offset", "code"),
    [(0, Code.NONE), (1, Code.NONE), (2, Code.OFFSET_OUT_OF_RANGE), (-1, Code.OFFSET_OUT_OF_RANGE)],
)
async def test_offsets_out_of_range_get_1(broker: RunningBroker, offset: int, code: int) -> None:
    await broker.create_topic("t")
    await fill(broker, 10)
    assert (await fetch(broker, offset)).error_code == code


async def test_a_fetch_returns_at_least_one_batch_despite_the_limits(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await fill(broker, 5000, 5000)
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}):
        assert 5000 < len((await fetch(broker, 0, **limits)).records) < 10_000


async def test_whole_batches_within_the_partitions_limit(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await fill(broker, 1000, 1000, 1000)
    assert 2000 < len((await fetch(broker, 0, partition_max_bytes=2500)).records) < 2500


async def test_partitions_beyond_the_limit_are_empty_with_their_offsets(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t", 3)
    for partition in range(3):
        await fill(broker, 1000, partition=partition)
    response = await broker.call(ApiKey.FETCH, 11, **many((0, 0), (1, 0), (2, 0), max_bytes=1200))
    found = response.responses[0].partitions
    assert [len(one.records or b"") > 0 for one in found] == [True, False, False]
    assert [one.high_watermark for one in found] == [1, 1, 1]


async def test_unknown_topics_partitions_and_ids(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert (await fetch(broker, 0, partition=9)).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    fields = fetch_fields(UUID(int=5), 0)
    fields.pop("replica_id")
    response = await broker.call(ApiKey.FETCH, 16, **fields, **SESSIONLESS)
    assert response.responses[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, Code.NONE), (0, Code.NONE), (5, Code.UNKNOWN_LEADER_EPOCH)]
)
async def test_leader_epochs_are_checked(broker: RunningBroker, epoch: int, code: int) -> None:
    await broker.create_topic("t")
    fields = fetch_fields("t", 0)
    fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    response = await broker.call(ApiKey.FETCH, 11, **fields, **SESSIONLESS)
    assert response.responses[0].partitions[0].error_code == code


async def test_min_bytes_waits_for_enough(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    fields = fetch_fields("t", 0, max_wait=30_000, min_bytes=2500)
    await client.send(ApiKey.FETCH, 11, **fields, **SESSIONLESS)
    await fill(broker, 1000, 1000, 1000)
    _, response = await client.receive(ApiKey.FETCH, 11)
    assert len(response.responses[0].partitions[0].records) >= 2500
    await client.close()


async def test_empty_answer_when_the_time_is_over(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert not (await fetch(broker, 0, max_wait=50)).records


async def test_an_empty_long_poll_reads_each_partition_once(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_topic("t", 2)
    await broker.call(ApiKey.FETCH, 11, **many((0, 0), (1, 0)))
    reads: list[int] = []
    read = broker.engine.read

    def counted(topic: Topic, partition: int, *args: Any, **how: Any) -> Any:
        reads.append(partition)
        return read(topic, partition, *args, **how)

    monkeypatch.setattr(broker.engine, "read", counted)
    response = await broker.call(ApiKey.FETCH, 11, **many((0, 0), (1, 0), max_wait=50))
    assert not any(one.records for one in response.responses[0].partitions)
    assert reads == [0, 1]


async def session(client: WireClient, number: int, epoch: int, /, **fields: Any) -> Any:
    return await client.call(
        ApiKey.FETCH, 11, **{**fields, "session_id": number, "session_epoch": epoch}
    )


async def test_a_session_answers_only_changed_partitions(broker: RunningBroker) -> None:
    await broker.create_topic("t", 2)
    await fill(broker, 10)
    client = await broker.connect()
    first = await session(client, 0, 0, **many((0, 0), (1, 0)))
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 2
    moved = await session(client, first.session_id, 1, **many((0, 1)))
    assert moved.responses == ()
    await fill(broker, 10, partition=1)
    news = await session(client, first.session_id, 2, **many())
    assert [one.partition_index for one in news.responses[0].partitions] == [1]
    forgotten = [{"topic": "t", "partitions": (1,)}]
    rest = await session(client, first.session_id, 3, **many(forgotten_topics_data=forgotten))
    assert rest.responses == ()
    await client.close()


async def test_unknown_sessions_and_wrong_epochs_are_refused(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    opened = await session(client, 0, 0, **many((0, 0)))
    assert (
        await session(client, opened.session_id, 7, **many())
    ).error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert (
        await session(client, opened.session_id + 1, 1, **many())
    ).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    closed = await session(client, opened.session_id, -1, **many((0, 0)))
    assert closed.session_id == 0
    assert (
        await session(client, opened.session_id, 1, **many())
    ).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    await client.close()


def partition(number: int) -> FetchPartition:
    return FetchPartition("t", number, 0, 1, -1)


def test_the_number_of_sessions_is_bounded_and_only_idle_ones_are_evicted() -> None:
    now = 0.0
    sessions = FetchSessions(2, 10.0, lambda: now, Random(1))
    opened = [sessions.open([partition(n)], by_id=False) for n in range(3)]
    assert opened[2] is None
    now = 11.0
    assert opened[1] is not None
    sessions.resume(opened[1].id, 1, by_id=False)
    assert sessions.open([partition(3)], by_id=False) is not None
    assert len(sessions) == 2
    assert opened[0] is not None
    with pytest.raises(SessionRefused):
        sessions.resume(opened[0].id, 1, by_id=False)


async def test_a_partition_that_is_named_many_times_is_answered_once(
    broker: RunningBroker,
) -> None:
    """The last entry counts, as in Kafka."""
    await broker.create_topic("t", 2)
    await fill(broker, 10)
    for repeats in (3, 2_000):
        asked = partitions(*[(0, 99)] * repeats, (1, 0), (0, 0))
        fields = fetch_fields("t", 0) | {"topics": asked * 2}
        response = await broker.call(ApiKey.FETCH, 11, **fields, **SESSIONLESS)
        (topic,) = response.responses
        assert [(one.partition_index, int(one.error_code)) for one in topic.partitions] == [
            (0, Code.NONE), (1, Code.NONE)
        ]  # fmt: skip
        assert topic.partitions[0].records


async def test_a_session_with_very_many_partitions_answers_changed_ones(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t", 1_200)
    client = await broker.connect()
    every = [(number, 0) for number in range(1_200)]
    opened = await session(client, 0, 0, **many(*every))
    assert len(opened.responses[0].partitions) == 1_200
    await fill(broker, 10, partition=1_100)
    news = await session(client, opened.session_id, 1, **many())
    assert [one.partition_index for one in news.responses[0].partitions] == [1_100]
    forgotten = [{"topic": "t", "partitions": range(1_199)}]
    await session(client, opened.session_id, 2, **many(forgotten_topics_data=forgotten))
    assert broker.services.fetch_sessions.partitions == 1
    await client.close()


async def test_sessions_end_with_their_connection(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    sessions = broker.services.fetch_sessions
    first, second = await broker.connect(), await broker.connect()
    moved = await session(first, 0, 0, **many((0, 0)))
    await session(first, 0, 0, **many((0, 0)))
    assert len(sessions) == 2
    assert (await session(second, moved.session_id, 1, **many())).error_code == 0
    await first.close()
    await eventually(lambda: len(sessions) == 1)
    assert (await session(second, moved.session_id, 2, **many())).error_code == 0
    await second.close()
    await eventually(lambda: not len(sessions))
    assert sessions.partitions == 0


def test_number_of_partitions_in_all_sessions_is_bounded() -> None:
    now = 0.0
    sessions = FetchSessions(9, 10.0, lambda: now, Random(1), max_partitions=10)
    six = [partition(number) for number in range(6)]
    first = sessions.open(six, by_id=False)
    assert first is not None
    assert sessions.open(six, by_id=False) is None
    second = sessions.open(six[:4], by_id=False)
    assert second is not None
    second.update(six, ())
    with pytest.raises(SessionRefused):
        sessions.updated(second)
    assert (len(sessions), sessions.partitions) == (1, 6)
    now = 11.0
    assert sessions.open(six, by_id=False) is not None
    assert (len(sessions), sessions.partitions) == (1, 6)
    assert sessions.open([partition(number) for number in range(11)], by_id=False) is None
