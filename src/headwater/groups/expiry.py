"""Which committed offsets have expired, by Kafka's rules.

The offsets of an empty group expire when the retention time has passed since its last member left.
The offsets of a topic that no member of a group reads expire when it has passed since the commit,
and so do those of a group that never had members. Old clients may request a retention time of
their own. Offsets of a deleted topic expire at once, and an empty group without offsets is deleted.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final
from urllib.parse import unquote

from headwater.engine import Topic, Topics
from headwater.groups.machine import GroupMachine
from headwater.groups.offsets import OffsetRecord, current_topic, find_topic, partition_of
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import Entry, MetadataStore
from headwater.meta.values import decode

PAGE_KEYS: Final = 1_000


def expired(
    machine: GroupMachine | None, topic: str, record: OffsetRecord, now: int, keep: int
) -> bool:
    """Whether an offset has expired at ``now``; all times are wall-clock milliseconds."""
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
    """A shard's offsets group by group, in key order; reads the store page by page.

    Raises ``StoreUnavailable`` if the store answers with a revision before ``min_revision``.
    """
    prefix = keys.group_offsets(shard)
    group: str | None = None
    entries: list[Entry] = []
    async for entry in scan_all(meta, prefix, page=PAGE_KEYS, min_revision=min_revision):
        name = _group_of(entry, prefix)
        if name != group:
            if group is not None:
                yield group, entries
            group, entries = name, []
        entries.append(entry)
    if group is not None:
        yield group, entries


async def existing_topics(topics: Topics, entries: Iterable[Entry]) -> dict[str, Topic]:
    """The topics of the offsets, by name; deleted topics are left out."""
    found: dict[str, Topic | None] = {}
    for entry in entries:
        name, _ = partition_of(entry)
        if name not in found:
            found[name] = await find_topic(topics, name)
        topic, record = found[name], decode(OffsetRecord, entry.value)
        if topic is not None and topic.id.bytes != record.topic:
            found[name] = await current_topic(topics, topic, record)
    return {name: topic for name, topic in found.items() if topic is not None}


def expired_keys(
    machine: GroupMachine | None,
    entries: Collection[Entry],
    topics: dict[str, Topic],
    now: int,
    keep: int,
) -> list[str]:
    """The keys of the offsets that have expired."""
    expired_keys_found = []
    for entry in entries:
        name, _ = partition_of(entry)
        record = decode(OffsetRecord, entry.value)
        topic = topics.get(name)
        gone = topic is None or topic.id.bytes != record.topic
        if gone or expired(machine, name, record, now, keep):
            expired_keys_found.append(entry.key)
    return expired_keys_found


def _group_of(entry: Entry, prefix: str) -> str:
    return unquote(entry.key[len(prefix) :].split("/", 1)[0])
