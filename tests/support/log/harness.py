"""Engines on memory stores, and batches to feed them."""

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random

from crc32c import crc32c

from headwater.clock import Clock, SystemClock
from headwater.engine import Engine, Read
from headwater.log.engine import LogEngine, open_cluster
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import MetadataStore
from headwater.objects.memory import MemoryObjects
from headwater.objects.store import DeletableObjects, GrowingObject
from headwater.telemetry.metrics import Metrics
from headwater.wire.batches.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    TRANSACTIONAL,
    Batch,
    batch_sizes,
    split_batches,
)
from headwater.wire.batches.markers import Marker, MarkerType
from headwater.wire.batches.records import Record, encode_batch


class WholeObjects(MemoryObjects):
    """Objects that are written whole, as on S3."""

    def grow(self, key: str) -> GrowingObject | None:
        return None


class ClockByHand:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now


_engines = itertools.count()


def make_batch(
    payload: bytes = b"x",
    *,
    count: int = 1,
    timestamp: int = 1_700_000_000_000,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> Batch:
    """A batch whose header is right and whose records are an opaque payload."""
    body = struct.pack(
        ">hiqqqhii", attributes, count - 1, timestamp, timestamp, producer_id, epoch, sequence,
        count,
    )  # fmt: skip
    body += payload
    head = struct.pack(">qiibI", 0, 9 + len(body), -1, 2, crc32c(body))
    (batch,) = split_batches(head + body)
    return batch


def make_marker(
    kind: MarkerType, producer_id: int, epoch: int, *, coordinator_epoch: int = 0
) -> Batch:
    """The control batch by which a transaction coordinator ends a producer's transaction."""
    marker = Marker(kind, coordinator_epoch)
    (batch,) = split_batches(
        encode_batch(
            [Record(0, 1_700_000_000_000, marker.key, marker.value)],
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    )
    return batch


def payloads(read: Read) -> list[tuple[int, bytes]]:
    """(base offset, payload) of every batch that was read."""
    found = []
    for part in read.parts:
        for position, size, _count in batch_sizes(part):
            offset = HEADER.unpack_from(part, position)[0]
            found.append((offset, bytes(part[position + HEADER_SIZE : position + size])))
    return found


async def read_all(
    engine: Engine, topic_name: str, partition: int = 0, *, max_bytes: int = 1 << 20
) -> list[tuple[int, bytes]]:
    """Everything in a partition, as a consumer would read it."""
    topic = await engine.topics.find(topic_name)
    bounds = await engine.offsets(topic, partition)
    offset, found = bounds.log_start, []
    while offset < bounds.high_watermark:
        read = await read_once(engine, topic_name, partition, offset, max_bytes)
        batches = payloads(read)
        assert batches, f"nothing at {offset} of {bounds}"
        found += batches
        last = read.parts[-1]
        *_, (position, _size, count) = batch_sizes(last)
        offset = HEADER.unpack_from(last, position)[0] + count
    return found


async def read_once(
    engine: Engine, topic_name: str, partition: int, offset: int, max_bytes: int = 1 << 20
) -> Read:
    topic = await engine.topics.find(topic_name)
    answer = engine.read(topic, partition, offset, max_bytes, committed=False)
    return answer if isinstance(answer, Read) else await answer


async def poll(engine: Engine, topic_name: str, partition: int, offset: int) -> Read:
    """A fetch that waits until there is something, as consumers do."""
    topic = await engine.topics.find(topic_name)
    read = await read_once(engine, topic_name, partition, offset)
    waiter = engine.waiter({topic.streams[partition]: read.offsets})
    try:
        while not read.parts:
            assert await waiter.wait(10), f"nothing came at {offset}"
            read = await read_once(engine, topic_name, partition, offset)
        return read
    finally:
        waiter.close()


async def append(
    engine: Engine, topic_name: str, batches: Iterable[Batch], partition: int = 0
) -> int:
    topic = await engine.topics.find(topic_name)
    return (await engine.append(topic, partition, list(batches))).base_offset


def memory_stores() -> tuple[MemoryStore, MemoryObjects]:
    """A metadata store and an object store that last as long as the test."""
    return MemoryStore(), MemoryObjects(clock=SystemClock())


@asynccontextmanager
async def running_engine(
    meta: MetadataStore,
    objects: DeletableObjects,
    *,
    broker_id: int = 1,
    settings: LogSettings | None = None,
    clock: Clock | None = None,
    rng: Random | None = None,
    housekeeping: bool = True,
    share: Callable[[int], bool] = lambda _stream: True,
) -> AsyncIterator[LogEngine]:
    rng = rng or Random(f"{broker_id} {next(_engines)}")  # each engine draws names of its own
    engine = LogEngine(
        meta=meta,
        objects=objects,
        reclaimer=Reclaimer(objects),
        broker_id=broker_id,
        cluster=await open_cluster(meta, rng),
        settings=settings or LogSettings(),
        clock=clock or SystemClock(),
        rng=rng,
        metrics=Metrics(),
        living=lambda: [engine.incarnation],
        share=share,
    )
    await engine.start()
    task = asyncio.create_task(engine.run()) if housekeeping else None
    try:
        yield engine
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        await engine.close()
