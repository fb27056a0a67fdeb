"""A cluster whose metadata store can be lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from headwater.cluster_record import ClusterRecord
from headwater.log.engine import LogEngine, open_cluster
from headwater.log.formats.snapshot_file import SnapshotDescription
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.claim import claim_objects
from headwater.log.restore.restore import Restoration, restore
from headwater.log.restore.snapshots import Snapshotter
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import WholeObjects, running_engine
from tests.support.simulation.world import at_once

OBJECTS_ONLY = LogSettings(
    inline_bytes=0, merge_fan_in=2, gc_grace_ms=0, orphan_grace_ms=0, snapshots_kept=2
)


class TickingClock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        self.now += 1
        return self.now


class RestorePlace:
    """Objects that last, and a metadata store that can be lost."""

    def __init__(self, *, whole: bool = False, limits: Limits | None = None) -> None:
        self.clock = TickingClock()
        kind = WholeObjects if whole else MemoryObjects
        self.objects = kind(clock=self.clock)
        self.limits = limits
        self.meta = MemoryStore(limits)

    def lose_metadata(self) -> None:
        self.meta = MemoryStore(self.limits)

    async def claim(self) -> ClusterRecord:
        """As a broker does before it starts."""
        record = await open_cluster(self.meta, Random(1))
        return await claim_objects(self.meta, self.objects, record, "memory://first")

    @asynccontextmanager
    async def engine(
        self, broker_id: int = 1, settings: LogSettings = OBJECTS_ONLY
    ) -> AsyncIterator[LogEngine]:
        async with running_engine(
            self.meta,
            self.objects,
            broker_id=broker_id,
            settings=settings,
            clock=self.clock,
            rng=Random(self.clock.now_ms()),
            housekeeping=False,
        ) as engine:
            yield engine

    async def snapshot(self, kept: int = 2) -> SnapshotDescription:
        taken = await Snapshotter(
            self.meta,
            self.objects,
            Reclaimer(self.objects),
            self.clock,
            incarnation=lambda: "x",
            kept=kept,
            offload=at_once,
        ).take()
        assert taken is not None
        return taken

    async def restore(self, *, dry_run: bool = False) -> Restoration:
        return await restore(self.meta, self.objects, self.clock, dry_run=dry_run)

    def collector(self) -> GarbageCollector:
        return GarbageCollector(
            self.meta, self.objects, Reclaimer(self.objects), OBJECTS_ONLY, self.clock
        )


def values(read: list[tuple[int, bytes]]) -> list[bytes]:
    return [value for _, value in read]
