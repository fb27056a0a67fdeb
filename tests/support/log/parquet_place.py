"""A stream that is in Parquet files, and what consumers of it get."""

from random import Random

from headwater.clock import SystemClock
from headwater.engine import Topic
from headwater.log.engine import LogEngine
from headwater.log.read.index import entries_between
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.objects.memory import MemoryObjects
from headwater.wire.batches.batch import (
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    Batch,
    batch_sizes,
    split_batches,
)
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, decode_batch, encode_batch, with_log_append_time
from tests.support.log.compaction import StepwiseCompactor
from tests.support.log.harness import read_once

SETTINGS = LogSettings(inline_bytes=0, object_bytes=1, merge_fan_in=1000, read_bytes=1000)


class ParquetPlace:
    """Stores, and what was produced to the one stream on them."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.clock = SystemClock()
        self.meta = MemoryStore()
        self.objects = MemoryObjects(clock=self.clock)
        self.compactor = StepwiseCompactor(self.meta, self.objects, self.clock, self.rng)
        self.records: list[Record] = []
        self.stamped: set[int] = set()

    def batch(self, count: int | None = None) -> Batch:
        rng, first = self.rng, len(self.records)
        records = [
            Record(
                number,
                rng.choice([-1, 1_700_000_000_000 + rng.randrange(1000)]),
                rng.choice([None, b"", rng.randbytes(9)]),
                rng.choice([None, b"", rng.randbytes(rng.choice([5, 300]))]),
                tuple(
                    (rng.choice([b"h", b"\xff\xfe", b""]), rng.choice([None, b"", b"value"]))
                    for _ in range(rng.choice([0, 0, 3]))
                ),
            )
            for number in range(count or rng.randint(1, 9))
        ]
        codec = rng.choice(list(Codec))
        (batch,) = split_batches(encode_batch(records, codec=codec))
        stamp = 1_700_000_005_000 + rng.randrange(2)
        own_time = rng.random() < 0.2
        if own_time:
            batch = with_log_append_time(batch, stamp)
        for number, record in enumerate(records):
            time = stamp if own_time else record.timestamp
            offset = first + number
            self.records.append(Record(offset, time, record.key, record.value, record.headers))
            if own_time:
                self.stamped.add(offset)
        return batch

    async def produce(self, engine: LogEngine, topic: Topic, batches: int) -> None:
        for _ in range(batches):
            await engine.append(topic, 0, [self.batch()])

    async def kinds(self, topic: Topic) -> list[int]:
        found = entries_between(self.meta, topic.streams[0], 0, 1 << 40)
        return [entry.kind async for entry in found]


async def consume(
    engine: LogEngine, start: int, end: int, max_bytes: int = 3000
) -> tuple[list[Record], set[int]]:
    """The data records from ``start`` on, as a client reads them, and those stamped by the log."""
    offset = start
    records: list[Record] = []
    stamped: set[int] = set()
    while offset < end:
        read = await read_once(engine, "t", 0, offset, max_bytes)
        assert read.parts, f"nothing at {offset}"
        for part in read.parts:
            for position, size, _ in batch_sizes(part):
                batch = bytes(part[position : position + size])
                decode_batch(batch)  # whole, with the right CRC
                fields = HEADER.unpack_from(batch)
                assert fields[0] <= offset < fields[0] + fields[6] + 1 or fields[0] == offset
                if not fields[5] & CONTROL:
                    found = [one for one in decode_batch(batch) if one.offset >= offset]
                    records += found
                    if fields[5] & LOG_APPEND_TIME:
                        stamped |= {one.offset for one in found}
                offset = fields[0] + fields[6] + 1
    return records, stamped
