"""ListOffsets by time, exact to the record, against a plain model."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headwater.engine import TimestampedOffset, Topic
from headwater.log.engine import LogEngine
from headwater.log.record_work import RecordWork
from headwater.log.settings import LogSettings
from headwater.wire.batches.batch import Batch, split_batches
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, encode_batch, with_log_append_time
from tests.support.log.harness import memory_stores, running_engine

SETTINGS = {
    "inline": LogSettings(merge_fan_in=4),
    "objects": LogSettings(inline_bytes=0, merge_fan_in=4),
    "pieces": LogSettings(inline_bytes=0, read_bytes=300, merge_fan_in=4),
}


class TimestampModel:
    """Every record's timestamp by its offset."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.times: list[int] = []
        self.log_start = 0

    def batch(self, codec: Codec) -> Batch:
        rng = self.rng
        around = len(self.times) * 10
        times = [
            rng.choice([-1, around + rng.randrange(-60, 60), around])
            for _ in range(rng.randint(1, 6))
        ]
        times = [max(time, -1) for time in times]
        data = encode_batch(
            [Record(n, time, None, b"v" * 20) for n, time in enumerate(times)], codec=codec
        )
        (batch,) = split_batches(data)
        if rng.random() < 0.1:
            batch = with_log_append_time(batch, around)
            times = [around] * len(times)
        self.times += times
        return batch

    def first_at_or_after(self, timestamp: int) -> TimestampedOffset | None:
        for offset in range(self.log_start, len(self.times)):
            if self.times[offset] >= timestamp:
                return TimestampedOffset(offset, self.times[offset])
        return None

    def largest(self) -> TimestampedOffset | None:
        latest = max(self.times[self.log_start :], default=-1)
        return self.first_at_or_after(latest) if latest >= 0 else None


async def check(model: TimestampModel, engine: LogEngine, topic: Topic) -> None:
    assert await engine.max_timestamp(topic, 0) == model.largest()
    edges = {time + step for time in model.times for step in (-1, 0, 1)}
    for timestamp in sorted(edge for edge in edges if edge >= 0):
        found = await engine.offset_for_timestamp(topic, 0, timestamp)
        assert found == model.first_at_or_after(timestamp), timestamp


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("name", SETTINGS)
async def test_look_ups_are_exact_to_the_record(name: str, codec: Codec, seed: int) -> None:
    model = TimestampModel(Random(seed))
    meta, objects = memory_stores()
    async with running_engine(meta, objects, settings=SETTINGS[name], housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {"retention.ms": "-1"})
        assert await engine.max_timestamp(topic, 0) is None
        assert await engine.offset_for_timestamp(topic, 0, 0) is None
        for _ in range(6):
            futures = [
                engine.append(topic, 0, [model.batch(codec)])
                for _ in range(model.rng.randint(1, 3))
            ]
            for future in futures:
                await future
        await check(model, engine, topic)
        await engine._maintenance.merge_recent()
        await engine._maintenance.sweep()
        model.log_start = model.rng.randrange(len(model.times))
        await engine.delete_records(topic, 0, model.log_start)
        await check(model, engine, topic)
    async with running_engine(
        meta, objects, broker_id=2, settings=SETTINGS[name], housekeeping=False
    ) as fresh:
        await check(model, fresh, topic)


async def test_the_largest_timestamp_below_log_start_does_not_count() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        records = [Record(n, time, None, b"") for n, time in enumerate((5, 90, 7, 8, 8))]
        await engine.append(topic, 0, split_batches(encode_batch(records)))
        assert await engine.max_timestamp(topic, 0) == (1, 90)
        await engine.delete_records(topic, 0, 2)
        assert await engine.max_timestamp(topic, 0) == (3, 8)
        assert await engine.offset_for_timestamp(topic, 0, 9) is None
        await engine.delete_records(topic, 0, -1)
        assert await engine.max_timestamp(topic, 0) is None


async def test_records_without_a_time_have_no_largest() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        await engine.append(
            topic, 0, split_batches(encode_batch([Record(0, -1, None, b"timeless")]))
        )
        assert await engine.max_timestamp(topic, 0) is None
        assert await engine.offset_for_timestamp(topic, 0, 0) is None


async def test_records_are_searched_within_the_bounds_of_all_record_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    run = RecordWork.run

    async def noted(
        work: RecordWork, job: Callable[[int], Any], size: int, most: int, *, copies: int = 1
    ) -> Any:
        sizes.append(size)
        return await run(work, job, size, most, copies=copies)

    monkeypatch.setattr(RecordWork, "run", noted)
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        records = [Record(n, n, None, b"v" * 1_000) for n in range(100)]
        (batch,) = split_batches(encode_batch(records, codec=Codec.ZSTD))
        await engine.append(topic, 0, [batch])
        assert await engine.offset_for_timestamp(topic, 0, 70) == (70, 70)
    assert sizes == [batch.size]
