"""What of a classic group is in the metadata store.

One record for the group and one for each member, so that a generation in which few assignments
change writes little. The group's record sums up the members' records: where a store's limits
made the coordinator write one generation in several transactions and it died between them, the
sum is wrong, nobody was told of that generation, and the members join again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from headwater.groups.classic.member import ClassicMemberState
from headwater.groups.requests import Client
from headwater.meta.values import Value, decode, encode

HEADER: Final = "classic"
_MEMBER: Final = "classic/"
_LONGEST_NAME: Final = 200


class HeaderRecord(Value):
    """A group's last generation that was made known, or that it is empty."""

    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = 0
    """When the group came to this state."""
    members_sum: int = 0
    """Over the members' records."""


class MemberRecord(Value):
    """A member, all of its protocols and its assignment."""

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
    """A group as its records have it."""

    header: HeaderRecord
    members: dict[str, ClassicMemberState]
    """By record name; empty where the records are not all of one generation."""
    sums: dict[str, int]
    whole: bool
    """The records are all of one generation."""


def member_name(member_id: str) -> str:
    """The name of a member's record. Stores bound the length of keys; clients choose ids."""
    # No id that a client chose may look like the hash of another's.
    name = quote(member_id, safe="").replace("~", "%7E")
    if len(name) > _LONGEST_NAME:
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
    """One member's part of the sum. Not a CRC: those cancel out where two values are swapped."""
    return int.from_bytes(blake2b(name.encode() + b"\0" + record, digest_size=8).digest(), "big")


def total(sums: Iterable[int]) -> int:
    return sum(sums) % 2**63


def read_records(records: Mapping[str, bytes]) -> StoredGroup:
    """Raises ``UnknownFormat`` where a newer release wrote in a format of its own."""
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
        client=Client(record.client_id, record.client_host),
        session_timeout_ms=record.session_timeout_ms,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        protocols=record.protocols,
        assignment=record.assignment,
        unknown=record.unknown,
    )
