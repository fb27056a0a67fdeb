"""The interface of a group's state machine.

A machine takes requests and the time, and returns replies and records. It never waits, reads a
clock or accesses a store, so that every rule can be tested with plain function calls.

The contract between a machine and its coordinator:

- A call changes the machine at once and returns ``Effects``. State that must survive the
  coordinator is in ``records``: small values by name, under the group's key prefix. Restoring a
  machine from all of its records gives the same group; its members' timers start anew.
- The coordinator writes the records in the order of the calls, in transactions that compare its
  lease. It sends a reply only when all records that the group returned before it or with it are
  durable. A machine may therefore continue from a state that is not written yet: no client sees
  it earlier. If a write fails, all machines of the shard are dropped, every waiting request gets
  NOT_COORDINATOR, and the groups are read again.
- A machine refuses a request that would make its records larger than ``groups.bounds`` allows, and
  does not change. If a record is too large nevertheless, only that machine is dropped, its waiting
  requests get UNKNOWN_SERVER_ERROR, and the group is read again.
- A request that cannot be answered yet keeps its ``Ticket``; the ``replies`` of a later call answer
  it. A machine answers every ticket exactly once.
- ``deadline`` is the time on the monotonic clock at which ``expire`` must be called next.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NewType, Protocol

Ticket = NewType("Ticket", int)
"""Identifies a request that waits for its reply."""


class Superseded(Enum):
    """The reply to a request that its client has sent again on another connection.

    The old connection is closed without an answer. Requests that the client queued behind it, such
    as a commit, must not take effect after newer ones.
    """

    SUPERSEDED = "superseded"


SUPERSEDED: Final = Superseded.SUPERSEDED


@dataclass(slots=True)
class Effects:
    """The replies and records that a call returns."""

    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    records: dict[str, bytes | None] = field(default_factory=dict)
    """By name; None deletes. Names use ``[A-Za-z0-9._~%/-]`` only: quote ids of clients."""
    become: "GroupMachine | None" = None
    """Replaces this machine from the next call on; its records are in ``records``."""


class GroupMachine(Protocol):
    """The methods that both kinds of groups share; requests have methods of their own."""

    @property
    def kind(self) -> str:
        """``classic`` or ``consumer``, as in ListGroups."""
        ...

    @property
    def state(self) -> str:
        """Kafka's name of the state, as in ListGroups: ``Empty``, ``Stable``, ..."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers; otherwise the members' protocol type, "" without one."""
        ...

    @property
    def empty(self) -> bool:
        """True without members: the group may be deleted, and its offsets expire."""
        ...

    @property
    def empty_since_ms(self) -> int | None:
        """Wall-clock time at which the last member left; None if there are members or the time is
        unknown.
        """
        ...

    @property
    def deadline(self) -> float | None: ...

    def expire(self, now: float, now_ms: int) -> Effects:
        """Fire every timer that was due by ``now``."""
        ...

    def subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, so that its offsets must not be deleted (error 86)."""
        ...

    def is_modern(self, member_id: str) -> bool:
        """Whether the member uses the consumer protocol (KIP-848)."""
        ...

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> int:
        """The error code for an offset commit of a member; 0 allows it.

        ``epoch`` is the generation or the member epoch. A client that is not a member sends -1 and
        an empty ``member_id``; only an empty group accepts that. A commit restarts the member's
        session timeout.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """The error code for an offset fetch of a member; 0 allows it."""
        ...
