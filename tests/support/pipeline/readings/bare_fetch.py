"""Reading a partition by Kafka's protocol alone, with no client between."""

from typing import Any, Final

from bench.clients.wire import BenchConnection
from headwater.wire.batches.batch import CONTROL, HEADER, LENGTH_OVERHEAD
from headwater.wire.batches.records import Record, decode_batch

FETCH: Final = (1, 12)
LIST_OFFSETS: Final = (2, 6)
EARLIEST: Final = -2
LATEST: Final = -1
MAX_BYTES: Final = 16 * 2**20


async def fetch_all(bootstrap: str, topic: str, partition: int) -> list[Record]:
    """Every record from the log's start to its end, decoded one by one."""
    connection = await BenchConnection.open(bootstrap)
    records: list[Record] = []
    try:
        position = await log_edge(connection, topic, partition, EARLIEST)
        high = await log_edge(connection, topic, partition, LATEST)
        while position < high:
            data = await _fetch(connection, topic, partition, position)
            at = 0
            while at < len(data):
                header = HEADER.unpack_from(data, at)
                after = at + header[1] + LENGTH_OVERHEAD
                if not header[5] & CONTROL:
                    batch = decode_batch(data[at:after])
                    records += [record for record in batch if record.offset >= position]
                at, position = after, header[0] + header[6] + 1
    finally:
        connection.close()
    return records


async def log_edge(connection: BenchConnection, topic: str, partition: int, which: int) -> int:
    """The log's start or end."""
    wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": None}
    wanted["timestamp"] = which
    answer = await connection.call(
        *LIST_OFFSETS,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic, "partitions": [wanted]}],
    )
    place = answer.topics[0].partitions[0]
    assert place.error_code == 0, place
    return int(place.offset)


async def _fetch(connection: BenchConnection, topic: str, partition: int, offset: int) -> Any:
    wanted = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": MAX_BYTES,
    }
    answer = await connection.call(
        *FETCH,
        replica_id=-1,
        max_wait=1000,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [wanted]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    place = answer.responses[0].partitions[0]
    assert place.error_code == 0, place
    return place.records
