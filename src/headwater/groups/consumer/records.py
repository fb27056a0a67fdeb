"""The stored form of a consumer group: one small record for each part that changes.

========================== =====================================================
``consumer/group``         epochs, fingerprint of the topics, time at which it became empty
``consumer/member/<id>``   a member's subscription and client; a long id is hashed
``consumer/target/<id>``   a member's target; absent if it is empty
``consumer/current/<id>``  a member's current assignment
``consumer/regex/<hash>``  a pattern and the topics that it matches
========================== =====================================================
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote, unquote
from uuid import UUID

import msgspec

from headwater.groups.bounds import VALUE_MAX_BYTES
from headwater.groups.consumer.assignors import Partitions
from headwater.groups.consumer.members import (
    ClassicProtocolFacts,
    ConsumerFacts,
    CurrentAssignment,
    MemberState,
    PartitionEpochs,
)
from headwater.groups.requests import ClientIdentity
from headwater.meta.values import Value, decode, encode

__all__ = (
    "GROUP",
    "GroupRecord",
    "current_name",
    "decode_current",
    "decode_facts",
    "decode_group",
    "decode_regex",
    "decode_target",
    "encode_current",
    "encode_facts",
    "encode_group",
    "encode_regex",
    "encode_target",
    "member_name",
    "members_of",
    "regex_name",
    "regexes_of",
    "target_name",
)

GROUP = "consumer/group"
_MEMBER = "consumer/member/"
_TARGET = "consumer/target/"
_CURRENT = "consumer/current/"
_REGEX = "consumer/regex/"
_MAX_NAME_LENGTH: Final = 200
_HASHED: Final = "~"


class GroupRecord(Value):
    """The group itself; ``fingerprint`` is None until the next heartbeat computes it."""

    epoch: int = 0
    assignment_epoch: int = 0
    fingerprint: int | None = None
    empty_since_ms: int | None = None


class _MemberRecord(Value):
    client_id: str
    client_host: str
    id: str | None = None
    """The member id, if the record's name has a hash of it."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: list[str] = msgspec.field(default_factory=list)
    topic_regex: str = ""
    assignor: str | None = None
    session_timeout_ms: int | None = None
    protocols: list[tuple[str, bytes]] = msgspec.field(default_factory=list)


class _TargetRecord(Value):
    topics: dict[bytes, list[int]] = msgspec.field(default_factory=dict)


class _CurrentRecord(Value):
    """A current assignment; partitions by topic and by the epoch at which they were assigned."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned: dict[bytes, dict[int, list[int]]] = msgspec.field(default_factory=dict)
    revoking: dict[bytes, dict[int, list[int]]] = msgspec.field(default_factory=dict)


class _RegexRecord(Value):
    """``topics`` is None if the names do not fit into one record."""

    pattern: str
    topics: list[str] | None = msgspec.field(default_factory=list)


def _name(kind: str, member_id: str) -> str:
    """The name of a member's record; long ids are hashed, because stores limit key lengths."""
    quoted = _quoted(member_id)
    if len(quoted) > _MAX_NAME_LENGTH:
        return kind + _HASHED + blake2b(member_id.encode(), digest_size=24).hexdigest()
    return kind + quoted


def _quoted(member_id: str) -> str:
    # No quoted id may look like the hash of another one.
    return quote(member_id, safe="").replace(_HASHED, "%7E")


def member_name(member_id: str) -> str:
    return _name(_MEMBER, member_id)


def target_name(member_id: str) -> str:
    return _name(_TARGET, member_id)


def current_name(member_id: str) -> str:
    return _name(_CURRENT, member_id)


def regex_name(pattern: str) -> str:
    """The name of a pattern's record; hashed, because patterns may be longer than keys."""
    return _REGEX + blake2b(pattern.encode(), digest_size=16).hexdigest()


def members_of(records: Mapping[str, bytes]) -> list[str]:
    return sorted(
        _id_of(name[len(_MEMBER) :], data)
        for name, data in records.items()
        if name.startswith(_MEMBER)
    )


