"""The keys of a snapshot in memory, changed to the first keys of the restored cluster.

``placement`` decides where records go. Every object that was read gets a record. So a later restore
does not take it for a newer one, and garbage collection deletes an object only if its records are
placed elsewhere. An object with records that could not be placed is kept (``ADOPTED``) and listed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from headwater.cluster_record import ClusterRecord
from headwater.log.append.open_transactions import last_stable_offset
from headwater.log.formats.metadata_values import (
    ADOPTED,
    GROWING,
    PARQUET,
    SEGMENT,
    Incarnation,
    IndexEntry,
    Layout,
    ObjectRecord,
    Release,
    Tail,
    TopicRecord,
)
from headwater.log.formats.snapshot_file import Item
from headwater.log.jobs.jobs import FileName, Job, job_of_file
from headwater.log.reclaim.releases import SEGMENT_SUFFIX, object_keys, release
from headwater.log.restore.placement import PlacedStream, StreamPlacement
from headwater.log.restore.recovery import (
    append_again,
    is_merged,
)
from headwater.log.restore.snapshots import Snapshot, Snapshots
from headwater.meta import keys
from headwater.meta.store import Writes
from headwater.meta.values import NextNumber, decode, encode
from headwater.objects.store import ObjectInfo
from headwater.topic_config.stored import stored_configs
from headwater.topic_config.topic import compaction_target, topic_defaults

PRODUCER_IDS_SKIPPED: Final = 2**32
"""More than can have been assigned since the snapshot, so running producers keep their ids."""


@dataclass(slots=True)
class Recovered:
    """What was found besides the snapshot."""

    sections: int = 0
    records: int = 0
    bytes: int = 0
    files: int = 0
    """Files of jobs that are in the log again."""
    duplicates: int = 0
    """Batches that the snapshot has, or that were written twice."""
    lost: int = 0
    """Offsets below the last known one whose records are lost."""
    strangers: set[int] = field(default_factory=set)
    """Streams with records of topics that are newer than the snapshot, or were deleted."""
    unplaced: list[str] = field(default_factory=list)
    """Objects with records that could not be placed. They are kept."""


@dataclass(frozen=True, slots=True)
class TableHolding:
    """What a topic's table had when the metadata store was lost."""

    files: frozenset[str]
    watermarks: Mapping[int, int]
    """By stream: all records below are in the table, or were never meant for it."""


