"""Reads of topics, streams and job claims from the metadata store."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from headwater.errors import UnknownTopicOrPartition
from headwater.log.formats.metadata_values import (
    INLINE,
    PARQUET,
    SEGMENT,
    WAL,
    IndexEntry,
    Layout,
    Pin,
    Tail,
    TopicRecord,
)
from headwater.log.jobs.jobs import Job
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.values import decode
from headwater.pipeline.compaction.planner import StreamView
from headwater.topic_config.stored import stored_configs
from headwater.topic_config.topic import topic_defaults

PAGE: Final = 512
VIEW_ENTRIES: Final = 8192
"""Maximum index entries that one plan reads; the next plan reads the following ones."""
HOLES_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic in the metadata store; ``configs`` include the cluster's topic defaults."""

    name: str
    id: str
    streams: tuple[int, ...]
    configs: dict[str, str]


async def read_topics(
    meta: MetadataStore, names: Collection[str], *, all_there: bool = True
) -> list[StoredTopic]:
    """The topics of these names, or all topics if there are no names.

    With ``all_there``, raises ``UnknownTopicOrPartition`` for a missing topic.
    """
    cluster = await meta.get(keys.broker_configs(None))
    defaults = topic_defaults(stored_configs(None if cluster is None else cluster.value))
    found = {
        topic.name: topic
        for entry in (await meta.scan(keys.TOPICS, prefix_end(keys.TOPICS))).entries
        for topic in [_topic(entry.key.removeprefix(keys.TOPICS), entry.value, defaults)]
    }
    for name in names:
        if all_there and name not in found:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return [topic for name, topic in found.items() if not names or name in names]


def _topic(name: str, value: bytes, defaults: Mapping[str, str]) -> StoredTopic:
    record = decode(TopicRecord, value)
    configs = {**defaults, **record.configs}
    return StoredTopic(name, str(UUID(bytes=record.id)), tuple(record.streams), configs)


async def read_layout(meta: MetadataStore, stream: int) -> Layout:
    stored = await meta.get(keys.layout(0, stream))
    return Layout() if stored is None else decode(Layout, stored.value)


async def read_tail(meta: MetadataStore, stream: int) -> Tail:
    stored = await meta.get(keys.tail(0, stream))
    return Tail() if stored is None else decode(Tail, stored.value)


async def read_view(
    meta: MetadataStore, stream: int, kinds: Collection[int]
) -> tuple[int, StreamView]:
    """The layout's generation and, read after it, the input of a plan.

    Entries of other kinds are filtered out before the limit applies.
    """
    layout = await read_layout(meta, stream)
    tail = await read_tail(meta, stream)
    entries: list[IndexEntry] = []
    if not tail.deleted and layout.log_start < tail.last_stable:
        entries = await read_entries(meta, stream, layout.log_start, tail.last_stable, kinds=kinds)
    return layout.generation, StreamView(layout.log_start, tail.last_stable, entries)


async def read_entries(
    meta: MetadataStore,
    stream: int,
    start: int,
    end: int,
    *,
    with_data: bool = False,
    limit: int | None = VIEW_ENTRIES,
    kinds: Collection[int] = (INLINE, WAL, PARQUET, SEGMENT),
) -> list[IndexEntry]:
    """The entries that end after ``start`` and not after ``end``, up to ``limit``."""
    found: list[IndexEntry] = []
    first, after = keys.index_entry(0, stream, start + 1), keys.index_entry(0, stream, end + 1)
    async for stored in scan_all(meta, first, after, page=PAGE):
        entry = decode(IndexEntry, stored.value)
        if not with_data:
            entry.data = None
        if entry.kind in kinds:
            found.append(entry)
        if limit is not None and len(found) >= limit:
            break
    return found


async def read_holes(meta: MetadataStore, job: Job) -> list[tuple[int, int]]:
    """Ranges below a job that its table will never contain: deleted, set aside, or segments.

    Scans down from the job to the first table file. That file was committed before it entered the
    index, so the table contains it.
    """
    holes: list[tuple[int, int]] = []
    first, after = keys.index(0, job.stream), keys.index_entry(0, job.stream, job.start + 1)
    while page := (await meta.scan(first, after, limit=HOLES_AT_ONCE, reverse=True)).entries:
        for stored in page:
            entry = decode(IndexEntry, stored.value)
            if entry.kind != SEGMENT and not entry.set_aside:
                break
            holes.append((entry.start, entry.end))
        else:
            after = page[-1].key
            continue
        break
    # Read last: ranges that a trim removed before the scan are below this log start.
    return [(0, (await read_layout(meta, job.stream)).log_start), *holes]


def claim_name(job: Job, process: str) -> str:
    """The name of the pin that claims a job and protects the objects that it reads."""
    return f"{job.id}-{process}"


async def is_claimed(meta: MetadataStore, job: Job, process: str, now_ms: int) -> bool:
    """Whether another process holds an unexpired claim on a job."""
    prefix = keys.pins_of_stream(0, job.stream)
    for entry in (await meta.scan(prefix, prefix_end(prefix))).entries:
        name = entry.key.removeprefix(prefix)
        other = name.startswith(f"{job.id}-") and name != claim_name(job, process)
        if other and decode(Pin, entry.value).expires_ms > now_ms:
            return True
    return False
