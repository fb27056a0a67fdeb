"""Objects of merges that lost some of their streams to others are deleted like any other."""

from collections.abc import Sequence
from typing import TypeVar

from headwater.log.formats.metadata_values import Layout
from headwater.meta import keys as names
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, Limits, Writes
from headwater.meta.values import encode
from tests.support.log.harness import append, make_batch
from tests.support.log.restoring import RestorePlace

T = TypeVar("T")


class Rival(MemoryStore):
    """Changes a stream's layout just before a merge swaps that stream."""

    stream: int | None = None

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if self.stream is not None:
            layout = names.layout(0, self.stream)
            if layout in keys and any("/merged-" in key for key in keys):
                self.stream = None
                self.database.apply(Writes(puts={layout: encode(Layout(generation=1))}))
        return await super().transact(domain, keys, decide)


async def test_an_object_whose_part_lost_all_of_its_streams_goes_with_its_last_chunk() -> None:
    place = RestorePlace(whole=True)
    place.meta = store = Rival(Limits(operations=7))  # one stream in a transaction
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 2, {})
        for _ in range(4):
            for partition in range(2):
                await append(engine, "t", [make_batch(b"x")], partition)
        store.stream = topic.streams[1]
        await engine._current.merger.merge(topic.streams)
        assert store.stream is None
        (merged,) = [
            info.key async for info in place.objects.list("wal/") if "/merged-" in info.key
        ]
        for partition in range(2):
            await engine.delete_records(topic, partition, -1)
        await place.collector().collect_released()
        assert merged not in [info.key async for info in place.objects.list("wal/")]
        assert not (await store.scan(names.objects(0), names.objects(0) + "~")).entries
        assert not (await store.scan(names.releases(0), names.releases(0) + "~")).entries
