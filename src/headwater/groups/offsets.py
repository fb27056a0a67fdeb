"""Committed offsets: their stored values, and the rules for committing and deleting them.

An offset belongs to a topic id, not to a topic name. If a topic was deleted and created again, the
old offsets are not returned, and the next sweep deletes them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from headwater.engine import Topic, Topics
from headwater.errors import UnknownTopicId, UnknownTopicOrPartition
from headwater.groups.bounds import RECORD_MAX_BYTES
from headwater.groups.group import Group
from headwater.groups.requests import CommitRequest, CommittedOffset, Partition
from headwater.meta import keys
from headwater.meta.scan import scan_since
from headwater.meta.store import Entry, MetadataStore, prefix_end
from headwater.meta.values import Value, decode, encode
from headwater.wire.error_codes import Code

MAX_TOPICS_READ_SEPARATELY: Final = 8
"""For more topics than this, all offsets of the group are read with one scan."""

NOTHING_COMMITTED: Final = CommittedOffset()
"""The answer for a partition without a committed offset."""

MEMBER_EPOCHS_VERSION: Final = 9
"""The version of OffsetCommit from which on it has member epochs and error 69."""


EPOCH_ERRORS: Final = (Code.STALE_MEMBER_EPOCH, Code.ILLEGAL_GENERATION)
"""Errors of a commit whose only fault is its epoch."""


class OffsetRecord(Value):
    """The stored offset of a group for one partition."""

    offset: int
    topic: bytes
    committed_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expires_ms: int | None = None


def check_commit(group: Group | None, request: CommitRequest, now: float) -> int:
    """The error code for a whole commit; 0 allows it.

    If there is no group, or it only has offsets, only clients that are not members may commit.
    """
    if group is not None and group.machine is not None:
        if request.version < MEMBER_EPOCHS_VERSION and group.machine.is_modern(request.member_id):
            return Code.UNSUPPORTED_VERSION
        return group.machine.check_commit(
            request.member_id, request.instance_id, request.epoch, now
        )
    if request.epoch < 0:
        return Code.NONE
    if group is not None and group.exists:
        return Code.UNKNOWN_MEMBER_ID
    if request.version >= MEMBER_EPOCHS_VERSION:
        return Code.GROUP_ID_NOT_FOUND
    return Code.ILLEGAL_GENERATION


def commit(
    group: Group,
    request: CommitRequest,
    topics: Topics,
    *,
    metadata_max: int,
    now_ms: int,
    late: Callable[[UUID, int], int] | None = None,
) -> tuple[dict[str, bytes | None], dict[Partition, int]]:
    """The changes to write, and each partition's error code.

    ``late`` gives the error code of each partition for a commit with an earlier member epoch.
    """
    changes: dict[str, bytes | None] = {}
    codes: dict[Partition, int] = {}
    for partition, offset in request.offsets.items():
        name, number = partition
        topic = topics.get(name)
        if topic is None or not 0 <= number < len(topic.streams):
            codes[partition] = Code.UNKNOWN_TOPIC_OR_PARTITION
        elif len(offset.metadata) > metadata_max:
            codes[partition] = Code.OFFSET_METADATA_TOO_LARGE
        elif late is not None and (code := late(topic.id, number)) != Code.NONE:
            codes[partition] = code
        else:
            record = OffsetRecord(
                offset=offset.offset,
                topic=topic.id.bytes,
                committed_ms=now_ms,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                expires_ms=offset.expires_ms,
            )
            value = encode(record)
            if len(value) > RECORD_MAX_BYTES:
                codes[partition] = Code.INVALID_COMMIT_OFFSET_SIZE
                continue
            codes[partition] = Code.NONE
            changes[keys.committed_offset(group.offsets_prefix, name, number)] = value
    return changes, codes


def check_delete(group: Group | None) -> int:
    """The error code for a whole OffsetDelete; 0 allows it."""
    if group is None or not group.exists:
        return Code.GROUP_ID_NOT_FOUND
    machine = group.machine
    if machine is None or machine.empty or machine.kind != "classic":
        return Code.NONE
    # Only the subscriptions of consumers say which topics are in use.
    return Code.NONE if machine.protocol_type == "consumer" else Code.NON_EMPTY_GROUP


def delete(
    group: Group, partitions: Collection[Partition]
) -> tuple[dict[str, bytes | None], dict[Partition, int]]:
    """The changes to write, and each partition's error code."""
    changes: dict[str, bytes | None] = {}
    codes: dict[Partition, int] = {}
    for partition in partitions:
        topic, number = partition
        if group.machine is not None and group.machine.subscribed_to(topic):
            codes[partition] = Code.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            codes[partition] = Code.NONE
            changes[keys.committed_offset(group.offsets_prefix, topic, number)] = None
    return changes, codes


async def read(
    meta: MetadataStore,
    group_prefix: str,
    partitions: Collection[Partition] | None,
    topics: Topics,
    *,
    min_revision: int = 0,
) -> Mapping[Partition, CommittedOffset]:
    """Read the offsets of the partitions, or with None all committed offsets, from the store.

    Raises ``StoreError``, and ``KafkaStorageError`` if a topic cannot be looked up.
    """
    found: dict[Partition, CommittedOffset] = {}
    wanted = None if partitions is None else set(partitions)
    known: dict[str, Topic | None] = {}
    for prefix in _prefixes(group_prefix, wanted):
        scan = await scan_since(meta, prefix, prefix_end(prefix), min_revision)
        for entry in scan.entries:
            partition = partition_of(entry)
            if wanted is not None and partition not in wanted:
                continue
            name = partition[0]
            if name not in known:
                known[name] = await find_topic(topics, name)
            topic, record = known[name], decode(OffsetRecord, entry.value)
            if topic is not None and topic.id.bytes != record.topic:
                topic = known[name] = await current_topic(topics, topic, record)
            if topic is not None and topic.id.bytes == record.topic:
                found[partition] = _committed(record)
    if partitions is not None:
        for partition in partitions:
            found.setdefault(partition, NOTHING_COMMITTED)
    return found


def _prefixes(group_prefix: str, wanted: set[Partition] | None) -> list[str]:
    names = set() if wanted is None else {name for name, _ in wanted}
    if wanted is None or len(names) > MAX_TOPICS_READ_SEPARATELY:
        return [group_prefix]
    return [keys.offsets_of_topic(group_prefix, name) for name in sorted(names)]


def _committed(record: OffsetRecord) -> CommittedOffset:
    return CommittedOffset(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        committed_ms=record.committed_ms,
        expires_ms=record.expires_ms,
    )


def partition_of(entry: Entry) -> Partition:
    """The topic and partition in the key of a committed offset."""
    _, topic, number = entry.key.rsplit("/", 2)
    return unquote(topic), int(number)


async def current_topic(topics: Topics, topic: Topic, record: OffsetRecord) -> Topic:
    """The topic of an offset if it exists and the cache is out of date, else ``topic``."""
    try:
        return await topics.find_by_id(UUID(bytes=record.topic))
    except UnknownTopicId:
        return topic


async def find_topic(topics: Topics, name: str) -> Topic | None:
    """The topic with that name; reads the store if the cache does not have it."""
    try:
        return await topics.find(name)
    except UnknownTopicOrPartition:
        return None
