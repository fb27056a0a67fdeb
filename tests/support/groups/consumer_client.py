"""Clients of both protocols as Java's are, apart from any network."""

from collections.abc import Sequence
from uuid import UUID

from headwater.groups.consumer.consumer_protocol import read_assignment
from headwater.groups.machine import Effects, Ticket
from headwater.groups.requests import (
    Assignment,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headwater.wire.error_codes import Code
from tests.support.groups.consumer_mixed import subscription
from tests.support.groups.consumer_world import CLIENT, ConsumerGroupWorld

Partition = tuple[UUID, int]


class ConsumerClient:
    """A client that reads ``owned``, and revokes partitions before it takes new ones."""

    def __init__(self, member_id: str, instance_id: str | None = None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.names: tuple[str, ...] | None = ("t0",)
        self.regex: str | None = None
        self._told: set[Partition] = set()
        self._full = True
        self._subscription_is_new = True
        self._owned_is_new = True

    def subscribe(self, names: Sequence[str], regex: str = "") -> None:
        self.names, self.regex = tuple(names), regex
        self._subscription_is_new = True

    def step(self, world: ConsumerGroupWorld, outcome: str) -> None:
        """Send a heartbeat; ``outcome`` is what becomes of it."""
        reply, effects = world.group.heartbeat(
            self.request(), world.topics, world.now, world.now_ms
        )
        if world.survives(effects, outcome):
            self.receive(reply)
        else:
            self._full = True  # it cannot know what of its heartbeat was heard

    def stop(self, world: ConsumerGroupWorld) -> None:
        """Stop reading, then say so."""
        epoch = -1 if self.instance_id is None else -2
        if self.epoch:
            self.abandon()
            world.beat(self.member_id, epoch, instance=self.instance_id)

    def request(self) -> ConsumerHeartbeatRequest:
        """The next heartbeat: everything after a loss, else only what is new."""
        full = self._full or self.epoch == 0
        says_names = full or self._subscription_is_new
        return ConsumerHeartbeatRequest(
            client=CLIENT,
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000 if full else -1,
            topic_names=self.names if says_names else None,
            topic_regex=self.regex if says_names else None,
            owned=self._assignment() if full or self._owned_is_new else None,
        )

    def receive(self, reply: ConsumerHeartbeatReply) -> None:
        if reply.error:
            if reply.error != Code.UNRELEASED_INSTANCE_ID:
                self.abandon()
            self._full = True
            return
        assert reply.member_id == self.member_id
        self.epoch = reply.epoch
        self._full = self._subscription_is_new = self._owned_is_new = False
        if reply.assignment is not None:
            self._told = {(t, n) for t, numbers in reply.assignment.items() for n in numbers}

    def reconcile(self) -> None:
        """What the application's callbacks do when it polls: first give up, then take."""
        if self.owned - self._told:
            self.owned &= self._told
            self._owned_is_new = True
        elif self.owned != self._told:
            self.owned = set(self._told)
            self._owned_is_new = True

    def abandon(self) -> None:
        self.owned, self._told = set(), set()
        self.epoch, self._full = 0, True

    def _assignment(self) -> Assignment:
        if self.epoch == 0:
            return {}
        found: dict[UUID, list[int]] = {}
        for topic, number in sorted(self.owned):
            found.setdefault(topic, []).append(number)
        return {topic: tuple(numbers) for topic, numbers in found.items()}


class ClassicClient:
    """A classic consumer in a consumer group: join, sync, and heartbeats until it must rejoin.

    An eager client revokes all partitions before it joins. A cooperative one revokes only the
    partitions that its new assignment lacks.
    """

    def __init__(self, *, cooperative: bool) -> None:
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.names: tuple[str, ...] = ("t0",)
        self._cooperative = cooperative
        self._generation = -1
        self._phase = "join"

    def subscribe(self, names: Sequence[str], regex: str = "") -> None:
        self.names = tuple(names)
        if self._phase == "idle":
            self._phase = "join"

    def step(self, world: ConsumerGroupWorld, outcome: str) -> None:
        if self._phase == "join":
            # An empty group would become a classic one, which other tests are about.
            if not world.group.empty:
                self._join(world, outcome)
        elif self._phase == "sync":
            self._sync(world, outcome)
        else:
            self._beat(world, outcome)

    def stop(self, world: ConsumerGroupWorld) -> None:
        self.owned = set()
        leaving = [LeavingMember(self.member_id, None)]
        _, effects = world.group.leave(leaving, world.now, world.now_ms)
        world.store(effects)

    def reconcile(self) -> None:
        """Nothing to do: the client follows each reply at once."""

    def _join(self, world: ConsumerGroupWorld, outcome: str) -> None:
        if not self._cooperative:
            self.owned = set()
        owned: dict[str, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            topic = world.topics.get_by_id(topic_id)
            if topic is not None:
                owned.setdefault(topic.name, []).append(number)
        data = subscription(self.names, {name: tuple(owned[name]) for name in owned})
        request = JoinRequest(
            client=CLIENT,
            member_id=self.member_id,
            instance_id=None,
            session_timeout_ms=12_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=(("range", data),),
            requires_known_member_id=True,
            supports_skipping_assignment=True,
        )
        effects = world.group.join(Ticket(1), request, world.topics, world.now, world.now_ms)
        reply = self._heard(world, effects, outcome)
        if not isinstance(reply, JoinReply):
            return
        if reply.error == Code.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error:
            self._start_anew(reply.error)
        else:
            self._generation, self._phase = reply.generation, "sync"

    def _sync(self, world: ConsumerGroupWorld, outcome: str) -> None:
        request = SyncRequest(
            member_id=self.member_id,
            instance_id=None,
            generation=self._generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments={},
        )
        effects = world.group.sync(Ticket(1), request, world.now, world.now_ms)
        reply = self._heard(world, effects, outcome)
        if not isinstance(reply, SyncReply):
            return
        if reply.error:
            self._start_anew(reply.error)
            return
        found = read_assignment(reply.assignment)
        assert found is not None
        told = {
            (world.topics.of(name).id, number)
            for name, numbers in found.partitions.items()
            for number in numbers
        }
        self._phase = "join" if self.owned - told else "idle"
        self.owned = told

    def _beat(self, world: ConsumerGroupWorld, outcome: str) -> None:
        request = HeartbeatRequest(
            member_id=self.member_id, instance_id=None, generation=self._generation
        )
        code = world.group.classic_heartbeat(request, world.now)
        if world.survives(Effects(), outcome) and code:
            self._start_anew(code)

    def _heard(self, world: ConsumerGroupWorld, effects: Effects, outcome: str) -> object | None:
        return effects.replies[0][1] if world.survives(effects, outcome) else None

    def _start_anew(self, code: int) -> None:
        self._phase = "join"
        if code != Code.REBALANCE_IN_PROGRESS:
            self.owned = set()
        if code == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""
