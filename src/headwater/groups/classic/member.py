"""A member of a classic group: its subscription, and its waiting requests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.groups.bounds import member_bytes
from headwater.groups.machine import Ticket
from headwater.groups.requests import ClientIdentity, JoinRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata in the member's order of preference; each name occurs once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberState:
    """The stored state of a member."""

    member_id: str
    instance_id: str | None = None
    client: ClientIdentity
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    @property
    def size(self) -> int:
        """Estimated bytes of the member's record, without its assignment."""
        return stored_bytes(self.member_id, self.instance_id, self.client, self.protocols)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for a protocol; empty if the member does not support it."""
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class ClassicMember:
    """A member and its waiting requests."""

    state: ClassicMemberState
    joining: Ticket | None = None
    syncing: Ticket | None = None
    is_new: bool = False
    """It has not been in any generation, so that its client may not know its member id."""
    saved: ClassicMemberState | None = None
    """The state in the member's last record."""

    @property
    def kept_alive(self) -> bool:
        """It waits for a reply, so that it does not need to send heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


def stored_bytes(
    member_id: str, instance_id: str | None, client: ClientIdentity, protocols: Protocols
) -> int:
    """Estimated bytes of a member's record, without its assignment."""
    return member_bytes((member_id, instance_id, client.id, client.host), protocols)


def distinct_protocols(request: JoinRequest) -> Protocols:
    """The request's protocols; if a name occurs twice, the first one counts, as in Kafka."""
    first: dict[str, bytes] = {}
    for name, metadata in request.protocols:
        first.setdefault(name, metadata)
    return tuple(first.items())


def choose_protocol(members: Iterable[ClassicMemberState], present: str | None = None) -> str:
    """The protocol with the most votes, of the protocols that all members support.

    Each member votes for the first of its protocols that is a candidate. ``present`` wins a tie, so
    that the protocol does not change without need. The members must have a protocol in common;
    joins that would violate this are refused.
    """
    lists: list[Sequence[str]] = [[name for name, _ in state.protocols] for state in members]
    candidates = set(lists[0]).intersection(*lists[1:])
    votes: dict[str, int] = {}
    for names in lists:
        choice = next(name for name in names if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda name: (votes[name], name == present))
