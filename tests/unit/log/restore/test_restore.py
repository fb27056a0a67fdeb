"""A cluster outlives its metadata store: snapshots, what they keep alive, and the way back."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

import pytest

from headwater.engine import Topic
from headwater.log.jobs.jobs import DataFile, Job
from headwater.log.restore.recovery import SKEW_MS
from headwater.log.restore.snapshots import kept_snapshots
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, Limits, Writes
from headwater.meta.values import encode
from headwater.producer_ids import StoredProducerIds
from tests.support.log.harness import WholeObjects, append, make_batch, read_all, running_engine
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, TickingClock, values

T = TypeVar("T")


async def test_what_a_snapshot_has_is_read_from_a_restored_cluster() -> None:
    place = RestorePlace()
    async with place.engine(settings=LogSettings()) as engine:
        topic = await engine.topics.create("t", 2, {"retention.ms": "5000"})
        for number in range(5):
            await append(engine, "t", [make_batch(f"inline {number}".encode())])
        before = await read_all(engine, "t")
    await place.snapshot()
    place.lose_metadata()
    done = await place.restore()
    assert (done.topics, done.streams, done.epoch) == (1, 2, 1)
    async with place.engine() as engine:
        again = await engine.topics.find("t")
        assert (again.id, again.configs) == (topic.id, topic.configs)
        assert await read_all(engine, "t") == before
        assert await append(engine, "t", [make_batch(b"new")]) == 5


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("operations", [None, 16])
async def test_records_in_objects_that_are_newer_than_the_snapshot_come_back(
    whole: bool,
    operations: int | None,
) -> None:
    place = RestorePlace(whole=whole, limits=Limits(operations=operations))
    async with place.engine() as engine:
        await engine.topics.create("t", 20, {})
        await append(engine, "t", [make_batch(b"before")])
        await place.snapshot()
        for number in range(4):
            await append(engine, "t", [make_batch(f"after {number}".encode())])
        for partition in range(20):
            await append(engine, "t", [make_batch(b"wide")], partition)
        async with place.engine(broker_id=2) as other:
            await append(other, "t", [make_batch(b"elsewhere")])
    place.lose_metadata()
    done = await place.restore()
    assert done.found.records == 25
    async with place.engine() as engine:
        found = await read_all(engine, "t")
        assert [offset for offset, _ in found] == list(range(7))
        assert values(found) == [
            b"before",
            *(f"after {number}".encode() for number in range(4)),
            b"wide",
            b"elsewhere",
        ]
        for partition in range(1, 20):
            assert values(await read_all(engine, "t", partition)) == [b"wide"]


async def test_a_section_that_was_half_committed_comes_back_whole_and_once() -> None:
    place = RestorePlace(limits=Limits(operations=9))  # three streams a commit

    class SlowStore(MemoryStore):
        async def transact(
            self, domain: int, keys: Sequence[str], decide: Decide[T]
        ) -> CommitResult[T]:
            done = await super().transact(domain, keys, decide)
            if len(keys) > 3 and not await kept_snapshots(self):
                await place.snapshot()  # after the first part
            return done

    place.meta = SlowStore(place.limits)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 9, {})
        for each in [
            engine.append(topic, partition, [make_batch(b"one flush")]) for partition in range(9)
        ]:
            await each
    place.lose_metadata()
    done = await place.restore()
    assert done.found.records == 6
    async with place.engine() as engine:
        for partition in range(9):
            assert values(await read_all(engine, "t", partition)) == [b"one flush"]


async def test_an_idempotent_producers_retry_is_found_after_a_restore() -> None:
    place = RestorePlace()
    batches = [
        make_batch(str(sequence).encode(), producer_id=7, epoch=0, sequence=sequence)
        for sequence in range(6)
    ]
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", batches[:2])
        await place.snapshot()
        await append(engine, "t", batches[1:4])  # one of them again
    async with place.engine(settings=LogSettings()) as engine:
        await append(engine, "t", batches[4:5])  # inline, and so lost
    async with place.engine() as engine:
        await append(engine, "t", batches[5:])
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.duplicates) == (3, 1)
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"0", b"1", b"2", b"3", b"5"]
        assert await append(engine, "t", batches[5:]) == 4
        assert await StoredProducerIds(place.meta, engine._context.cluster).allocate() >= 2**32


async def test_a_producer_that_went_on_at_a_broker_whose_clock_is_behind_loses_nothing() -> None:
    place = RestorePlace()
    batches = [
        make_batch(str(sequence).encode(), producer_id=7, epoch=0, sequence=sequence)
        for sequence in range(10)
    ]
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", batches[:2])
        await place.snapshot()
    async with place.engine(1) as engine:
        await append(engine, "t", batches[2:6])
    place.clock.now -= 60_000
    async with place.engine(2) as engine:
        await append(engine, "t", batches[5:])  # one of them again
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.duplicates) == (8, 1)
    async with place.engine() as engine:
        read = values(await read_all(engine, "t"))
        assert sorted(read) == [b"%d" % number for number in range(10)]
        assert await append(engine, "t", batches[9:]) == read.index(b"9"), "its retry is found"


async def test_records_of_a_broker_whose_clock_is_far_behind_come_back() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await place.snapshot()
    behind = TickingClock()
    behind.now -= 2 * SKEW_MS
    async with running_engine(
        place.meta,
        place.objects,
        broker_id=2,
        settings=OBJECTS_ONLY,
        clock=behind,
        housekeeping=False,
    ) as engine:
        await append(engine, "t", [make_batch(b"b")])
    place.lose_metadata()
    assert (await place.restore()).found.records == 1
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"a", b"b"]


async def test_a_copy_of_the_objects_in_another_kind_of_store_is_read_there() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        job = open_job(topic, store=place.objects.id)
        place.meta.database.apply(Writes(puts={keys.job(0, job.stream): encode(job)}))
        await place.snapshot()
        await append(engine, "t", [make_batch(b"b")])
    copy = WholeObjects(clock=place.clock, id="s3")
    async for info in place.objects.list(""):
        await copy.put(info.key, [await place.objects.get(info.key)])
    place.lose_metadata()
    place.objects = copy
    await place.restore()
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"a", b"b"]
    assert not (await place.meta.scan("d/0000/job/", "d/0000/job0")).entries


def open_job(topic: Topic, store: str) -> Job:
    """One that is open when the snapshot is taken: how it went on the snapshot does not know."""
    file = DataFile(
        key="f", store=store, size=1, rows=1, start=0, end=1, min_timestamp=0, max_timestamp=0
    )
    return Job(
        id="0a1b", kind="compact", stream=topic.streams[0], topic="t", topic_id=str(topic.id),
        partition=0, start=0, end=1, created_ms=0, files=[file], copies=[file],
    )  # fmt: skip


async def test_clients_learn_where_the_cluster_was_set_back_to() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x", count=10)])
        await place.snapshot()
        await append(engine, "t", [make_batch(b"x", count=5)])
        assert await engine.end_of_epoch(topic, 0, 0) == 15
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        topic = await engine.topics.find("t")
        assert await engine.end_of_epoch(topic, 0, 0) == 10
        assert await engine.end_of_epoch(topic, 0, 1) == 15
        await place.snapshot()
    place.lose_metadata()
    assert (await place.restore()).epoch == 2
    async with place.engine() as engine:
        topic = await engine.topics.find("t")
        assert [await engine.end_of_epoch(topic, 0, epoch) for epoch in range(3)] == [10, 15, 15]


async def test_each_restore_of_one_snapshot_has_an_epoch_of_its_own() -> None:
    place = RestorePlace()
    async with place.engine():
        await place.snapshot()
    for epoch in (1, 2, 3):
        place.lose_metadata()
        assert (await place.restore()).epoch == epoch


async def test_streams_of_newer_topics_are_reported_and_their_ids_never_reused() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await place.snapshot()
        lost = await engine.topics.create("lost", 3, {})
        await append(engine, "lost", [make_batch(b"gone")], 2)
    place.lose_metadata()
    done = await place.restore()
    assert done.found.strangers == {lost.streams[2]}
    async with place.engine() as engine:
        created = await engine.topics.create("lost", 1, {})
        assert created.streams[0] > lost.streams[2]


@pytest.mark.parametrize("seed", range(20))
async def test_no_acknowledged_record_in_an_object_is_lost_whenever_the_metadata_is(
    seed: int,
) -> None:
    """Two brokers, an idempotent producer, merges, trims, garbage; then the metadata is gone."""
    rng = Random(seed)
    place = RestorePlace(whole=rng.random() < 0.5)
    acknowledged: dict[bytes, int] = {}
    start = 0
    async with place.engine(1) as first, place.engine(2) as second:
        topic = await first.topics.create("t", 1, {})
        await place.snapshot()
        for number in range(rng.randrange(10, 60)):
            engine = rng.choice([first, second])
            match rng.randrange(8):
                case 0:
                    await place.snapshot()
                case 1:
                    await engine._current.merger.merge(topic.streams)
                case 2 if rng.random() < 0.3:
                    start = await engine.delete_records(topic, 0, len(acknowledged) // 2)
                case 3:
                    await place.collector().collect_released()
                    living = [first.incarnation, second.incarnation]
                    await place.collector().collect_orphans(living)
                case _:
                    value = str(number).encode()
                    batch = make_batch(value, producer_id=1, epoch=0, sequence=len(acknowledged))
                    acknowledged[value] = await append(engine, "t", [batch])
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        found = values(await read_all(engine, "t"))
        wanted = [value for value, offset in acknowledged.items() if offset >= start]
        assert len(found) == len(set(found))
        assert found[len(found) - len(wanted) :] == wanted
