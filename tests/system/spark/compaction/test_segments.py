"""Topics that are compacted to segment files: batches byte for byte, served as they are."""

import os
import zlib

from headwater.log.formats.metadata_values import SEGMENT
from headwater.log.formats.segment import FOOTER, HEADER, MAGIC, parse_index
from headwater.log.settings import LogSettings
from headwater.pipeline.fsck.cluster_check import ClusterCheck
from headwater.pipeline.fsck.report import FindingKind
from headwater.pipeline.metadata_reads import read_topics
from headwater.pipeline.upkeep.table_facts import read_facts
from headwater.wire.batches.batch import batch_sizes
from tests.support.pipeline.cluster import InProcessRunner, PipelineCluster
from tests.support.waiting import eventually
from tests.system.spark.compaction.test_faults import Meanwhile, elsewhere
from tests.system.spark.conftest import SharedSpark

CONFIGS = {"headwater.compact-to": "segment"}


async def test_the_log_is_the_same_before_and_after(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=2, configs=CONFIGS)
    cluster.produce(topic, 2000, partitions=2)
    before = cluster.consume(topic)
    summary = await cluster.compact(topic, runner=spark)
    assert (summary.records, summary.failures) == (2000, [])
    assert {entry.kind for entry in await cluster.entries(topic)} == {SEGMENT}
    assert cluster.consume(topic) == before
    cluster.produce(topic, 100, partitions=2, seed=1)
    mixed = cluster.consume(topic)
    await cluster.compact(topic)
    assert cluster.consume(topic) == mixed
    async with cluster.open() as place:
        assert not place.tables.catalog.table_exists(("headwater", topic))


async def test_files_are_as_their_format_says(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 500)
    await cluster.compact(topic)
    for entry in await cluster.entries(topic):
        data = (cluster.data / "objects" / entry.key).read_bytes()
        magic, version, _, base, count, _, _ = HEADER.unpack_from(data)
        checksum, last, _ = FOOTER.unpack_from(data, len(data) - FOOTER.size)
        bodies = data[HEADER.size : -FOOTER.size]
        assert (magic, version, base, count) == (MAGIC, 1, entry.start, entry.end - entry.start)
        assert (checksum, last) == (zlib.crc32(bodies), entry.end - 1)
        assert sum(records for _, _, records in batch_sizes(bodies)) == count
        index = cluster.data / "objects" / f"{entry.key.removesuffix('.kfs')}.index"
        assert parse_index(index.read_bytes())[0] == (entry.start, HEADER.size)


async def test_the_backlog_is_reported_without_a_table(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    kept_as_is = cluster.create_topic(configs={"headwater.compact-to": "none"})
    for each in (topic, kept_as_is):
        cluster.produce(each, 300)
    assert await waiting(cluster, topic) == ("", 300)
    await cluster.compact(topic)
    assert await waiting(cluster, topic) == ("", 0)
    cluster.produce(topic, 20, seed=1)
    assert await waiting(cluster, topic) == ("", 20)
    assert await waiting(cluster, kept_as_is) == ("", 0)


async def waiting(cluster: PipelineCluster, topic: str) -> tuple[str, int]:
    """The name of a topic's table, and the offsets that wait to be compacted."""
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        facts = await read_facts(place, found)
        return facts.name, facts.waiting


async def test_a_table_may_begin_behind_segments(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    cluster.configure(topic, {"headwater.compact-to": "parquet"})
    cluster.produce(topic, 50, seed=1)
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)[100:]


async def test_records_that_are_deleted_meanwhile_do_not_come_back(
    cluster: PipelineCluster,
) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 300)
    first = (await cluster.entries(topic))[0]

    async def trimmed() -> bool:
        return (await cluster.entries(topic))[0].start == first.end

    def delete() -> None:
        cluster.delete_records(topic, 0, first.end + 1)
        elsewhere(lambda: eventually(trimmed))

    summary = await cluster.compact(topic, watcher=Meanwhile("created", delete))
    assert not summary.failures
    assert [part[2:4] for part in summary.set_aside] == [(first.start, first.end)]
    rows = cluster.consume(topic)
    assert [row.offset for row in rows] == list(range(first.end + 1, 300))
    assert {entry.kind for entry in await cluster.entries(topic)} == {SEGMENT}


async def test_a_range_whose_start_was_trimmed_is_written_from_where_it_begins(
    cluster: PipelineCluster,
) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 300)
    cluster.delete_records(topic, 0, 57)
    expected = cluster.consume(topic)
    assert not (await cluster.compact(topic)).failures
    assert cluster.consume(topic) == expected


async def test_a_check_finds_a_damaged_segment(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 300)
    await cluster.compact(topic)
    entry = (await cluster.entries(topic))[0]
    path = cluster.data / "objects" / entry.key
    whole = path.read_bytes()
    async with cluster.open() as place:
        sound = await ClusterCheck(place, LogSettings(), runner=InProcessRunner()).check()
        os.truncate(path, len(whole) - 1)
        cut = await ClusterCheck(place, LogSettings()).check()
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        flipped = await ClusterCheck(place, LogSettings(), runner=InProcessRunner()).check()
    path.write_bytes(whole)
    assert not [each for each in sound.findings if topic in each.subject]
    assert [each.kind for each in cut.findings if topic in each.subject] == [FindingKind.DAMAGED]
    assert [each.kind for each in flipped.findings if topic in each.subject] == [
        FindingKind.DAMAGED
    ]
