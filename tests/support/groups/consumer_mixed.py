"""Groups that members of both protocols talk to, whichever kind the group has at the time."""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

from kio.schema.consumer_protocol_subscription.v1 import data as v1
from kio.serial import entity_writer

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.consumer.consumer_protocol import read_assignment
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.machine import Effects, Ticket
from headwater.groups.requests import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headwater.groups.settings import GroupSettings
from tests.support.groups.consumer_world import CLIENT, GROUP, ConsumerGroupWorld

Names = Mapping[str, tuple[int, ...]]


def subscription(topics: Iterable[str], owned: Names | None = None) -> bytes:
    """A consumer's metadata, version 1."""
    buffer = BytesIO()
    entity_writer(v1.ConsumerProtocolSubscription)(
        buffer,
        v1.ConsumerProtocolSubscription(
            topics=tuple(topics),
            owned_partitions=tuple(
                v1.TopicPartition(topic=topic, partitions=numbers)  # type: ignore[arg-type]
                for topic, numbers in (owned or {}).items()
            ),
        ),
    )
    return b"\0\1" + buffer.getvalue()


def assigned(reply: SyncReply) -> Names:
    found = read_assignment(reply.assignment)
    assert found is not None
    return found.partitions


class MixedWorld(ConsumerGroupWorld):
    """Drives the machine that the group is at the time; ``answers`` has what was replied."""

    def __init__(self, settings: GroupSettings | None = None, **partitions: int) -> None:
        super().__init__(settings or GroupSettings(initial_rebalance_delay_ms=0), **partitions)
        self.machine: ClassicGroup | ConsumerGroup = ClassicGroup(
            GROUP, self.settings, self.rng, self.now_ms
        )
        self.answers: dict[Ticket, Any] = {}
        self.tickets = 0

    def take(self, effects: Effects) -> None:
        for ticket, reply in effects.replies:
            assert ticket not in self.answers, "a ticket is answered once"
            self.answers[ticket] = reply
        for name, value in effects.records.items():
            if value is None:
                self.records.pop(name, None)
            else:
                self.records[name] = value
        if effects.become is not None:
            assert isinstance(effects.become, ClassicGroup | ConsumerGroup)
            self.machine = effects.become

    def _ticket(self) -> Ticket:
        self.tickets += 1
        return Ticket(self.tickets)

    def send(self, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        now, machine = (self.now, self.now_ms), self.machine
        if isinstance(machine, ConsumerGroup):
            reply, effects = machine.heartbeat(request, self.topics, *now)
        else:
            reply, effects = ConsumerGroup.upgrade(
                machine, request, self.topics, self.settings, self.rng, *now
            )
        self.last = effects
        self.take(effects)
        return reply

    def join_classic(
        self,
        member_id: str = "",
        topics: Iterable[str] = ("t",),
        owned: Names | None = None,
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        known: bool = False,
        metadata: bytes | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
    ) -> Ticket:
        ticket = self._ticket()
        data = subscription(topics, owned) if metadata is None else metadata
        request = JoinRequest(
            client=CLIENT,
            member_id=member_id,
            instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=20_000,
            protocol_type=protocol_type,
            protocols=tuple((name, data) for name in protocols),
            requires_known_member_id=known,
            supports_skipping_assignment=True,
        )
        machine = self.machine
        if isinstance(machine, ConsumerGroup):
            self.take(machine.join(ticket, request, self.topics, self.now, self.now_ms))
        else:
            self.take(machine.join(ticket, request, self.now, self.now_ms))
        return ticket

    def joined(self, ticket: Ticket) -> JoinReply:
        reply = self.answers[ticket]
        assert isinstance(reply, JoinReply)
        return reply

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncReply:
        ticket = self.send_sync(
            member_id,
            generation,
            assignments,
            instance=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
        )
        reply = self.answers[ticket]
        assert isinstance(reply, SyncReply)
        return reply

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Ticket:
        ticket = self._ticket()
        request = SyncRequest(
            member_id=member_id,
            instance_id=instance,
            generation=generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        self.take(self.machine.sync(ticket, request, self.now, self.now_ms))
        return ticket

    def beat_classic(self, member_id: str, generation: int, instance: str | None = None) -> int:
        request = HeartbeatRequest(member_id=member_id, instance_id=instance, generation=generation)
        if isinstance(self.machine, ConsumerGroup):
            return self.machine.classic_heartbeat(request, self.now)
        return self.machine.heartbeat(request, self.now)

    def leave_classic(self, *members: LeavingMember) -> list[int]:
        reply, effects = self.machine.leave(members, self.now, self.now_ms)
        self.take(effects)
        return [code for _, _, code in reply.members]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while (deadline := self.machine.deadline) is not None and deadline <= self.now:
            self.take(self.machine.expire(self.now, self.now_ms))

    def restart(self) -> None:
        kind = type(self.machine)
        self.machine = kind.restore(GROUP, self.records, self.settings, self.rng, self.now)

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.machine, ConsumerGroup)
        return self.machine

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.machine, ClassicGroup)
        return self.machine
