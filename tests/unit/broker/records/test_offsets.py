"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch, InitProducerId, FindCoordinator."""

from typing import Any

import pytest

from headwater.engine import Topic
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import NOW, RunningBroker, batch, produce_fields


async def fill(broker: RunningBroker) -> None:
    await broker.create_topic("t", 2)
    for step in range(3):
        records = batch(b"a", b"b", timestamp=NOW + step)
        await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))


async def list_offset(broker: RunningBroker, timestamp: int, version: int = 11, **more: Any) -> Any:
    fields: dict[str, Any] = {"replica_id": -1, "isolation_level": 0}
    if version >= 10:
        fields["timeout"] = 1000
    partition = {"partition_index": more.get("partition", 0), "timestamp": timestamp}
    topics = [{"name": "t", "partitions": [partition] * more.get("times", 1)}]
    response = await broker.call(ApiKey.LIST_OFFSETS, version, topics=topics, **fields)
    found = response.topics[0].partitions[0]
    return found.error_code, found.offset


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, 6), (-2, 0), (-3, 4), (-4, 0), (-5, -1), (-6, -1), (0, 0), (NOW + 1, 2), (NOW + 9, -1)],
    ids=["end", "start", "newest", "local", "tiered", "-6", "0", "within", "after"],
)
async def test_offsets_are_found_by_timestamp_and_special_timestamp(
    broker: RunningBroker, timestamp: int, expected: int
) -> None:
    await fill(broker)
    assert await list_offset(broker, timestamp) == (0, expected)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_special_timestamps_that_a_version_lacks_are_refused(
    broker: RunningBroker, timestamp: int, version: int
) -> None:
    await fill(broker)
    assert await list_offset(broker, timestamp, version) == (35, -1)


async def test_unknown_partitions_are_refused(broker: RunningBroker) -> None:
    await fill(broker)
    assert (await list_offset(broker, -1, partition=7))[0] == 3
    assert (await list_offset(broker, -1, times=2))[0] == 42
    assert await list_offset(broker, -3, partition=1) == (0, -1)


async def delete(broker: RunningBroker, offset: int, topic: str = "t", partition: int = 0) -> Any:
    asked = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    response = await broker.call(ApiKey.DELETE_RECORDS, 2, topics=asked, timeout=1000)
    found = response.topics[0].partitions[0]
    return found.error_code, found.low_watermark


async def test_records_are_deleted_up_to_an_offset(broker: RunningBroker) -> None:
    await fill(broker)
    await broker.create_topic("compacted", cleanup_policy="compact")
    assert await delete(broker, 3) == (0, 3)
    assert await list_offset(broker, -2) == (0, 3)
    assert await delete(broker, 99) == (1, -1)
    assert await delete(broker, -5) == (1, -1)
    assert await delete(broker, 0, "no") == (3, -1)
    assert await delete(broker, 0, partition=7) == (3, -1)
    assert await delete(broker, 0, "compacted") == (44, -1)
    assert await delete(broker, 0, "__consumer_offsets") == (17, -1)
    assert await delete(broker, -1) == (0, 6)


@pytest.mark.parametrize(
    ("current", "wanted", "expected"),
    [(-1, 0, (0, 0, 6)), (0, 0, (0, 0, 6)), (-1, 7, (0, -1, -1)), (5, 0, (75, -1, -1))],
)
async def test_end_of_an_epoch(
    broker: RunningBroker, current: int, wanted: int, expected: tuple[int, int, int]
) -> None:
    await fill(broker)
    partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": wanted}
    response = await broker.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        replica_id=-1,
        topics=[{"topic": "t", "partitions": [partition]}],
    )
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == expected


async def test_an_epoch_is_looked_up_once_for_each_partition_of_a_request(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker)
    engine = broker.services.engine
    asked: list[tuple[int, int]] = []
    end_of_epoch = engine.end_of_epoch

    async def noted(topic: Topic, partition: int, epoch: int) -> int:
        asked.append((partition, epoch))
        return await end_of_epoch(topic, partition, epoch)

    monkeypatch.setattr(engine, "end_of_epoch", noted)
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    response = await broker.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        replica_id=-1,
        topics=[{"topic": "t", "partitions": [partition] * 3}] * 2,
    )
    ends = [one.end_offset for topic in response.topics for one in topic.partitions]
    assert len(ends) == 6
    assert len(set(ends)) == 1
    assert asked == [(0, 0)]


async def init(
    broker: RunningBroker, name: str | None = None, number: int = -1, epoch: int = -1
) -> Any:
    return await broker.call(
        ApiKey.INIT_PRODUCER_ID,
        4,
        transactional_id=name,
        transaction_timeout=1000,
        producer_id=number,
        producer_epoch=epoch,
    )


async def test_every_producer_gets_an_id_of_its_own(broker: RunningBroker) -> None:
    first, second = await init(broker), await init(broker)
    again = await init(broker, number=first.producer_id, epoch=0)
    assert len({first.producer_id, second.producer_id, again.producer_id}) == 3
    assert {first.producer_epoch, second.producer_epoch, again.producer_epoch} == {0}


async def test_transactional_ids_and_incomplete_producer_ids_are_refused(
    broker: RunningBroker,
) -> None:
    assert (await init(broker, "x")).error_code == Code.INVALID_REQUEST
    assert (await init(broker, number=5)).error_code == Code.INVALID_REQUEST
