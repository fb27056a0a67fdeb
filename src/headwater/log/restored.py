"""A snapshot's keys in memory, changed to what a restored cluster begins with."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from headwater.log.formats import (
    GROWING,
    WAL,
    Cluster,
    Counter,
    Incarnation,
    IndexEntry,
    Layout,
    ObjectRecord,
    Tail,
    TopicRecord,
)
from headwater.log.jobs import Job
from headwater.log.recovery import FoundChunk, FoundSection, Regained, append_again
from headwater.log.snapshot_file import Item
from headwater.log.snapshots import Snapshot, Snapshots
from headwater.meta import keys
from headwater.meta.values import decode, encode

PRODUCER_IDS_SKIPPED: Final = 2**32
"""More than can have been given out since the snapshot: living producers keep theirs."""
ADOPTED: Final = 0
"""Who holds a table's file that is newer than the snapshot: no stream has this number."""


@dataclass(slots=True)
class Recovered:
    """What was found beyond the snapshot."""

    sections: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    duplicates: int = 0
    """Batches that the snapshot had already, or that were written twice."""
    strangers: set[int] = field(default_factory=set)
    """Streams with records whose topics are newer than the snapshot, or were deleted."""


class Restored:
    """The keys of a cluster that is being restored; ``items`` are a snapshot's.

    Invariant: offsets below a stream's high watermark in the snapshot hold what they held; above
    it they are given anew, under the new epoch, which clients are told of.
    """

    def __init__(self, items: Iterable[Item], store: str) -> None:
        self._values = dict(items)
        self._store = store
        prefix = keys.incarnations(0)
        self.incarnations = {
            key.removeprefix(prefix): decode(Incarnation, self._values[key])
            for key in self._under(prefix)
        }
        """As the snapshot knows them; none of them writes any more."""
        self.topics = {
            key.removeprefix(keys.TOPICS): decode(TopicRecord, self._values[key])
            for key in self._under(keys.TOPICS)
        }
        self._streams = {stream for topic in self.topics.values() for stream in topic.streams}
        self._objects = keys.objects(0)
        self._parts: dict[str, int] = {}
        for key in self._under(self._objects):
            name, _, part = key.removeprefix(self._objects).rpartition("/")
            self._parts[name] = max(self._parts.get(name, -1), int(part))
        self._tails: dict[int, Tail] = {}
        self._regained: dict[int, Regained] = {}
        self._last_stream = 0
        self.found = Recovered()

    @property
    def cluster(self) -> Cluster:
        return decode(Cluster, self._values[keys.CLUSTER])

    @property
    def streams(self) -> int:
        return len(self._streams)

    def recorded(self, object_key: str) -> bool:
        return object_key in self._parts

    def begin_epoch(self, epoch: int, object_store: str | None) -> None:
        """Note where the new epoch begins in every stream; nobody who wrote before writes now."""
        cluster = self.cluster
        cluster.epoch, cluster.restoring = epoch, ""
        cluster.objects = object_store or ""
        self._values[keys.CLUSTER] = encode(cluster)
        for name in self.incarnations:
            del self._values[keys.incarnation(0, name)]
        for stream in self._streams:
            key = keys.layout(0, stream)
            layout = decode(Layout, self._values[key]) if key in self._values else Layout()
            layout.restores = [*layout.restores, (epoch, self._tail(stream).high_watermark)]
            self._values[key] = encode(layout)

    def append(self, section: FoundSection, now_ms: int) -> None:
        """Append what a section holds, where it stands: no byte of it is copied."""
        part = self._parts.get(section.key, -1) + 1
        live = []
        for chunk in section.chunks:
            self._last_stream = max(self._last_stream, chunk.info.stream)
            if chunk.info.stream not in self._streams:
                self.found.strangers.add(chunk.info.stream)
            elif self._append_chunk(section, chunk, part, now_ms):
                live.append(chunk.info.stream)
        self.found.sections += 1
        if live:
            self._parts[section.key] = part
            size = max(chunk.info.position + chunk.info.length for chunk in section.chunks)
            record = ObjectRecord(size=size, parts=GROWING, live=live, created_ms=now_ms)
            self._values[keys.object_record(0, section.key, part)] = encode(record)

    def adopt(self, file: str, size: int, now_ms: int) -> bool:
        """Keep a table's file that the snapshot does not know: the table may name it."""
        if self.recorded(file):
            return False
        record = ObjectRecord(size=size, parts=1, live=[ADOPTED], created_ms=now_ms)
        self._values[keys.object_record(0, file, 0)] = encode(record)
        return True

    def _move(self) -> None:
        """Objects are read where they are now: a copy may be in another kind of store."""
        for key in self._under(keys.indexes(0)):
            entry = decode(IndexEntry, self._values[key])
            if entry.store not in ("", self._store):
                entry.store = self._store
                self._values[key] = encode(entry)
        for key in self._under(keys.jobs(0)):
            job = decode(Job, self._values[key])
            for file in (*job.files, *job.copies):
                file.store = self._store
            self._values[key] = encode(job)

    def list_snapshot(self, snapshot: Snapshot) -> None:
        self._values[keys.SNAPSHOTS] = encode(Snapshots(listed=[snapshot]))

    def finish(self) -> None:
        """Take in where streams end, and which numbers are not given out again."""
        self._move()
        for stream, tail in self._tails.items():
            self._values[keys.tail(0, stream)] = encode(tail)
        self._raise_counter(keys.NEXT_STREAM, self._last_stream + 1)
        self._skip_producer_ids()

    def items(self) -> list[Item]:
        """Every key to write, the cluster's record apart."""
        return [item for item in sorted(self._values.items()) if item[0] != keys.CLUSTER]

    def __len__(self) -> int:
        return len(self._values)

    def _append_chunk(
        self, section: FoundSection, chunk: FoundChunk, part: int, now_ms: int
    ) -> bool:
        info, tail = chunk.info, self._tail(chunk.info.stream)
        start = tail.high_watermark
        if info.stream not in self._regained:
            self._regained[info.stream] = Regained.of(tail)
        left_out = append_again(self._regained[info.stream], chunk.batches, now_ms)
        self.found.duplicates += len(left_out)
        if tail.high_watermark == start:
            return False
        skipped = set(left_out)
        kept = [batch for number, batch in enumerate(chunk.batches) if number not in skipped]
        entry = IndexEntry(
            start=start,
            end=tail.high_watermark,
            kind=WAL,
            length=info.length,
            size=tail.size,
            max_timestamp=max(batch.max_timestamp for batch in kept),
            created_ms=section.created_ms,
            left_out=left_out,
            store=self._store,
            key=section.key,
            part=part,
            position=section.position + info.position,
            blocks=(section.position + info.blocks_position, info.blocks),
        )
        self._values[keys.index_entry(0, info.stream, entry.end)] = encode(entry)
        self.found.batches += len(kept)
        self.found.records += entry.end - start
        self.found.bytes += sum(batch.size for batch in kept)
        return True

    def _tail(self, stream: int) -> Tail:
        tail = self._tails.get(stream)
        if tail is None:
            stored = self._values.get(keys.tail(0, stream))
            tail = self._tails[stream] = Tail() if stored is None else decode(Tail, stored)
        return tail

    def _skip_producer_ids(self) -> None:
        stored = self._values.get(keys.NEXT_PRODUCER)
        counter = Counter() if stored is None else decode(Counter, stored)
        counter.next += PRODUCER_IDS_SKIPPED
        self._values[keys.NEXT_PRODUCER] = encode(counter)

    def _raise_counter(self, key: str, least: int) -> None:
        stored = self._values.get(key)
        counter = Counter() if stored is None else decode(Counter, stored)
        counter.next = max(counter.next, least)
        self._values[key] = encode(counter)

    def _under(self, prefix: str) -> list[str]:
        return [key for key in self._values if key.startswith(prefix)]
