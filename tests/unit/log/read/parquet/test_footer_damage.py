"""A damaged footer of a Parquet file is a storage error, and never the end of the process."""

import asyncio
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, KafkaStorageError
from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.log.jobs.jobs import DataFile
from headwater.log.read.parquet.rows import parse_footer
from tests.support.log.harness import running_engine
from tests.support.log.parquet_place import SETTINGS, ParquetPlace, consume

PARTS = 4


"""All changes of a small footer, in processes that are short enough for a busy machine."""


@given(st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_footer_is_never_more_than_a_storage_error(data: st.DataObject) -> None:
    asyncio.run(damage(data))


async def compacted(place: ParquetPlace) -> DataFile:
    async with running_engine(
        place.meta, place.objects, settings=SETTINGS, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.produce(engine, topic, 10)
        job = await place.compactor.compact(engine, topic, row_group_bytes=500)
    assert job is not None
    (file,) = job.files
    return file


@pytest.mark.parametrize("mask", [48, 64, 101])
async def test_no_damage_of_a_footer_ends_the_process(mask: int) -> None:
    """Arrow throws where nobody catches, for one where the sizes of histograms do not fit."""
    place = ParquetPlace(4)
    file = await compacted(place)
    content = bytes(await place.objects.get(file.key))
    entry = IndexEntry(
        start=0, end=file.end, kind=PARQUET, length=len(content), size=len(content),
        max_timestamp=0, created_ms=0, key=file.key,
    )  # fmt: skip
    assert parse_footer(bytearray(content[4:]), entry).extents
    refused = 0
    for at in range(len(content) - 600, len(content)):
        damaged = bytearray(content[4:])
        damaged[at - 4] ^= mask
        try:
            parse_footer(damaged, entry)
        except CorruptMessage:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("part", range(PARTS))
def test_no_single_byte_of_a_footer_ends_the_process(part: int) -> None:
    """Arrow throws where nobody catches for a least or greatest value of another length."""
    program = [sys.executable, "-m", "tests.support.log.parquet_damage", str(part), str(PARTS)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    read, refused = map(int, done.stdout.split())
    assert read > 1000
    assert refused > 10_000


async def damage(data: st.DataObject) -> None:
    place = ParquetPlace(4)
    file = await compacted(place)
    content = bytearray(await place.objects.get(file.key))
    at = data.draw(st.integers(len(content) - 600, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    await place.objects.delete(file.key)
    await place.objects.put(file.key, [bytes(content)])
    async with running_engine(
        place.meta, place.objects, broker_id=2, settings=SETTINGS, housekeeping=False
    ) as fresh:
        try:
            await consume(fresh, 0, len(place.records))
        except KafkaStorageError:
            return
