"""Consumers of ranges that are in Parquet and segment files get what was produced."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import KafkaStorageError
from headwater.log.formats.metadata_values import PARQUET, SEGMENT
from headwater.log.read.filler import MAX_SPAN, filler_batches
from headwater.log.read.parquet import source as parquet_source
from headwater.log.read.parquet.detection import has_parquet_files
from headwater.log.settings import LogSettings
from headwater.wire.batches.batch import (
    HEADER,
    split_batches,
)
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from tests.support.log.compaction import follow, read_range
from tests.support.log.harness import read_once, running_engine
from tests.support.log.parquet_place import SETTINGS, ParquetPlace, consume


@pytest.mark.parametrize("seed", range(6))
async def test_a_range_in_parquet_is_served_as_it_was_produced(seed: int) -> None:
    place = ParquetPlace(seed)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 40)
        middle = len(place.records)
        await place.compactor.compact(engine, topic, row_group_bytes=place.rng.choice([100, 3000]))
        assert await place.kinds(topic) == [PARQUET]
        await place.produce(engine, topic, 5)
        end = len(place.records)
        assert await consume(engine, 0, end) == (place.records, place.stamped)
    async with running_engine(
        place.meta, place.objects, broker_id=2, settings=SETTINGS, housekeeping=False
    ) as fresh:
        assert await consume(fresh, 0, end) == (place.records, place.stamped)
        start = place.rng.randrange(middle)
        assert (await consume(fresh, start, end, 1))[0] == place.records[start:]


@pytest.mark.parametrize("seed", range(6))
async def test_gaps_are_passed_over_and_never_seen_as_loss(seed: int) -> None:
    place = ParquetPlace(seed)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 30)
        end = len(place.records)
        low = place.rng.randrange(end)
        dropped = set(range(low, min(low + place.rng.choice([1, 30, end]), end)))
        dropped |= set(range(end - place.rng.randrange(5), end))
        await place.compactor.compact(engine, topic, dropped=dropped, row_group_bytes=500)
        kept = [record for record in place.records if record.offset not in dropped]
        for start in range(0, end, 7):
            found, _ = await consume(engine, start, end)
            assert found == [record for record in kept if record.offset >= start]


async def test_a_range_without_any_record_is_one_control_batch() -> None:
    place = ParquetPlace()
    async with running_engine(place.meta, place.objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        await engine.append(topic, 0, [place.batch(7)])
        await place.compactor.compact(engine, topic, dropped=range(7))
        for offset in range(7):
            read = await read_once(engine, "t", 0, offset)
            (part,) = read.parts
            fields = HEADER.unpack_from(part)
            assert (fields[0], fields[6], fields[9], fields[12]) == (0, 6, -1, 1)
            (marker,) = decode_batch(part)
            assert marker.is_control
            assert marker.key == b"\0\0\0\1"
        assert await engine.max_timestamp(topic, 0) is None


@given(st.integers(0, 2**40), st.integers(1, 3 * 2**31))
@settings(max_examples=30)
def test_fillers_span_any_gap(start: int, length: int) -> None:
    offset = start
    for batch in filler_batches(start, start + length):
        fields = HEADER.unpack_from(batch)
        assert fields[0] == offset
        assert 0 <= fields[6] < MAX_SPAN
        offset += fields[6] + 1
    assert offset == start + length


@pytest.mark.parametrize("interval", [1, 20, 10_000])
@pytest.mark.parametrize("read_bytes", [300, 1 << 20])
async def test_a_segment_is_served_byte_for_byte(interval: int, read_bytes: int) -> None:
    place = ParquetPlace(interval)
    tuned = LogSettings(inline_bytes=0, object_bytes=1, read_bytes=read_bytes)
    async with running_engine(
        place.meta, place.objects, settings=tuned, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 30)
        end = len(place.records)
        before = await read_range(engine, topic, 0, 0, end)
        job = await place.compactor.create(topic)
        assert job is not None
        file = await place.compactor.write_segment(job, before, interval)
        fixed = await place.compactor.steps.fix(job, [file])
        assert fixed is not None
        await place.compactor.run_jobs(fixed)
        follow(engine, topic)
        assert await place.kinds(topic) == [SEGMENT]
        assert await read_range(engine, topic, 0, 0, end) == before
        assert await consume(engine, 0, end) == (place.records, place.stamped)
        largest = max(record.timestamp for record in place.records)
        found = await engine.max_timestamp(topic, 0)
        assert found is not None
        assert found.timestamp == largest


@pytest.mark.parametrize("seed", range(4))
async def test_look_ups_by_time_are_exact_to_the_record(seed: int) -> None:
    place = ParquetPlace(seed)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 30)
        await place.compactor.compact(engine, topic, row_group_bytes=400)
        await place.produce(engine, topic, 5)
        for log_start in (0, place.rng.randrange(100)):
            await engine.delete_records(topic, 0, log_start)
            kept = place.records[log_start:]
            times = sorted({record.timestamp for record in kept if record.timestamp >= 0})
            largest = next(one for one in kept if one.timestamp == times[-1])
            assert await engine.max_timestamp(topic, 0) == (largest.offset, largest.timestamp)
            for time in times[:: max(1, len(times) // 20)]:
                for edge in (time - 1, time, time + 1):
                    expected = next(
                        ((one.offset, one.timestamp) for one in kept if one.timestamp >= edge), None
                    )
                    assert await engine.offset_for_timestamp(topic, 0, edge) == expected


async def test_other_files_of_the_same_range_are_not_mixed_up_with_what_is_cached() -> None:
    place = ParquetPlace(5)
    tuned = LogSettings(inline_bytes=0, object_bytes=1, read_bytes=100)
    async with running_engine(
        place.meta, place.objects, settings=tuned, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        (large,) = split_batches(
            encode_batch([Record(n, n, b"k%d" % (n % 3), b"v" * 30) for n in range(50)])
        )
        await engine.append(topic, 0, [large, large, large, large])
        produced = await consume(engine, 0, 200)
        follow(engine, topic)
        # Each rewrite has the range of the one before, in other row groups or with fewer records.
        for row_group_bytes, dropped in ((300, ()), (5000, ()), (1000, range(0, 200, 3))):
            await place.compactor.compact(
                engine, topic, row_group_bytes=row_group_bytes, dropped=dropped
            )
            found = await consume(engine, 0, 200)
            kept = [record for record in produced[0] if record.offset not in dropped]
            assert found == (kept, set())


async def test_only_the_footer_and_the_row_groups_asked_for_are_read() -> None:
    place = ParquetPlace(1)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        for _ in range(60):
            value = place.rng.randbytes(20_000)
            batch = encode_batch([Record(0, 5, None, value)])
            await engine.append(topic, 0, split_batches(batch))
        job = await place.compactor.compact(engine, topic, row_group_bytes=30_000)
    assert job is not None
    (file,) = job.files
    async with running_engine(
        place.meta, place.objects, broker_id=2, settings=SETTINGS, housekeeping=False
    ) as fresh:
        before = place.objects.traffic.bytes_read
        await read_once(fresh, "t", 0, 30, 1000)
        assert place.objects.traffic.bytes_read - before < file.size / 4
        before = place.objects.traffic.bytes_read
        for _ in range(3):
            await read_once(fresh, "t", 0, 30, 1000)
        assert place.objects.traffic.bytes_read == before


async def test_many_footers_in_use_stay_within_their_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_source, "FOOTER_BYTES", 1)
    place = ParquetPlace(2)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        for _ in range(4):
            start = len(place.records)
            await place.produce(engine, topic, 6)
            await place.compactor.compact(engine, topic, start=start, row_group_bytes=500)
        for _ in range(2):
            assert (await consume(engine, 0, len(place.records)))[0] == place.records


async def test_without_the_extra_the_answer_is_a_storage_error_and_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = ParquetPlace(3)
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 3)
        assert not await has_parquet_files(place.meta)
        await place.compactor.compact(engine, topic)
    assert await has_parquet_files(place.meta)

    def missing() -> Any:
        raise ImportError("No module named 'pyarrow'")

    monkeypatch.setattr(parquet_source, "_import_rows", missing)
    async with running_engine(
        place.meta, place.objects, broker_id=2, settings=SETTINGS, housekeeping=False
    ) as fresh:
        with pytest.raises(KafkaStorageError, match="Parquet"):
            await read_once(fresh, "t", 0, 0)
    assert "extra `table`" in caplog.text


def test_parquet_is_not_imported_with_the_engine() -> None:
    program = "import sys, headwater.log.engine; print({'pyarrow', 'numba'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"set()"
