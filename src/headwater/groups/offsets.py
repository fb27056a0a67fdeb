"""Committed offsets: their values in the store, and what may be committed and deleted.

An offset belongs to a topic's id and not to its name: those of a topic that was deleted and
created again are not given out, and go with the next sweep.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from headwater.coordination.reads import scan_since
from headwater.engine import Topic, Topics
from headwater.errors import UnknownTopicId, UnknownTopicOrPartition
from headwater.groups.bounds import RECORD_MAX_BYTES
from headwater.groups.group import Group
from headwater.groups.requests import CommitRequest, CommittedOffset, Partition
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, prefix_end
from headwater.meta.values import Value, decode, encode
from headwater.wire.error_codes import Code

TOPICS_READ_APART: Final = 8
"""More topics than these are read with all that the group committed."""

NOTHING_COMMITTED: Final = CommittedOffset()
"""What stands for every partition without an offset."""

MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit that knows member epochs and error 69."""


BY_EPOCH: Final = (Code.STALE_MEMBER_EPOCH, Code.ILLEGAL_GENERATION)
"""Refusals of a whole commit for its epoch alone."""


class OffsetRecord(Value):
    """What a group committed for one partition of one topic."""

    offset: int
    topic: bytes
    committed_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expires_ms: int | None = None


def check_commit(group: Group | None, request: CommitRequest, now: float) -> int:
    """The error code for all of a commit; 0 where its offsets may be written.

    Without a group, or in one that only has offsets, clients commit that are no members.
    """
    if group is not None and group.machine is not None:
        if request.version < MEMBER_EPOCHS_SINCE and group.machine.is_modern(request.member_id):
            return Code.UNSUPPORTED_VERSION
        return group.machine.check_commit(
            request.member_id, request.instance_id, request.epoch, now
        )
    if request.epoch < 0:
        return Code.NONE
    if group is not None and group.exists:
        return Code.UNKNOWN_MEMBER_ID
    if request.version >= MEMBER_EPOCHS_SINCE:
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

    ``late`` judges each partition of a commit whose epoch the member has left behind.
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
    """The error code for all of an OffsetDelete."""
    if group is None or not group.exists:
        return Code.GROUP_ID_NOT_FOUND
    machine = group.machine
    if machine is None or machine.empty or machine.kind != "classic":
        return Code.NONE
    # Only a consumer's subscription says which of its topics are in use.
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
    """The offsets of those partitions, or of all that were committed, as the store has them.

    Raises ``StoreError``, and ``KafkaStorageError`` where a topic cannot be looked up.
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
                known[name] = await existing(topics, name)
            topic, record = known[name], decode(OffsetRecord, entry.value)
            if topic is not None and topic.id.bytes != record.topic:
                topic = known[name] = await newer(topics, topic, record)
            if topic is not None and topic.id.bytes == record.topic:
                found[partition] = _committed(record)
    if partitions is not None:
        for partition in partitions:
            found.setdefault(partition, NOTHING_COMMITTED)
    return found


def _prefixes(group_prefix: str, wanted: set[Partition] | None) -> list[str]:
    names = set() if wanted is None else {name for name, _ in wanted}
    if wanted is None or len(names) > TOPICS_READ_APART:
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
    """The topic and partition that an offset's key names."""
    _, topic, number = entry.key.rsplit("/", 2)
    return unquote(topic), int(number)


async def newer(topics: Topics, topic: Topic, record: OffsetRecord) -> Topic:
    """The topic that an offset is of, where it exists and the cache is behind; else ``topic``."""
    try:
        return await topics.find_by_id(UUID(bytes=record.topic))
    except UnknownTopicId:
        return topic


async def existing(topics: Topics, name: str) -> Topic | None:
    """The topic of that name, asking the store where the cache knows nothing."""
    try:
        return await topics.find(name)
    except UnknownTopicOrPartition:
        return None
