"""Periodic tasks of a broker: merging, retention, deletion of topics, garbage collection."""

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
"""Pseudo stream whose owner collects table files. No stream has this number."""
SNAPSHOT_SHARE = -1
"""Pseudo stream whose owner takes metadata snapshots."""
ORPHANS_SHARE = -2
"""Pseudo stream whose owner looks for the objects of dead incarnations."""
CHECKS_PER_SNAPSHOT_INTERVAL = 4
REST = 4
"""A task rests for at least this multiple of its last run time."""


class Housekeeping:
    """Periodic work that any broker may do; guards inside the transactions keep it safe.

    ``share`` says which streams this broker sweeps, so that brokers divide the work.
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
        """Set when a topic was deleted, to clean up soon."""

    def added_entry(self, stream: int, length: int) -> None:
        """An entry was committed, here or by another broker; counted for the next merge."""
        self._rounds.added(stream, length)

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        for each in landed:
            if each.entry is not None:
                self.added_entry(each.commit.stream, each.entry.length)

    def forget(self, streams: Collection[int]) -> None:
        """The streams were deleted."""
        self._rounds.forget(streams)

    async def run(self) -> None:
        """Work until cancelled."""
        settings = self._settings
        async with asyncio.TaskGroup() as tasks:
            # On a remote store merges mostly wait for requests; with a rest they would fall behind.
            rest = 0 if settings.flush_interval_ms else REST
            tasks.create_task(self._every(settings.merge_interval_ms, self.merge_recent, rest))
            tasks.create_task(self._every(settings.sweep_interval_ms, self.sweep))
            tasks.create_task(self._every(settings.gc_interval_ms, self.collect))
            tasks.create_task(self._clean_when_asked())
            if settings.snapshot_interval_ms:
                # Checked more often, so that a restart does not delay the next snapshot.
                look_ms = max(1, settings.snapshot_interval_ms // CHECKS_PER_SNAPSHOT_INTERVAL)
                tasks.create_task(self._every(look_ms, self.snapshot))

    async def _every(
        self, interval_ms: int, work: Callable[[], Awaitable[object]], rest: int = REST
    ) -> None:
        loop = asyncio.get_running_loop()
        pause = interval_ms / 1000
        while True:
            # Random, so that brokers that start together do not work at the same moments.
            await asyncio.sleep(pause * (0.75 + 0.5 * self._rng.random()))
            started = loop.time()
            await self._attempt(work)
            # Clients come first: slow work runs less often.
            pause = max(interval_ms / 1000, rest * (loop.time() - started))

    async def _attempt(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except (StoreError, KafkaError) as error:
            logger.warning(
                "A housekeeping task failed and is retried later", extra={"error": error}
            )

    async def _clean_when_asked(self) -> None:
        while True:
            await self.deleted_topics.wait()
            self.deleted_topics.clear()
            await self._attempt(self._cleaner.clean_deleted)

    async def merge_recent(self) -> None:
        """Run the rounds of merges that are due, and relieve the metadata store."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.merge_interval_ms / 1000
        rounds = self._rounds
        ready = rounds.next()
        while ready:
            again = await self._current.merger.merge(ready, counts=rounds)
            await self._relieve()
            if not self._settings.flush_interval_ms and loop.time() > until:
                rounds.keep(again)  # They continue after a rest.
                break
            # Other streams do not wait until these are done.
            ready = sorted({*again, *rounds.next()})
        await self._relieve()

    async def _relieve(self) -> None:
        """Move inline entries to objects while the metadata store is crowded."""
        for stream in self._rounds.foreign():
            if self._budget.counted(stream):
                await self._current.merger.measure(stream)
        while crowded := self._budget.crowded():
            if not await self._current.merger.merge(crowded, relieve=True):
                return

    async def sweep(self) -> None:
        """Apply retention to this broker's share of the streams, merge them, check table files."""
        for topic in await self._topics.all():
            for stream in topic.streams:
                if self._share(stream):
                    # An error of one stream must not stop the sweep of the others.
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
                "Retention removed index entries",
                extra={"stream": stream, "log_start": log_start, "entries": removed},
            )

    async def snapshot(self) -> None:
        """Take a metadata snapshot if one is due and it is this broker's task."""
        if not self._share(SNAPSHOT_SHARE):
            self._snapshots_fail_since_ms = None
            return
        now_ms = self._clock.now_ms()
        due_ms = now_ms - self._settings.snapshot_interval_ms
        # A snapshot from the future, by a wrong clock, does not delay the next one.
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
        """Collect garbage, and finish deletions of topics."""
        await self._cleaner.clean_deleted()
        # If no snapshot succeeds, the last ones would hold back garbage for ever.
        given_up = self.snapshots_failing_ms >= SNAPSHOT_LIFE_MS
        if (given_up or not self._settings.snapshot_interval_ms) and self._share(SNAPSHOT_SHARE):
            await self._collector.collect_snapshots()
        await self._collector.collect_released()
        search = self._share(ORPHANS_SHARE)
        await self._collector.collect_orphans(self._living(), search=search)
