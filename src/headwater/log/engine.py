"""The log over object storage and a metadata store: the engine behind the broker's handlers."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from random import Random

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord, ClusterRecordFollower
from headwater.engine import (
    Appended,
    LogDirectory,
    Offsets,
    Producer,
    Read,
    TimestampedOffset,
    Topic,
)
from headwater.errors import KafkaError, StoreError
from headwater.feature_levels import SUPPORTED_LEVELS, check_level
from headwater.log.admin_queries import epoch_end, remembered_producers, stored_sizes
from headwater.log.append.sequence_gaps import REMEMBERED_SECONDS, SequenceGaps
from headwater.log.assembly import (
    EngineContext,
    assemble_follower,
    assemble_read_path,
    assemble_upkeep,
    make_incarnation,
)
from headwater.log.incarnation import CurrentIncarnation
from headwater.log.incarnation_names import take_name
from headwater.log.read.parquet.source import Offload, in_thread
from headwater.log.read.parquet.warm_up import warm_up_for_tables
from headwater.log.read.streams import StreamWaiter
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.record_work import RecordWork
from headwater.log.restore.claim import refuse_unfinished, watch_claim
from headwater.log.settings import LogSettings
from headwater.log.topics import TopicStore
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode
from headwater.objects.store import ObjectStore
from headwater.telemetry.metrics import Metrics
from headwater.topic_config.topic import is_cheap
from headwater.wire.batches.batch import Batch

logger = logging.getLogger(__name__)

REVIVAL_RETRY = 0.5
IN_MEMORY = LogDirectory("memory://")


async def open_cluster(meta: MetadataStore, rng: Random) -> ClusterRecord:
    """The cluster's record. The first broker creates it, at the highest level that it speaks.

    Raises ``UnknownFormat`` if this release does not support the cluster's level, and
    ``ConfigurationError`` where a restore of it was not finished.
    """
    proposed = encode(ClusterRecord(id=_random_id(rng), level=SUPPORTED_LEVELS.highest))

    def decide(values: Values) -> tuple[Writes, bytes]:
        writes = Writes()
        there = values[keys.CLUSTER]
        if there is not None:
            return writes, there.value
        writes.put(keys.CLUSTER, proposed)
        return writes, proposed

    cluster = decode(ClusterRecord, await transact(meta, [keys.CLUSTER], decide))
    check_level(cluster.level, SUPPORTED_LEVELS)
    refuse_unfinished(cluster)
    return cluster


def _random_id(rng: Random) -> str:
    """22 characters, like Kafka's cluster ids."""
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