@dataclass(slots=True)
class UsedObjects:
    """How a restore uses the objects that it reads."""

    sizes: dict[str, int] = field(default_factory=dict)
    live: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By object, the streams whose index names it."""
    unplaced: set[str] = field(default_factory=set)
    """The objects with records that could not be placed."""
    jobs: set[str] = field(default_factory=set)
    """The jobs whose files are in the index."""

    def keep(self, key: str, size: int) -> None:
        """Keep an object from which nothing is placed."""
        self.sizes[key] = size
        self.unplaced.add(key)


class Restored:
    """The keys of a cluster that is being restored; ``items`` are a snapshot's.

    Invariant: offsets below a stream's high watermark in the snapshot have the same records as
    before. Above it, the new epoch begins at the first record that is lost or may have another
    offset. Clients learn that offset by OffsetForLeaderEpoch.
    """

    def __init__(self, items: Iterable[Item], store: str) -> None:
        self._values = dict(items)
        self.store = store
        prefix = keys.incarnations(0)
        self.incarnations = {
            key.removeprefix(prefix): decode(Incarnation, self._values[key])
            for key in self._under(prefix)
        }
        """The incarnations in the snapshot. None of them may write any more."""
        self.topics = {
            key.removeprefix(keys.TOPICS): decode(TopicRecord, self._values[key])
            for key in self._under(keys.TOPICS)
        }
        self.streams = {stream for topic in self.topics.values() for stream in topic.streams}
        self.by_topic_id = {str(UUID(bytes=topic.id)): topic for topic in self.topics.values()}
        self._parts: dict[str, int] = {}
        for key in self._under(keys.objects(0)):
            name, _, part = key.removeprefix(keys.objects(0)).rpartition("/")
            self._parts[name] = max(self._parts.get(name, -1), int(part))
        self._index: dict[int, list[str]] = defaultdict(list)
        for key in sorted(self._under(keys.indexes(0))):
            self._index[int(key.split("/")[3])].append(key)
        self._jobs = [decode(Job, self._values[key]) for key in self._under(keys.jobs(0))]
        self._job_files = {file.key for job in self._jobs for file in (*job.files, *job.copies)}
        self.placements: dict[int, StreamPlacement] = {}
        self._files: dict[str, tuple[ObjectInfo, FileName]] = {}
        self._foreign: set[str] = set()
        """Files whose offsets are of another restore epoch."""
        self._indexed = {
            decode(IndexEntry, self._values[key]).key for own in self._index.values() for key in own
        }
        self.used = UsedObjects(
            jobs={job for key in self._indexed if (job := job_of_file(key)) is not None}
        )
        self.last_stream = 0
        """The highest stream number that an object names."""
        self.found = Recovered()

    @property
    def cluster(self) -> ClusterRecord:
        return decode(ClusterRecord, self._values[keys.CLUSTER])

    def recorded(self, object_key: str) -> bool:
        return object_key in self._parts

    def begin_epoch(self, epoch: int, object_store: str | None) -> None:
        """Remove all incarnations, and all open jobs, which are planned again."""
        cluster = self.cluster
        cluster.epoch, cluster.restoring = epoch, ""
        cluster.objects = object_store or ""
        self._values[keys.CLUSTER] = encode(cluster)
        for name in self.incarnations:
            del self._values[keys.incarnation(0, name)]
        for job in self._jobs:
            del self._values[keys.job(0, job.stream)]
        self._move()

    def stream_of(self, name: FileName) -> int | None:
        """The stream that a file has records of; None if the snapshot does not know its topic."""
        topic = self.by_topic_id.get(name.topic_id)
        if topic is None or name.partition >= len(topic.streams):
            return None
        return topic.streams[name.partition]

    def note_file(self, info: ObjectInfo, name: FileName, *, exact: bool) -> bool:
        """Note a file; returns whether it may be newer than the snapshot.

        If it is not ``exact``, its offsets are those of a later restore epoch.
        """
        if info.key in self._indexed:
            return False
        if self.recorded(info.key) and info.key not in self._job_files:
            return False
        self._files[info.key] = (info, name)
        if not exact:
            self._foreign.add(info.key)
            return False
        return self.stream_of(name) is not None and not name.is_copy

    def high_watermark(self, stream: int) -> int:
        return self.tail(stream).high_watermark

    def target_of(self, topic: TopicRecord) -> str:
        """The kind of files that a topic's records are compacted to."""
        defaults = topic_defaults(stored_configs(self._values.get(keys.broker_configs(None))))
        return compaction_target({**defaults, **topic.configs})

    def list_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        self._values[keys.SNAPSHOTS] = encode(Snapshots(listed=list(snapshots)))

    def finish(self, epoch: int, now_ms: int) -> None:
        """Write the ends of all streams, and skip numbers that may be in use."""
        redundant = self._settle_files(now_ms)
        for stream in self.streams:
            self._finish_stream(stream, epoch, redundant.get(stream, []), now_ms)
        self._record_objects(now_ms)
        self.found.unplaced = sorted(self.used.unplaced)
        self._raise_counter(keys.NEXT_STREAM, self.last_stream + 1)
        self._skip_producer_ids()

    def _finish_stream(
        self, stream: int, epoch: int, redundant: Sequence[IndexEntry], now_ms: int
    ) -> None:
        key = keys.layout(0, stream)
        layout = decode(Layout, self._values[key]) if key in self._values else Layout()
        tail = self.tail(stream)
        known_to = tail.high_watermark
        gone = list(redundant)
        if stream in self.placements:
            placed = self.placements[stream].finish()
            known_to = max(known_to, placed.known_to)
            gone += placed.replaced
            self._take_in(stream, tail, placed, now_ms)
        layout.generation += 1
        layout.restores = [*layout.restores, (epoch, known_to)]
        writes = Writes()
        release(writes, stream, gone, layout.generation, now_ms)
        self._values.update(writes.puts)
        self._values[key] = encode(layout)

    def _take_in(self, stream: int, tail: Tail, placed: PlacedStream, now_ms: int) -> None:
        """Write a stream's entries and its tail."""
        before, size = tail.high_watermark, tail.size
        sizes = {entry.end: entry.size for entry in placed.replaced}
        for entry in placed.replaced:
            del self._values[keys.index_entry(0, stream, entry.end)]
        for entry, batches, produced in placed.pieces:
            inside = max(0, entry.end - max(entry.start, before))
            size += produced * inside // (entry.end - entry.start)
            entry.size = size if entry.end > before else sizes[entry.end]
            self._values[keys.index_entry(0, stream, entry.end)] = encode(entry)
            self.found.bytes += produced * inside // (entry.end - entry.start)
            if entry.key:
                self.found.records += inside
            else:
                self.found.lost += inside
            for each in batches:
                if each.offset >= before:
                    append_again(tail, each.offset, each.batch, now_ms)
        for entry in placed.kept:
            self._values[keys.index_entry(0, stream, entry.end)] = encode(entry)
        end = max([before, *(entry.end for entry, _, _ in placed.pieces)])
        tail.high_watermark = end
        tail.last_stable = last_stable_offset(tail)
        tail.size = size
        self._values[keys.tail(0, stream)] = encode(tail)

    def _settle_files(self, now_ms: int) -> dict[int, list[IndexEntry]]:
        """Write records of files; returns, by stream, the files whose records are elsewhere."""
        redundant: dict[int, list[IndexEntry]] = defaultdict(list)
        listed = self._files.keys()
        for job in self._jobs:
            for file in (*job.files, *job.copies):
                if file.key not in listed and file.key not in self._indexed:
                    redundant[job.stream].append(_file_entry(file.key, file.start, file.end))
        for key, (info, name) in self._files.items():
            if key in self.used.live:
                continue
            stream = self.stream_of(name)
            if name.is_copy and name.job in self.used.jobs and stream is not None:
                owner = stream  # The records are in the table and in the segment.
            elif stream is not None and self._is_redundant(key, stream, name):
                redundant[stream].append(_file_entry(key, name.start, name.end))
                owner = stream
            else:
                self.used.unplaced.add(key)
                owner = ADOPTED
            for each in object_keys(_kind(key), key):
                record = ObjectRecord(size=info.size, parts=1, live=[owner], created_ms=now_ms)
                self._values[keys.object_record(0, each, 0)] = encode(record)
        return redundant

    def _is_redundant(self, key: str, stream: int, name: FileName) -> bool:
        """Whether the records of a file are elsewhere at the same offsets."""
        covered = self.placement(stream).covered
        return key not in self._foreign and covered.cover(name.start, name.end)

    def _record_objects(self, now_ms: int) -> None:
        """Write records of objects: used, not placed, or free for garbage collection."""
        for key, size in self.used.sizes.items():
            live = sorted(self.used.live.get(key, ()))
            if key in self.used.unplaced:
                live.append(ADOPTED)
            if not live and (self.recorded(key) or is_merged(key)):
                continue  # A merged object without a record is an orphan.
            is_file = key in self._files or not key.startswith("wal/")
            part = 0 if is_file else self.part_of(key)
            parts = 1 if is_file else GROWING
            record = ObjectRecord(size=size, parts=parts, live=live, created_ms=now_ms)
            self._values[keys.object_record(0, key, part)] = encode(record)
            if not live:
                unused = Release(chunks=[(key, part, 0)], released_ms=now_ms)
                self._values[f"{keys.releases(0)}restored/{key}"] = encode(unused)

    def items(self) -> list[Item]:
        """Every key to write except the cluster's record."""
        return [item for item in self.everything() if item[0] != keys.CLUSTER]

    def everything(self) -> list[Item]:
        return sorted(self._values.items())

    def __len__(self) -> int:
        return len(self._values)

    def _move(self) -> None:
        """Set the object store of all entries: the objects may have been copied to another one."""
        for key in self._under(keys.indexes(0)):
            entry = decode(IndexEntry, self._values[key])
            if entry.store not in ("", self.store):
                entry.store = self.store
                self._values[key] = encode(entry)

    def part_of(self, key: str) -> int:
        """The number of the part that this restore makes of an object."""
        return self._parts.get(key, -1) + 1

    def placement(self, stream: int) -> StreamPlacement:
        if stream not in self.placements:
            key = keys.layout(0, stream)
            layout = decode(Layout, self._values[key]) if key in self._values else Layout()
            self.placements[stream] = StreamPlacement(
                list(self.entries(stream)), self.high_watermark(stream), layout.log_start
            )
        return self.placements[stream]

    def entries(self, stream: int) -> Iterator[IndexEntry]:
        for key in self._index.get(stream, ()):
            yield decode(IndexEntry, self._values[key])

    def tail(self, stream: int) -> Tail:
        stored = self._values.get(keys.tail(0, stream))
        return Tail() if stored is None else decode(Tail, stored)

    def _skip_producer_ids(self) -> None:
        stored = self._values.get(keys.NEXT_PRODUCER)
        counter = NextNumber() if stored is None else decode(NextNumber, stored)
        counter.next += PRODUCER_IDS_SKIPPED
        self._values[keys.NEXT_PRODUCER] = encode(counter)

    def _raise_counter(self, key: str, least: int) -> None:
        stored = self._values.get(key)
        counter = NextNumber() if stored is None else decode(NextNumber, stored)
        counter.next = max(counter.next, least)
        self._values[key] = encode(counter)

    def _under(self, prefix: str) -> list[str]:
        return [key for key in self._values if key.startswith(prefix)]


def _kind(key: str) -> int:
    return SEGMENT if key.endswith(SEGMENT_SUFFIX) else PARQUET


def _file_entry(key: str, start: int, end: int) -> IndexEntry:
    return IndexEntry(
        start=start,
        end=end,
        kind=_kind(key),
        length=0,
        size=0,
        max_timestamp=-1,
        created_ms=0,
        key=key,
    )
