"""Which committed offsets have had their time, after Kafka's rules.

Offsets of an empty group go some time after its last member left; offsets of a topic that
nobody in a living group reads go some time after they were committed, and so do those of a group
that never had members. Old clients may have set a time of their own. Offsets of a topic that is
gone go at once, and an empty group without any offsets goes altogether.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from itertools import groupby
from typing import Final
from urllib.parse import unquote

from headwater.coordination.reads import scan_since
from headwater.engine import Topic, Topics
from headwater.groups.machine import Machine
from headwater.groups.offsets import OffsetRecord, existing, newer, partition_of
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, prefix_end
from headwater.meta.values import decode

PAGE: Final = 1_000


def expired(machine: Machine | None, topic: str, record: OffsetRecord, now: int, keep: int) -> bool:
    """Whether an offset may go at ``now``; all times in milliseconds of the wall clock."""
    since = record.committed_ms
    if machine is not None:
        if machine.subscribed_to(topic):
            return False
        if machine.kind == "classic" and machine.protocol_type:
            if machine.empty:
                left = machine.empty_since_ms
                since = since if left is None else left
            elif machine.protocol_type != "consumer" or machine.state != "Stable":
                return False
    if record.expires_ms is not None:
        return now >= record.expires_ms
    return now - since >= keep


async def offsets_by_group(
    meta: MetadataStore, shard: int, *, min_revision: int = 0
) -> AsyncIterator[tuple[str, list[Entry]]]:
    """A shard's offsets, group by group in key order, a page of the store at a time.

    Raises ``StoreUnavailable`` where the store answers from before the revision ``min_revision``.
    """
    prefix = keys.group_offsets(shard)
    start, end = prefix, prefix_end(prefix)
    held: tuple[str, list[Entry]] | None = None
    while True:
        page = (await scan_since(meta, start, end, min_revision, limit=PAGE)).entries
        for name, entries in groupby(page, key=lambda entry: _group_of(entry, prefix)):
            if held is not None and held[0] == name:
                held[1].extend(entries)
                continue
            if held is not None:
                yield held
            held = (name, list(entries))
        if len(page) < PAGE:
            break
        start = page[-1].key + "\0"
    if held is not None:
        yield held


async def existing_topics(topics: Topics, entries: Iterable[Entry]) -> dict[str, Topic]:
    """The topics that those offsets are of, as far as they exist."""
    found: dict[str, Topic | None] = {}
    for entry in entries:
        name, _ = partition_of(entry)
        if name not in found:
            found[name] = await existing(topics, name)
        topic, record = found[name], decode(OffsetRecord, entry.value)
        if topic is not None and topic.id.bytes != record.topic:
            found[name] = await newer(topics, topic, record)
    return {name: topic for name, topic in found.items() if topic is not None}


def due(
    machine: Machine | None,
    entries: Collection[Entry],
    topics: dict[str, Topic],
    now: int,
    keep: int,
) -> list[str]:
    """The keys of the offsets that may go."""
    keys_due = []
    for entry in entries:
        name, _ = partition_of(entry)
        record = decode(OffsetRecord, entry.value)
        topic = topics.get(name)
        gone = topic is None or topic.id.bytes != record.topic
        if gone or expired(machine, name, record, now, keep):
            keys_due.append(entry.key)
    return keys_due


def _group_of(entry: Entry, prefix: str) -> str:
    return unquote(entry.key[len(prefix) :].split("/", 1)[0])