class LogEngine:
    """See ``headwater.engine.StorageEngine``.

    ``living`` names the incarnations of the brokers that are registered now, ``share`` says
    which streams' housekeeping is this broker's, ``topic_defaults`` what holds for topics that
    set nothing themselves; ``offload`` runs what would block the event loop. ``directory`` is where
    ``objects`` are, for people.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        broker_id: int,
        cluster: ClusterRecord,
        settings: LogSettings,
        clock: Clock,
        rng: Random,
        metrics: Metrics,
        living: Callable[[], Collection[str]],
        share: Callable[[int], bool],
        topic_defaults: Callable[[], Mapping[str, str]] = dict,
        offload: Offload = in_thread,
        record_work: RecordWork | None = None,
        directory: LogDirectory = IN_MEMORY,
    ) -> None:
        self.directory = directory
        self._context = context = EngineContext(
            meta=meta,
            objects=objects,
            reclaimer=reclaimer,
            cluster=cluster,
            settings=settings,
            clock=clock,
            rng=rng,
            metrics=metrics,
            offload=offload,
        )
        self._broker_id = broker_id
        self._metrics = metrics
        self._cluster = ClusterRecordFollower(meta, cluster)
        self._current = CurrentIncarnation()
        self.topics = TopicStore(meta, rng, self._close_streams)
        self._reads = assemble_read_path(context, record_work)
        self._streams = self._reads.streams
        self._loader = self._reads.loader
        self._reader = self._reads.reader
        self._timestamps = self._reads.timestamps
        self._upkeep = assemble_upkeep(
            context,
            self._reads,
            self.topics,
            self._current,
            living=living,
            share=share,
            topic_defaults=topic_defaults,
        )
        self._trimmer = self._upkeep.trimmer
        self._maintenance = self._upkeep.maintenance
        self._follower = assemble_follower(
            context, self._reads, self.topics, self._upkeep, self._current
        )
        self._gaps = SequenceGaps(max(REMEMBERED_SECONDS, settings.append_timeout_ms / 500))
        metrics.refreshers.append(self._refresh_metrics)

    async def start(self) -> None:
        """Take a name to write under."""
        await self.become_new_incarnation()

    async def become_new_incarnation(self) -> None:
        """Begin to write under a new name, at the start or after a fence.

        Raises ``ConfigurationError`` if the metadata store was emptied, or the cluster was restored
        into it: there, offsets would be assigned twice.
        """
        context = self._context
        name = await take_name(context.meta, context.cluster, self._broker_id, self._new_name)
        # A commit under the old name may have been applied although its answer was lost.
        self._streams.invalidate_bounds()
        self._current.replace(
            make_incarnation(
                name,
                context,
                self._reads,
                self._upkeep,
                follower=self._follower,
                cluster=self._cluster,
                gaps=self._gaps,
            )
        )

    @property
    def incarnation(self) -> str:
        return self._current.name()

    def _new_name(self) -> str:
        now_ms, chance = self._context.clock.now_ms(), self._context.rng.getrandbits(32)
        return f"{self._broker_id}-{now_ms}-{chance:08x}"

    async def run(self) -> None:
        """Follow other brokers and run housekeeping, until cancelled."""
        context = self._context
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cluster.run())
            tasks.create_task(self._cluster.check())
            tasks.create_task(watch_claim(context.meta, context.objects, context.cluster))
            tasks.create_task(self._follower.run())
            tasks.create_task(self._maintenance.run())
            tasks.create_task(self._revive())
            tasks.create_task(warm_up_for_tables(context.meta, self._reads.parquet.warm_up))

    async def _revive(self) -> None:
        while True:
            await self._current.active.fenced.wait()
            logger.warning(
                "This incarnation was fenced; taking a new name",
                extra={"incarnation": self.incarnation},
            )
            try:
                await self.become_new_incarnation()
            except KafkaError as error:
                logger.warning("Cannot take a new name yet", extra={"error": error})
                await asyncio.sleep(REVIVAL_RETRY)

    async def close(self) -> None:
        """Flush the buffer and stop. Nothing may be appended any more."""
        await self._current.writer.close()
        await self._loader.close()

    @property
    def level(self) -> int:
        """The cluster's feature level, as far as this broker knows."""
        return self._cluster.level

    @property
    def room(self) -> bool:
        return self._current.writer.buffer_limit.has_room

    async def wait_for_room(self) -> None:
        await self._current.writer.buffer_limit.wait_for_room()

    @property
    def bytes_per_client(self) -> int:
        return max(1, self._context.settings.buffer_bytes // 2)

    @property
    def inline_eligible_appends(self) -> int:
        return self._current.writer.inline_eligible_appends

    @property
    def next_flush_at(self) -> float:
        return self._current.writer.next_flush_at

    def append(
        self, topic: Topic, partition: int, batches: Sequence[Batch]
    ) -> asyncio.Future[Appended]:
        cheap = is_cheap(topic.configs)
        return self._current.writer.append(topic.streams[partition], batches, cheap=cheap)

    def note_rejected(self, topic: Topic, partition: int, batches: Sequence[Batch]) -> None:
        self._gaps.failed(topic.streams[partition], batches)

    def read(
        self, topic: Topic, partition: int, offset: int, max_bytes: int, *, committed: bool
    ) -> Read | Awaitable[Read]:
        return self._reader.read(topic.streams[partition], offset, max_bytes, committed=committed)

    async def release_memory(self) -> None:
        """Drop caches that can be loaded again; for an idle broker."""
        await self._loader.release_memory()

    def waiter(self, seen: Mapping[int, Offsets]) -> StreamWaiter:
        return StreamWaiter([(self._streams[stream], seen[stream]) for stream in seen])

    async def offsets(self, topic: Topic, partition: int) -> Offsets:
        return await self._reader.load_bounds(topic.streams[partition])

    async def end_of_epoch(self, topic: Topic, partition: int, epoch: int) -> int:
        return await epoch_end(self._context.meta, topic.streams[partition], epoch)

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        return await self._timestamps.first_at_or_after(topic.streams[partition], timestamp_ms)

    async def max_timestamp(self, topic: Topic, partition: int) -> TimestampedOffset | None:
        return await self._timestamps.largest(topic.streams[partition])

    async def delete_records(self, topic: Topic, partition: int, before: int) -> int:
        log_start = await self._trimmer.advance(topic.streams[partition], before)
        try:
            await self._trimmer.clean(topic.streams[partition])
        except (StoreError, KafkaError) as error:
            logger.warning(
                "Entries below the log start are left to the next sweep", extra={"error": error}
            )
        return log_start

    async def sizes(self, streams: Collection[int]) -> Mapping[int, int]:
        return await stored_sizes(self._context.meta, streams)

    async def producers(self, topic: Topic, partition: int) -> Sequence[Producer]:
        return await remembered_producers(self._context.meta, topic.streams[partition])

    async def _close_streams(self, streams: Sequence[int]) -> None:
        try:
            await self._upkeep.cleaner.close_streams(streams)
        except KafkaError as error:
            # The topic's record is deleted already; housekeeping does the rest.
            logger.warning(
                "The streams of a deleted topic are closed later", extra={"error": error}
            )
        self._maintenance.deleted_topics.set()

    def _refresh_metrics(self) -> None:
        self._metrics.buffered_bytes.set(self._current.writer.buffer_limit.bytes)
        self._metrics.inline_bytes.set(self._upkeep.budget.used)
        self._metrics.snapshot_failing_seconds.set(self._maintenance.snapshots_failing_ms / 1000)
