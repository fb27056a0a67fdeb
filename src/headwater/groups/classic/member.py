"""A member of a classic group: what it said of itself, and what it waits for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.groups.bounds import member_bytes
from headwater.groups.machine import Ticket
from headwater.groups.requests import Client, JoinRequest

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata in the member's order of preference, each name once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberState:
    """Everything about a member that outlives its coordinator."""

    member_id: str
    instance_id: str | None = None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    @property
    def size(self) -> int:
        """About how many bytes the member's record has without its assignment."""
        return stored_bytes(self.member_id, self.instance_id, self.client, self.protocols)

    def metadata(self, protocol: str) -> bytes:
        """What the member said for that protocol; empty where it does not know it."""
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Member:
    """A member and its requests that wait for their replies."""

    state: ClassicMemberState
    joining: Ticket | None = None
    syncing: Ticket | None = None
    is_new: bool = False
    """It has not been in any generation, so that it may not even know its id."""
    saved: ClassicMemberState | None = None
    """As the records have it."""

    @property
    def kept_alive(self) -> bool:
        """It waits for us, so that it need not send heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


def stored_bytes(
    member_id: str, instance_id: str | None, client: Client, protocols: Protocols
) -> int:
    """About how many bytes a member with these has in the store, without its assignment."""
    return member_bytes((member_id, instance_id, client.id, client.host), protocols)


def distinct_protocols(request: JoinRequest) -> Protocols:
    """The request's protocols; of a name that is given twice the first counts, as in Kafka."""
    first: dict[str, bytes] = {}
    for name, metadata in request.protocols:
        first.setdefault(name, metadata)
    return tuple(first.items())


def choose_protocol(members: Iterable[ClassicMemberState], present: str | None = None) -> str:
    """The protocol with the most votes of those that all members know.

    Each member votes for the first of its protocols that is a candidate. ``present`` wins a tie,
    so that a vote alone never moves a group. Members with nothing in common are an error of the
    caller: joins that would lead there are refused.
    """
    lists: list[Sequence[str]] = [[name for name, _ in state.protocols] for state in members]
    candidates = set(lists[0]).intersection(*lists[1:])
    votes: dict[str, int] = {}
    for names in lists:
        choice = next(name for name in names if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda name: (votes[name], name == present))
