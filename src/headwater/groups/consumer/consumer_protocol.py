"""Kafka's consumer protocol, which classic consumers embed in JoinGroup and SyncGroup.

Reads subscriptions and assignments of versions 0 to 3, and the common fields of later ones.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from kio.schema.consumer_protocol_assignment.v0 import data as a0
from kio.schema.consumer_protocol_assignment.v1 import data as a1
from kio.schema.consumer_protocol_assignment.v2 import data as a2
from kio.schema.consumer_protocol_assignment.v3 import data as a3
from kio.schema.consumer_protocol_subscription.v0 import data as s0
from kio.schema.consumer_protocol_subscription.v1 import data as s1
from kio.schema.consumer_protocol_subscription.v2 import data as s2
from kio.schema.consumer_protocol_subscription.v3 import data as s3
from kio.serial import entity_writer

from headwater.errors import MalformedRequest
from headwater.groups.bounds import MAX_EMBEDDED_ELEMENTS
from headwater.wire.messages.guarded_reader import Reader, guarded_reader

__all__ = (
    "EmbeddedAssignment",
    "EmbeddedSubscription",
    "read_assignment",
    "read_subscription",
    "write_assignment",
)

_VERSION: Final = struct.Struct(">h")
_ASSIGNMENTS: Final[tuple[Any, ...]] = (a0, a1, a2, a3)
_read_subscription: Final = tuple(
    guarded_reader(module.ConsumerProtocolSubscription, MAX_EMBEDDED_ELEMENTS)
    for module in (s0, s1, s2, s3)
)
_read_assignment: Final = tuple(
    guarded_reader(module.ConsumerProtocolAssignment, MAX_EMBEDDED_ELEMENTS)
    for module in _ASSIGNMENTS
)
_write_assignment: Final = tuple(
    entity_writer(module.ConsumerProtocolAssignment) for module in _ASSIGNMENTS
)

ByName = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class EmbeddedSubscription:
    """The topics of a member, and the partitions that it owns (from version 1 on)."""

    topics: frozenset[str]
    owned: ByName
    rack_id: str | None


@dataclass(frozen=True, slots=True)
class EmbeddedAssignment:
    partitions: ByName
    user_data: bytes


def read_subscription(data: bytes) -> EmbeddedSubscription | None:
    """None if the data is malformed."""
    found = _read(data, _read_subscription)
    if found is None:
        return None
    owned = _by_name(getattr(found, "owned_partitions", ()))
    return EmbeddedSubscription(frozenset(found.topics), owned, getattr(found, "rack_id", None))


def read_assignment(data: bytes) -> EmbeddedAssignment | None:
    """None if the data is malformed."""
    found = _read(data, _read_assignment)
    if found is None:
        return None
    return EmbeddedAssignment(_by_name(found.assigned_partitions), found.user_data or b"")


def write_assignment(partitions: Mapping[str, Iterable[int]], metadata: bytes) -> bytes:
    """Encode an assignment in the version of the member's ``metadata``."""
    version = _clamp(*_VERSION.unpack_from(metadata)) if len(metadata) >= _VERSION.size else 0
    module = _ASSIGNMENTS[version]
    buffer = BytesIO()
    _write_assignment[version](
        buffer,
        module.ConsumerProtocolAssignment(
            assigned_partitions=tuple(
                module.TopicPartition(topic=topic, partitions=tuple(sorted(numbers)))
                for topic, numbers in sorted(partitions.items())
            )
        ),
    )
    return _VERSION.pack(version) + buffer.getvalue()


def _read(data: bytes, readers: tuple[Reader, ...]) -> Any:
    try:
        (version,) = _VERSION.unpack_from(data)
        if version < 0:
            return None
        return readers[_clamp(version)](data, _VERSION.size)
    except (MalformedRequest, struct.error):
        return None


def _clamp(version: int) -> int:
    return min(max(version, 0), len(_ASSIGNMENTS) - 1)


def _by_name(partitions: Iterable[Any]) -> dict[str, tuple[int, ...]]:
    return {each.topic: tuple(each.partitions) for each in partitions}
