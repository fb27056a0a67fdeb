"""A topic of mixed records is the same in every way that it is read, record by record.

``HEADWATER_EQUALITY_RECORDS`` is how many there are; ``make chaos`` takes five million.
"""

import os
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from crc32c import crc32c

from headwater.log.formats.metadata_values import IndexEntry
from headwater.wire.batches.batch import CRC_START
from headwater.wire.batches.codecs import Codec
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings import readings
from tests.support.pipeline.readings.columns import Different, assert_same, in_order
from tests.support.pipeline.readings.every_reading import check_every_reading, iceberg_table
from tests.support.pipeline.readings.mixed import COLUMNS, RecordBlock
from tests.support.pipeline.readings.mixed_produce import wire_producer
from tests.support.pipeline.readings.mixed_topic import GAPS, fill
from tests.support.pipeline.sizes import SIZE
from tests.system.spark.conftest import SharedSpark

RECORDS: Final = int(os.environ.get("HEADWATER_EQUALITY_RECORDS", "5000000" if SIZE else "100000"))
FILE_BYTES: Final = 2**20 + RECORDS * 5
LIMIT_SECONDS: Final = 180 + RECORDS // 1500


@pytest.mark.timeout(LIMIT_SECONDS)
async def test_kafka_spark_pyiceberg_and_duckdb_read_the_same_records_before_and_after_compaction(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = await fill(cluster, RECORDS, spark)
    gaps = pa.concat_tables(topic.expected(GAPS)).column("offset")
    assert gaps[-1].as_py() + 1 > len(gaps), "there is no gap in the offsets"
    assert await check_every_reading(topic, spark, FILE_BYTES) >= RECORDS


async def test_a_byte_that_changes_in_the_log_is_found_in_every_reading(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    async with wire_producer(cluster.bootstrap, topic) as producer:
        written = await producer.send(0, RecordBlock(1000, seed=1), codec=Codec.NONE, size=500_000)
    expected = in_order(written.table(), COLUMNS)
    (entry,) = await cluster.entries(topic)
    change_a_byte(
        cluster.data / "objects" / entry.key, entry, expected.column("value")[615].as_py()
    )
    await cluster.compact(topic)
    table = await iceberg_table(cluster, topic)
    for reading in (
        readings.by_librdkafka(cluster.bootstrap, topic, 0),
        readings.by_spark(spark.session, cluster, topic, 0),
        readings.by_pyiceberg(table, 0),
        readings.by_duckdb(table, 0),
    ):
        with pytest.raises(Different, match=r"row 615 is \{'offset': 615"):
            assert_same("changed", reading.select(COLUMNS), expected)


def change_a_byte(path: Path, entry: IndexEntry, value: bytes) -> None:
    """Change one bit of the one batch of an entry, and seal the batch as if it had been so."""
    data = bytearray(path.read_bytes())
    batch = memoryview(data)[entry.position : entry.position + entry.length]
    batch[bytes(batch).index(value)] ^= 1
    batch[17:21] = crc32c(batch[CRC_START:]).to_bytes(4, "big")
    path.chmod(0o644)
    path.write_bytes(data)