def _id_of(name: str, data: bytes) -> str:
    stored = decode(_MemberRecord, data).id if name.startswith(_HASHED) else None
    return unquote(name) if stored is None else stored


def regexes_of(records: Mapping[str, bytes]) -> list[bytes]:
    return [value for name, value in records.items() if name.startswith(_REGEX)]


def _encode_with(unknown: Mapping[str, Any], value: Value) -> bytes:
    if unknown:
        value.__dict__["unknown"] = dict(unknown)
    return encode(value)


def encode_group(record: GroupRecord, unknown: Mapping[str, Any]) -> bytes:
    return _encode_with(unknown, record)


def decode_group(data: bytes) -> GroupRecord:
    return decode(GroupRecord, data)


def encode_facts(member_id: str, facts: ConsumerFacts) -> bytes:
    classic = facts.classic
    hashed = member_name(member_id) != _MEMBER + _quoted(member_id)
    return _encode_with(
        facts.unknown,
        _MemberRecord(
            client_id=facts.client.id,
            client_host=facts.client.host,
            id=member_id if hashed else None,
            instance_id=facts.instance_id,
            rack_id=facts.rack_id,
            rebalance_timeout_ms=facts.rebalance_timeout_ms,
            topic_names=sorted(facts.topic_names),
            topic_regex=facts.topic_regex,
            assignor=facts.assignor,
            session_timeout_ms=classic.session_timeout_ms if classic else None,
            protocols=list(classic.protocols) if classic else [],
        ),
    )


def decode_facts(data: bytes) -> ConsumerFacts:
    record = decode(_MemberRecord, data)
    classic = None
    if record.session_timeout_ms is not None:
        classic = ClassicProtocolFacts(record.session_timeout_ms, tuple(record.protocols))
    return ConsumerFacts(
        client=ClientIdentity(record.client_id, record.client_host),
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        topic_names=frozenset(record.topic_names),
        topic_regex=record.topic_regex,
        assignor=record.assignor,
        classic=classic,
        unknown=record.unknown,
    )


def encode_target(target: Partitions) -> bytes:
    return encode(
        _TargetRecord(topics={topic.bytes: sorted(numbers) for topic, numbers in target.items()})
    )


def decode_target(data: bytes) -> Partitions:
    record = decode(_TargetRecord, data)
    return {UUID(bytes=topic): frozenset(numbers) for topic, numbers in record.topics.items()}


def encode_current(current: CurrentAssignment) -> bytes:
    return _encode_with(
        current.unknown,
        _CurrentRecord(
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=int(current.state),
            assigned=_by_epoch(current.assigned),
            revoking=_by_epoch(current.revoking),
        ),
    )


def decode_current(data: bytes) -> CurrentAssignment:
    record = decode(_CurrentRecord, data)
    return CurrentAssignment(
        epoch=record.epoch,
        previous_epoch=record.previous_epoch,
        state=MemberState(record.state),
        assigned=_by_partition(record.assigned),
        revoking=_by_partition(record.revoking),
        unknown=record.unknown,
    )


def _by_epoch(held: PartitionEpochs) -> dict[bytes, dict[int, list[int]]]:
    found: dict[bytes, dict[int, list[int]]] = {}
    for topic, numbers in held.items():
        epochs = found.setdefault(topic.bytes, {})
        for number in sorted(numbers):
            epochs.setdefault(numbers[number], []).append(number)
    return found


def _by_partition(record: dict[bytes, dict[int, list[int]]]) -> PartitionEpochs:
    return {
        UUID(bytes=topic): {
            number: epoch for epoch, numbers in epochs.items() for number in numbers
        }
        for topic, epochs in record.items()
    }


def encode_regex(pattern: str, topics: frozenset[str]) -> bytes:
    data = encode(_RegexRecord(pattern=pattern, topics=sorted(topics)))
    if len(data) > VALUE_MAX_BYTES:
        return encode(_RegexRecord(pattern=pattern, topics=None))
    return data


def decode_regex(data: bytes) -> tuple[str, frozenset[str] | None]:
    """The pattern and its topics; None if they must be matched again."""
    record = decode(_RegexRecord, data)
    return record.pattern, None if record.topics is None else frozenset(record.topics)
