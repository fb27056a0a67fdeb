"""The members of one classic group, with what is counted over them."""

from collections.abc import Iterator, ValuesView
from dataclasses import replace

from headwater.groups.classic.member import ClassicMemberState, Member, Protocols
from headwater.groups.machine import Ticket
from headwater.wire.error_codes import Code


class Roster:
    """Members by id, the leader, and how many members know each protocol."""

    __slots__ = ("_known_by", "_members", "_sizes", "instances", "joining", "leader", "size")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._known_by: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0
        """About how many bytes the members have in the store, without their assignments."""
        self.instances: dict[str, str] = {}
        """The member id of each static member."""
        self.leader: str | None = None
        self.joining = 0
        """How many wait for the next generation."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def all(self) -> ValuesView[Member]:
        return self._members.values()

    def states(self) -> Iterator[ClassicMemberState]:
        return (member.state for member in self._members.values())

    @property
    def rebalance_timeout(self) -> float:
        """Seconds: the longest that any member asks for."""
        longest = max((state.rebalance_timeout_ms for state in self.states()), default=0)
        return max(longest, 0) / 1000

    def await_generation(self, member: Member, ticket: Ticket) -> Ticket | None:
        """Let a member wait for the next generation; gives the ticket that it waited with."""
        before = self.end_wait(member)
        member.joining = ticket
        self.joining += 1
        return before

    def end_wait(self, member: Member) -> Ticket | None:
        """Let a member wait no longer; gives the ticket that it waited with."""
        ticket = member.joining
        if ticket is not None:
            member.joining = None
            self.joining -= 1
        return ticket

    def add(self, member: Member) -> None:
        """Add a member that does not wait; the first one leads."""
        state = member.state
        self._members[state.member_id] = member
        self._count(state.protocols, 1)
        self._weigh(state)
        if state.instance_id is not None:
            self.instances[state.instance_id] = state.member_id
        if self.leader is None:
            self.leader = state.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member that does not wait; if it led, another one does."""
        member = self._members.pop(member_id)
        self._count(member.state.protocols, -1)
        self.size -= self._sizes.pop(member_id)
        if member.state.instance_id is not None:
            del self.instances[member.state.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a member that does not wait another id; everything else of it stays."""
        led = self.leader == old_id
        member = Member(replace(self.remove(old_id).state, member_id=new_id))
        self.add(member)
        if led:
            self.leader = new_id
        return member

    def change(
        self,
        member: Member,
        *,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Take over what a member says of itself when it joins again."""
        self._count(member.state.protocols, -1)
        self._count(protocols, 1)
        member.state = replace(
            member.state,
            protocols=protocols,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        self._weigh(member.state)

    def size_without(self, member_id: str) -> int:
        """``size`` without that member, which may be unknown."""
        return self.size - self._sizes.get(member_id, 0)

    def knows_one_of(self, protocols: Protocols) -> bool:
        """Every member knows at least one of these."""
        return any(self._known_by.get(name, 0) == len(self) for name, _ in protocols)

    def check(self, member_id: str, instance_id: str | None) -> int:
        """The error code for a request that says it comes from that member."""
        if instance_id is not None:
            present = self.instances.get(instance_id)
            if present is None:
                return Code.UNKNOWN_MEMBER_ID
            if present != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self._members else Code.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is among those that joined; False where nobody did."""
        if self.leader is not None and self._members[self.leader].joining is not None:
            return True
        for member_id, member in self._members.items():
            if member.joining is not None:
                self.leader = member_id
                return True
        return False

    def _weigh(self, state: ClassicMemberState) -> None:
        self.size += state.size - self._sizes.get(state.member_id, 0)
        self._sizes[state.member_id] = state.size

    def _count(self, protocols: Protocols, step: int) -> None:
        for name, _ in protocols:
            self._known_by[name] = self._known_by.get(name, 0) + step
            if not self._known_by[name]:
                del self._known_by[name]
