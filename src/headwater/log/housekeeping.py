"""The broker's own housekeeping: merging, retention, deleted topics and garbage."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random

from headwater.clock import Clock
from headwater.errors import KafkaError, StoreError
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import Tail
from headwater.log.incarnation import CurrentIncarnation
from headwater.log.merge.inline_budget import InlineBudget
from headwater.log.merge.rounds import MergeRounds
from headwater.log.read.index import IndexReader
from headwater.log.reclaim.garbage import SNAPSHOT_LIFE_MS, GarbageCollector
from headwater.log.reclaim.retention import retained_from
from headwater.log.reclaim.topic_deletion import TopicCleaner
from headwater.log.reclaim.trim import LogTrimmer
from headwater.log.restore.snapshots import Snapshotter, kept_snapshots
from headwater.log.settings import LogSettings
from headwater.log.topics import TopicStore
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.topic_config import topic as topic_configs

logger = logging.getLogger(__name__)

TABLES_SHARE = 0
"""Whose share the files of tables are: no stream has this number."""
SNAPSHOT_SHARE = -1
"""Whose share the snapshots of the metadata are."""
ORPHANS_SHARE = -2
"""Whose share the objects of dead incarnations are."""
SNAPSHOT_LOOKS = 4
REST = 4
"""How many times as long as it worked a task rests."""


class Housekeeping:
    """Periodic work that any broker may do; guards inside the transactions keep it safe.

    ``share`` says which streams this broker sweeps, so that brokers do not all do the same.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        topics: TopicStore,
        index: IndexReader,
        trimmer: LogTrimmer,
        cleaner: TopicCleaner,
        collector: GarbageCollector,
        current: CurrentIncarnation,
        snapshotter: Snapshotter,
        budget: InlineBudget,
        settings: LogSettings,
        clock: Clock,
        rng: Random,
        living: Callable[[], Collection[str]],
        share: Callable[[int], bool],
        topic_defaults: Callable[[], Mapping[str, str]],
    ) -> None:
        self._meta = meta
        self._topics = topics
        self._index = index
        self._trimmer = trimmer
        self._cleaner = cleaner
        self._collector = collector
        self._current = current
        self._snapshotter = snapshotter
        self._budget = budget
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._living = living
        self._share = share
        self._topic_defaults = topic_defaults
        self._snapshots_fail_since_ms: int | None = None
        self._rounds = MergeRounds(settings, share, clock)
        self.deleted_topics = asyncio.Event()
        """Set to have deleted topics cleaned up soon."""

    def added_entry(self, stream: int, length: int) -> None:
        """An entry was committed, here or by another broker: a merge may become worth while."""
        self._rounds.added(stream, length)

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        for each in landed:
            if each.entry is not None:
                self.added_entry(each.commit.stream, each.entry.length)

    def forget(self, streams: Collection[int]) -> None:
        """Streams are gone."""
        self._rounds.forget(streams)

    async def run(self) -> None:
        """Work until cancelled."""
        settings = self._settings
        async with asyncio.TaskGroup() as tasks:
            # On a paid store a merge mostly waits for requests: with a rest it would fall behind.
            rest = 0 if settings.flush_interval_ms else REST
            tasks.create_task(self._every(settings.merge_interval_ms, self.merge_recent, rest))
            tasks.create_task(self._every(settings.sweep_interval_ms, self.sweep))
            tasks.create_task(self._every(settings.gc_interval_ms, self.collect))
            tasks.create_task(self._clean_when_asked())
            if settings.snapshot_interval_ms:
                # Looked at more often, so that a restart does not put the next one off.
                look_ms = max(1, settings.snapshot_interval_ms // SNAPSHOT_LOOKS)
                tasks.create_task(self._every(look_ms, self.snapshot))

    async def _every(
        self, interval_ms: int, work: Callable[[], Awaitable[object]], rest: int = REST
    ) -> None:
        loop = asyncio.get_running_loop()
        pause = interval_ms / 1000
        while True:
            # Spread out, so that brokers started together do not work in step.
            await asyncio.sleep(pause * (0.75 + 0.5 * self._rng.random()))
            started = loop.time()
            await self._attempt(work)
            # Producers and consumers come first: work that takes long is done less often.
            pause = max(interval_ms / 1000, rest * (loop.time() - started))

    async def _attempt(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except (StoreError, KafkaError) as error:
            logger.warning("housekeeping is put off: %s", error)

    async def _clean_when_asked(self) -> None:
        while True:
            await self.deleted_topics.wait()
            self.deleted_topics.clear()
            await self._attempt(self._cleaner.clean_deleted)

    async def merge_recent(self) -> None:
        """Merge the streams of this broker's share that have enough small entries.

        Where the metadata store is crowded, what lies there is moved to objects.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.merge_interval_ms / 1000
        rounds = self._rounds
        ready = rounds.next()
        while ready:
            again = await self._current.merger.merge(ready, counts=rounds)
            await self._relieve()
            if not self._settings.flush_interval_ms and loop.time() > until:
                rounds.keep(again)  # after a rest
                break
            # The others are not to wait until these have nothing more.
            ready = sorted({*again, *rounds.next()})
        await self._relieve()

    async def _relieve(self) -> None:
        """Where the metadata store is crowded, move what lies there to objects."""
        for stream in self._rounds.foreign():
            if self._budget.counted(stream):
                await self._current.merger.measure(stream)
        while crowded := self._budget.crowded():
            if not await self._current.merger.merge(crowded, relieve=True):
                return

    async def sweep(self) -> None:
        """Apply retention to, and merge, every stream of this broker's share; look at tables."""
        for topic in await self._topics.all():
            for stream in topic.streams:
                if self._share(stream):
                    # One stream that cannot be served must not keep the others from it.
                    configs = {**self._topic_defaults(), **topic.configs}
                    await self._attempt(partial(self._sweep_stream, stream, configs))
        if self._share(TABLES_SHARE):
            await self._collector.collect_lost_files()

    async def _sweep_stream(self, stream: int, configs: Mapping[str, str]) -> None:
        await self._retain(stream, configs)
        await self._current.merger.merge([stream], thorough=True)

    async def _retain(self, stream: int, configs: Mapping[str, str]) -> None:
        await self._trimmer.clean(stream)
        if not topic_configs.is_deleted(configs):
            return
        stored = await self._meta.get(keys.tail(0, stream))
        if stored is None:
            return
        start = await retained_from(
            self._index.entries(stream),
            size=decode(Tail, stored.value).size,
            retention_ms=topic_configs.retention_ms(configs),
            retention_bytes=topic_configs.retention_bytes(configs),
            now_ms=self._clock.now_ms(),
        )
        if start:
            log_start = await self._trimmer.advance(stream, start)
            removed = await self._trimmer.clean(stream)
            logger.info(
                "retention: stream %d starts at %d, %d entries gone", stream, log_start, removed
            )

    async def snapshot(self) -> None:
        """Copy the metadata to the object store where that is due, and this broker's to do."""
        if not self._share(SNAPSHOT_SHARE):
            self._snapshots_fail_since_ms = None
            return
        now_ms = self._clock.now_ms()
        due_ms = now_ms - self._settings.snapshot_interval_ms
        # One from the future, of a clock that was wrong, does not put the next one off.
        kept = await kept_snapshots(self._meta)
        if not any(due_ms < each.taken_ms <= now_ms for each in kept):
            try:
                await self._snapshotter.take()
            except (StoreError, KafkaError):
                if self._snapshots_fail_since_ms is None:
                    self._snapshots_fail_since_ms = now_ms
                raise
        self._snapshots_fail_since_ms = None

    @property
    def snapshots_failing_ms(self) -> int:
        """How long this broker has failed to take a snapshot; 0 if the last one succeeded."""
        since_ms = self._snapshots_fail_since_ms
        return 0 if since_ms is None else max(0, self._clock.now_ms() - since_ms)

    async def collect(self) -> None:
        """Remove garbage and finish deletions that other brokers left."""
        await self._cleaner.clean_deleted()
        # If no snapshot succeeds, the last ones would hold garbage back without end.
        given_up = self.snapshots_failing_ms >= SNAPSHOT_LIFE_MS
        if (given_up or not self._settings.snapshot_interval_ms) and self._share(SNAPSHOT_SHARE):
            await self._collector.collect_snapshots()
        await self._collector.collect_released()
        search = self._share(ORPHANS_SHARE)
        await self._collector.collect_orphans(self._living(), search=search)
