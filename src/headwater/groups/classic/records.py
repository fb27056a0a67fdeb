"""The stored form of a classic group.

There is one record for the group and one for each member, so that a generation that changes few
assignments writes little. The group's record has a checksum of the members' records. A large
generation may be written in several transactions. If the coordinator dies between them, the
checksum is wrong. No client has received that generation yet, and the members join again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from headwater.groups.classic.member import ClassicMemberState
from headwater.groups.requests import ClientIdentity
from headwater.meta.values import Value, decode, encode

HEADER: Final = "classic"
_MEMBER: Final = "classic/"
_MAX_NAME_LENGTH: Final = 200


class HeaderRecord(Value):
    """A group's last complete generation; without members, an empty group."""

    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = 0
    """Wall-clock time at which the group entered its state."""
    members_sum: int = 0
    """Checksum of the members' records."""


class MemberRecord(Value):
    """A member with its protocols and its assignment."""

    id: str
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    protocols: tuple[tuple[str, bytes], ...] = ()
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as read from its records."""

    header: HeaderRecord
    members: dict[str, ClassicMemberState]
    """By record name; empty if the records are not all of one generation."""
    sums: dict[str, int]
    whole: bool
    """Whether the records are all of one generation."""


def member_name(member_id: str) -> str:
    """The name of a member's record; long ids are hashed, because stores limit key lengths."""
    # No quoted id may look like the hash of another one.
    name = quote(member_id, safe="").replace("~", "%7E")
    if len(name) > _MAX_NAME_LENGTH:
        name = "~" + blake2b(member_id.encode(), digest_size=24).hexdigest()
    return _MEMBER + name


def member_record(state: ClassicMemberState) -> bytes:
    record = MemberRecord(
        id=state.member_id,
        instance=state.instance_id,
        client_id=state.client.id,
        client_host=state.client.host,
        session_timeout_ms=state.session_timeout_ms,
        rebalance_timeout_ms=state.rebalance_timeout_ms,
        protocols=state.protocols,
        assignment=state.assignment,
    )
    if state.unknown:
        record.__dict__["unknown"] = dict(state.unknown)
    return encode(record)


def record_sum(name: str, record: bytes) -> int:
    """A member's part of the checksum. Not a CRC, which would not detect two swapped values."""
    return int.from_bytes(blake2b(name.encode() + b"\0" + record, digest_size=8).digest(), "big")


def total(sums: Iterable[int]) -> int:
    return sum(sums) % 2**63


def read_records(records: Mapping[str, bytes]) -> StoredGroup:
    """Raises ``UnknownFormat`` if a newer release wrote the records in a newer format."""
    header = decode(HeaderRecord, records[HEADER])
    stored = {name: data for name, data in sorted(records.items()) if name.startswith(_MEMBER)}
    sums = {name: record_sum(name, data) for name, data in stored.items()}
    whole = total(sums.values()) == header.members_sum
    members = {name: _member_state(data) for name, data in stored.items()} if whole else {}
    return StoredGroup(header, members, sums, whole)


def _member_state(data: bytes) -> ClassicMemberState:
    record = decode(MemberRecord, data)
    return ClassicMemberState(
        member_id=record.id,
        instance_id=record.instance,
        client=ClientIdentity(record.client_id, record.client_host),
        session_timeout_ms=record.session_timeout_ms,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        protocols=record.protocols,
        assignment=record.assignment,
        unknown=record.unknown,
    )
