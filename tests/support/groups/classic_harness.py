"""A classic group under test: short calls, a clock, and a store that the records go to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.machine import Effects, Ticket
from headwater.groups.requests import (
    ClientIdentity,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headwater.groups.settings import GroupSettings

T = TypeVar("T", JoinReply, SyncReply)

SETTINGS = GroupSettings(initial_rebalance_delay_ms=3_000)
RANGE = (("range", b"r"),)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    body = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + body + b"\xff\xff\xff\xff"


@dataclass
class DrivenGroup:
    """Drives one machine; ``replies`` has every answer by its ticket."""

    settings: GroupSettings = SETTINGS
    name: str = "g"
    now: float = 1_000.0
    replies: dict[Ticket, Any] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)
    written: list[dict[str, bytes | None]] = field(default_factory=list)
    """What each call wrote, where it wrote anything."""
    tickets: int = 0
    machine: ClassicGroup = field(init=False)

    def __post_init__(self) -> None:
        self.machine = ClassicGroup(self.name, self.settings, Random(7), self.now_ms)

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000) + 1_700_000_000_000

    def take(self, effects: Effects) -> None:
        assert effects.become is None
        for ticket, reply in effects.replies:
            assert ticket not in self.replies, "a ticket is answered once"
            self.replies[ticket] = reply
        if effects.records:
            self.written.append(dict(effects.records))
        for name, value in effects.records.items():
            if value is None:
                self.records.pop(name)
            else:
                self.records[name] = value

    def join(
        self,
        member_id: str = "",
        *,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        known: bool = False,
        skips: bool = True,
        client: str = "c",
    ) -> Ticket:
        self.tickets += 1
        ticket = Ticket(self.tickets)
        request = JoinRequest(
            client=ClientIdentity(client, "/127.0.0.1"),
            member_id=member_id,
            instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            requires_known_member_id=known,
            supports_skipping_assignment=skips,
        )
        self.take(self.machine.join(ticket, request, self.now, self.now_ms))
        return ticket

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Ticket:
        self.tickets += 1
        ticket = Ticket(self.tickets)
        request = SyncRequest(
            member_id=member_id,
            instance_id=instance,
            generation=self.machine.generation if generation is None else generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        self.take(self.machine.sync(ticket, request, self.now, self.now_ms))
        return ticket

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance: str | None = None
    ) -> int:
        present = self.machine.generation if generation is None else generation
        request = HeartbeatRequest(member_id=member_id, instance_id=instance, generation=present)
        return self.machine.heartbeat(request, self.now)

    def leave(self, *members: str | LeavingMember) -> list[int]:
        leaving = [LeavingMember(m, None) if isinstance(m, str) else m for m in members]
        reply, effects = self.machine.leave(leaving, self.now, self.now_ms)
        self.take(effects)
        assert reply.error == 0
        assert [(m.member_id, m.instance_id) for m in leaving] == [m[:2] for m in reply.members]
        return [code for _, _, code in reply.members]

    def pass_time(self, seconds: float, alive: Sequence[str] = ()) -> None:
        """Let the clock run, with timers at their time and heartbeats of ``alive`` each second."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 1, end)
            for member_id in alive:
                self.heartbeat(member_id)
            self.run_timers()

    def run_timers(self) -> None:
        while (due := self.machine.deadline) is not None and due <= self.now:
            self.take(self.machine.expire(self.now, self.now_ms))

    def restart(self, settings: GroupSettings | None = None) -> None:
        """The coordinator dies and another one reads the records."""
        self.machine = ClassicGroup.restore(
            self.name, dict(self.records), settings or self.settings, Random(8), self.now
        )

    def answer(self, ticket: Ticket, kind: type[T]) -> T:
        reply = self.replies[ticket]
        assert isinstance(reply, kind)
        return reply

    def joined(self, ticket: Ticket) -> JoinReply:
        reply = self.answer(ticket, JoinReply)
        assert reply.error == 0
        return reply

    def synced(self, ticket: Ticket) -> bytes:
        reply = self.answer(ticket, SyncReply)
        assert reply.error == 0
        return reply.assignment

    def stable(self, count: int = 2, **kinds: Any) -> list[str]:
        """Bring ``count`` members to a stable generation; their ids, the leader's first."""
        tickets = [self.join(**kinds) for _ in range(count)]
        return self.settle(tickets)

    def stable_static(self, *instances: str, **kinds: Any) -> list[str]:
        return self.settle([self.join(instance=instance, **kinds) for instance in instances])

    def settle(self, tickets: Sequence[Ticket]) -> list[str]:
        self.pass_time(3)
        if any(ticket not in self.replies for ticket in tickets):
            self.pass_time(3)
        ids = [self.joined(ticket).member_id for ticket in tickets]
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: Sequence[str]) -> None:
        """The leader assigns to each member its own id and the generation."""
        leader = self.machine.leader
        assert leader is not None
        generation = self.machine.generation
        self.sync(leader, {member: assignment(member, generation) for member in ids})
        for member in ids:
            if member != leader:
                self.synced(self.sync(member))
        assert self.machine.state == "Stable"


def assignment(member_id: str, generation: int) -> bytes:
    return f"{member_id}@{generation}".encode()


Call = Callable[[DrivenGroup], int]
