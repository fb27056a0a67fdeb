"""One partition of a topic as Arrow columns, read in every way that there is."""

import time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from headwater.pipeline.source.data_source import HeadwaterDataSource
from headwater.wire.columnar.schema import SCHEMA
from peers import duckdb
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings.bare_fetch import fetch_all
from tests.support.pipeline.readings.columns import in_order
from tests.support.pipeline.readings.mixed import COLUMNS

LIMIT_SECONDS: Final = 120
AT_ONCE: Final = 20_000
STORED: Final = (*COLUMNS, "producer_id", "producer_epoch", "base_sequence", "attributes")
"""What tables have beside it; Kafka's clients are not shown these."""


def by_librdkafka(bootstrap: str, topic: str, partition: int) -> Any:
    """Through an ordinary consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readings",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.message.max.bytes": 16 * 2**20,
            "fetch.wait.max.ms": 20,
        }
    )
    place = TopicPartition(topic, partition)
    try:
        low, high = consumer.get_watermark_offsets(place, 20)
        consumer.assign([TopicPartition(topic, partition, low)])
        tables = []
        deadline = time.monotonic() + LIMIT_SECONDS
        while low < high:
            assert time.monotonic() < deadline, f"{topic}-{partition}: at {low} of {high}"
            messages = consumer.consume(AT_ONCE, 0.2)
            if messages:
                tables.append(_messages(messages))
            low = max(low, consumer.position([place])[0].offset)
    finally:
        consumer.close()
    return in_order(pa.concat_tables(tables), COLUMNS)


def _messages(messages: list[Any]) -> Any:
    assert not any(message.error() for message in messages)
    return _columns(
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [[(key.encode(), value) for key, value in message.headers() or ()] for message in messages],
    )


def _columns(
    offsets: list[int], times: list[int], keys: list[Any], values: list[Any], headers: list[Any]
) -> Any:
    flat = [pair for pairs in headers for pair in pairs]
    counts = pa.array([0, *(len(pairs) for pairs in headers)], pa.int32())
    kind = SCHEMA.field("headers").type
    pairs = pa.StructArray.from_arrays(
        [
            pa.array([key for key, _ in flat], pa.binary()),
            pa.array([value for _, value in flat], pa.binary()),
        ],
        fields=list(kind.value_type),
    )
    return pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pc.multiply(pa.array(times, pa.int64()), 1000).cast(
                SCHEMA.field("timestamp").type
            ),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.ListArray.from_arrays(pc.cumulative_sum(counts), pairs),
        }
    )


async def by_the_protocol(bootstrap: str, topic: str, partition: int) -> Any:
    """Through bare Fetch requests, decoded record by record: header keys may be any bytes."""
    records = await fetch_all(bootstrap, topic, partition)
    found = _columns(
        [record.offset for record in records],
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [record.headers for record in records],
    )
    return in_order(found, COLUMNS)


def by_spark(session: Any, cluster: PipelineCluster, topic: str, partition: int) -> Any:
    """Through Spark SQL over the data source."""
    session.dataSource.register(HeadwaterDataSource)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    address = cluster.address
    (
        session.read.format("headwater")
        .options(metadata=address.metadata_url, objects=address.objects_url, topic=topic)
        .load()
        .createOrReplaceTempView("readings")
    )
    query = f"SELECT {', '.join(STORED)} FROM readings WHERE partition = {partition}"
    return in_order(session.sql(query).toArrow(), STORED)


def by_pyiceberg(table: Any, partition: int) -> Any:
    """Through pyiceberg's own scan of the table."""
    scan = table.scan(row_filter=f"partition = {partition}", selected_fields=STORED)
    return in_order(scan.to_arrow(), STORED)


def by_duckdb(table: Any, partition: int) -> Any:
    """Through DuckDB's Iceberg extension, from the table's metadata file."""
    columns = ", ".join(f'"{name}"' for name in STORED)
    query = (
        f"SELECT {columns} FROM iceberg_scan('{table.metadata_location}') "
        f'WHERE "partition" = {partition} ORDER BY "offset"'
    )
    return in_order(duckdb.query(query, table.io.properties), STORED)
