"""What a group is to its coordinator: a pure machine.

A machine takes requests and the time in, and gives replies and records out. It never waits,
reads a clock or touches a store, so that every rule can be tested as plain calls.

The contract between a machine and the coordinator that drives it:

- A call changes the machine at once and returns ``Effects``. What must outlive the coordinator
  is in ``records``: small values by name, below the group's own key. ``restore`` of all records
  gives the same group again; the members' timers then start anew.
- The coordinator writes records in the order of the calls, in transactions that compare its
  lease, and hands a reply out only after every record of that group that was given before it or
  with it is durable. So a machine may go on from a state that is not yet written: nobody
  learns of it before it is. Where a write fails, all machines of that shard are dropped, every
  waiting request gets NOT_COORDINATOR, and the groups are read again.
- A machine refuses a request that would make its records larger than ``groups.bounds`` allows,
  and does not change. If a record is larger all the same, that one machine is dropped, its
  waiting requests get UNKNOWN_SERVER_ERROR, and the group is read again.
- A request that cannot be answered yet keeps its ``Ticket``; a later call's ``replies`` carry
  it. A machine answers every ticket exactly once.
- ``deadline`` is when the machine wants ``expire`` to be called next, on the monotonic clock.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NewType, Protocol

Ticket = NewType("Ticket", int)
"""Names a request that waits for its reply."""


class Superseded(Enum):
    """The reply to a request whose client gave up and asked the same again elsewhere.

    Its connection ends without an answer: what the client had queued behind the request, such as a
    commit, must not take effect after newer ones.
    """

    SUPERSEDED = "superseded"


SUPERSEDED: Final = Superseded.SUPERSEDED


@dataclass(slots=True)
class Effects:
    """What a call gives out."""

    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    records: dict[str, bytes | None] = field(default_factory=dict)
    """By name; None deletes. Names use ``[A-Za-z0-9._~%/-]`` only: quote what clients chose."""
    become: "Machine | None" = None
    """Takes this machine's place from the next call on; its records are in ``records``."""


class Machine(Protocol):
    """What the coordinator needs of every kind of group, beside the requests' own methods."""

    @property
    def kind(self) -> str:
        """``classic`` or ``consumer``, as ListGroups gives it."""
        ...

    @property
    def state(self) -> str:
        """Kafka's name of it, as ListGroups gives it: ``Empty``, ``Stable``, ..."""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, what the members gave otherwise, "" where none did."""
        ...

    @property
    def empty(self) -> bool:
        """No members: the group may be deleted and its offsets expire."""
        ...

    @property
    def empty_since_ms(self) -> int | None:
        """Wall-clock time at which the last member left; None while there are members, or where
        nobody knows it.
        """
        ...

    @property
    def deadline(self) -> float | None: ...

    def expire(self, now: float, now_ms: int) -> Effects:
        """Do everything that was due by ``now``."""
        ...

    def subscribed_to(self, topic: str) -> bool:
        """A member reads that topic, so that its offsets must not be deleted (86)."""
        ...

    def is_modern(self, member_id: str) -> bool:
        """Whether a member of that id speaks the consumer protocol (KIP-848)."""
        ...

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> int:
        """The error code for an offset commit of that member; 0 where it may be written.

        ``epoch`` is the generation or the member epoch; -1 with an empty ``member_id`` stands
        for a client that is not a member, which only an empty group accepts. A member that
        commits is alive: its session starts anew.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """The error code for an offset fetch that names a member; 0 where it may be read."""
        ...
