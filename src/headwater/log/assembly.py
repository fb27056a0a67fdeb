"""How the log's engine is put together: read path, housekeeping, and the active incarnation."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord, ClusterRecordFollower
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.append.writer import LogWriter
from headwater.log.commit_subscribers import CommitSubscriber, StreamUpdates
from headwater.log.formats.metadata_values import HOLE, PARQUET, SEGMENT
from headwater.log.formats.segment import SegmentSource
from headwater.log.housekeeping import Housekeeping
from headwater.log.incarnation import ActiveIncarnation, CurrentIncarnation
from headwater.log.merge.inline_budget import InlineBudget
from headwater.log.merge.merger import Merger
from headwater.log.read.change_follower import ChangeFollower
from headwater.log.read.chunk_source import ChunkSource
from headwater.log.read.filler import HoleSource
from headwater.log.read.index import IndexReader
from headwater.log.read.parquet.source import Offload, ParquetSource
from headwater.log.read.piece_loader import PieceLoader
from headwater.log.read.pieces import PieceCache
from headwater.log.read.reader import LogReader
from headwater.log.read.streams import Streams
from headwater.log.read.timestamps import TimestampLookup
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.reclaim.topic_deletion import TopicCleaner
from headwater.log.reclaim.trim import LogTrimmer
from headwater.log.record_work import RecordWork
from headwater.log.restore.snapshots import Snapshotter
from headwater.log.settings import LogSettings
from headwater.log.topics import TopicStore
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The arguments of an engine that most of its parts use."""

    meta: MetadataStore
    objects: ObjectStore
    reclaimer: Reclaimer
    cluster: ClusterRecord
    """The record when the engine was created."""
    settings: LogSettings
    clock: Clock
    rng: Random
    metrics: Metrics
    offload: Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPath:
    """The parts that read: stream state, index, pieces."""

    streams: Streams
    index: IndexReader
    loader: PieceLoader
    parquet: ParquetSource
    reader: LogReader
    timestamps: TimestampLookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Housekeeping, and the parts of it that requests use."""

    trimmer: LogTrimmer
    cleaner: TopicCleaner
    budget: InlineBudget
    maintenance: Housekeeping


def assemble_read_path(context: EngineContext, record_work: RecordWork | None) -> ReadPath:
    """A source for each kind of index entry, behind one cache."""
    meta, settings, epoch = context.meta, context.settings, context.cluster.epoch
    stores = {context.objects.id: context.objects}
    parquet = ParquetSource(stores, leader_epoch=epoch, offload=context.offload)
    segments = SegmentSource(stores, read_bytes=settings.read_bytes, leader_epoch=epoch)
    loader = PieceLoader(
        chunks=ChunkSource(meta, stores, read_bytes=settings.read_bytes, leader_epoch=epoch),
        files={PARQUET: parquet, SEGMENT: segments, HOLE: HoleSource(leader_epoch=epoch)},
        cache=PieceCache(
            settings.cache_bytes,
            context.metrics.cache_hits["piece"],
            context.metrics.cache_misses["piece"],
        ),
    )
    streams = Streams()
    index = IndexReader(meta, streams, loader.keep_inline)
    reader = LogReader(meta=meta, streams=streams, index=index, loader=loader)
    work = record_work or RecordWork(context.offload)
    return ReadPath(
        streams=streams,
        index=index,
        loader=loader,
        parquet=parquet,
        reader=reader,
        timestamps=TimestampLookup(reader, index, loader, work),
    )


def assemble_upkeep(
    context: EngineContext,
    reads: ReadPath,
    topics: TopicStore,
    current: CurrentIncarnation,
    *,
    living: Callable[[], Collection[str]],
    share: Callable[[int], bool],
    topic_defaults: Callable[[], Mapping[str, str]],
) -> Upkeep:
    """Housekeeping and its parts; see ``LogEngine`` for the last three arguments."""
    meta, objects, clock = context.meta, context.objects, context.clock

    def living_brokers() -> int:
        return len(living())

    trimmer = LogTrimmer(meta, reads.streams, reads.index, clock)
    cleaner = TopicCleaner(meta, reads.streams, trimmer, clock)
    budget = InlineBudget(meta.limits.inline_bytes, living_brokers)
    snapshotter = Snapshotter(
        meta,
        objects,
        context.reclaimer,
        clock,
        incarnation=current.name,
        kept=context.settings.snapshots_kept,
        offload=context.offload,
    )
    maintenance = Housekeeping(
        meta=meta,
        topics=topics,
        index=reads.index,
        trimmer=trimmer,
        cleaner=cleaner,
        collector=GarbageCollector(meta, objects, context.reclaimer, context.settings, clock),
        current=current,
        snapshotter=snapshotter,
        budget=budget,
        settings=context.settings,
        clock=clock,
        rng=context.rng,
        living=living,
        share=share,
        topic_defaults=topic_defaults,
    )
    return Upkeep(trimmer=trimmer, cleaner=cleaner, budget=budget, maintenance=maintenance)


def assemble_follower(
    context: EngineContext,
    reads: ReadPath,
    topics: TopicStore,
    upkeep: Upkeep,
    current: CurrentIncarnation,
) -> ChangeFollower:
    """The follower of other brokers' changes."""
    return ChangeFollower(
        context.meta,
        reads.streams,
        topics,
        own=current.name,
        window_entries=context.settings.window_entries,
        added=upkeep.maintenance.added_entry,
        gone=upkeep.maintenance.forget,
    )


def commit_subscribers(
    context: EngineContext, reads: ReadPath, upkeep: Upkeep, follower: ChangeFollower
) -> list[CommitSubscriber]:
    """The subscribers of own commits, in the order in which they are called."""
    return [
        follower,
        reads.loader,
        StreamUpdates(reads.streams, context.settings.window_entries),
        upkeep.budget,
        upkeep.maintenance,
    ]


def make_incarnation(
    name: str,
    context: EngineContext,
    reads: ReadPath,
    upkeep: Upkeep,
    *,
    follower: ChangeFollower,
    cluster: ClusterRecordFollower,
    gaps: SequenceGaps,
) -> ActiveIncarnation:
    """A writer and a merger under a new name."""

    def cluster_level() -> int:
        return cluster.level

    writer = LogWriter(
        meta=context.meta,
        objects=context.objects,
        incarnation=name,
        settings=context.settings,
        clock=context.clock,
        rng=context.rng,
        metrics=context.metrics,
        streams=reads.streams,
        subscribers=commit_subscribers(context, reads, upkeep, follower),
        on_unknown_outcome=follower.mark_unknown,
        gaps=gaps,
        level=cluster_level,
        budget=upkeep.budget,
    )
    merger = Merger(
        meta=context.meta,
        objects=context.objects,
        reclaimer=context.reclaimer,
        incarnation=name,
        settings=context.settings,
        streams=reads.streams,
        index=reads.index,
        loader=reads.loader,
        clock=context.clock,
        budget=upkeep.budget,
        on_fenced=writer.fence_noticed,
    )
    return ActiveIncarnation(name=name, writer=writer, merger=merger, fenced=writer.failed)
