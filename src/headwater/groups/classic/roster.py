"""The members of one classic group, with counts over them."""

from collections.abc import Iterator, ValuesView
from dataclasses import replace

from headwater.groups.classic.member import ClassicMember, ClassicMemberState, Protocols
from headwater.groups.machine import Ticket
from headwater.wire.error_codes import Code


class Roster:
    """Members by id, the leader, and the number of members that support each protocol."""

    __slots__ = ("_members", "_sizes", "_supporters", "instances", "joining", "leader", "size")

    def __init__(self) -> None:
        self._members: dict[str, ClassicMember] = {}
        self._supporters: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0
        """Estimated bytes of the members' records, without their assignments."""
        self.instances: dict[str, str] = {}
        """The member id of each static member."""
        self.leader: str | None = None
        self.joining = 0
        """Number of members that wait for the next generation."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    def get(self, member_id: str) -> ClassicMember | None:
        return self._members.get(member_id)

    def all(self) -> ValuesView[ClassicMember]:
        return self._members.values()

    def states(self) -> Iterator[ClassicMemberState]:
        return (member.state for member in self._members.values())

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of the members, in seconds."""
        longest = max((state.rebalance_timeout_ms for state in self.states()), default=0)
        return max(longest, 0) / 1000

    def await_generation(self, member: ClassicMember, ticket: Ticket) -> Ticket | None:
        """Let a member wait for the next generation; returns its earlier ticket, if it has one."""
        before = self.end_wait(member)
        member.joining = ticket
        self.joining += 1
        return before

    def end_wait(self, member: ClassicMember) -> Ticket | None:
        """End the wait of a member; returns its ticket, if it has one."""
        ticket = member.joining
        if ticket is not None:
            member.joining = None
            self.joining -= 1
        return ticket

    def add(self, member: ClassicMember) -> None:
        """Add a member that is not waiting; the first one becomes the leader."""
        state = member.state
        self._members[state.member_id] = member
        self._count(state.protocols, 1)
        self._update_size(state)
        if state.instance_id is not None:
            self.instances[state.instance_id] = state.member_id
        if self.leader is None:
            self.leader = state.member_id

    def remove(self, member_id: str) -> ClassicMember:
        """Remove a member that is not waiting; if it was the leader, another one becomes it."""
        member = self._members.pop(member_id)
        self._count(member.state.protocols, -1)
        self.size -= self._sizes.pop(member_id)
        if member.state.instance_id is not None:
            del self.instances[member.state.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """Change the id of a member that is not waiting."""
        led = self.leader == old_id
        member = ClassicMember(replace(self.remove(old_id).state, member_id=new_id))
        self.add(member)
        if led:
            self.leader = new_id
        return member

    def change(
        self,
        member: ClassicMember,
        *,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Update a member that joins again."""
        self._count(member.state.protocols, -1)
        self._count(protocols, 1)
        member.state = replace(
            member.state,
            protocols=protocols,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        self._update_size(member.state)

    def size_without(self, member_id: str) -> int:
        """``size`` without a member, which need not exist."""
        return self.size - self._sizes.get(member_id, 0)

    def all_support_one_of(self, protocols: Protocols) -> bool:
        """Whether all members support one of the protocols."""
        return any(self._supporters.get(name, 0) == len(self) for name, _ in protocols)

    def check(self, member_id: str, instance_id: str | None) -> int:
        """The error code for a request with this member id and instance id; 0 if they match."""
        if instance_id is not None:
            present = self.instances.get(instance_id)
            if present is None:
                return Code.UNKNOWN_MEMBER_ID
            if present != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self._members else Code.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; False if none has joined."""
        if self.leader is not None and self._members[self.leader].joining is not None:
            return True
        for member_id, member in self._members.items():
            if member.joining is not None:
                self.leader = member_id
                return True
        return False

    def _update_size(self, state: ClassicMemberState) -> None:
        self.size += state.size - self._sizes.get(state.member_id, 0)
        self._sizes[state.member_id] = state.size

    def _count(self, protocols: Protocols, difference: int) -> None:
        for name, _ in protocols:
            self._supporters[name] = self._supporters.get(name, 0) + difference
            if not self._supporters[name]:
                del self._supporters[name]
