"""Random schedules of members, clocks and coordinators that die.

Clients send one request at a time, at any moment, and sometimes the same one twice. The
coordinator writes what the machine gives out in order and releases replies only after that, and
dies at any point with what is not yet written.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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
from headwater.wire.error_codes import Code

CLIENTS = st.integers(0, 4)
PROTOCOLS = st.sampled_from(
    [
        (("range", b"r"), ("sticky", b"s")),
        (("range", b"r"),),
        (("sticky", b"s"), ("range", b"r")),
        (("other", b"o"), ("range", b"changed")),
    ]
)


@dataclass
class ScheduledMember:
    """A client as it sees itself."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    """Whom it has to assign to, if it leads."""
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"),)
    waits: Ticket | None = None


@dataclass
class UnansweredRequest:
    """A request that the machine has to answer."""

    client: int
    request: JoinRequest | SyncRequest


@dataclass
class Given:
    """What one call gave out, until it is written."""

    records: dict[str, bytes | None]
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)


class Schedule(RuleBasedStateMachine):
    """The coordinator and five consumers; two of them are static."""

    @initialize(seed=st.integers(0, 3), max_size=st.sampled_from([3, 100]))
    def start(self, seed: int, max_size: int) -> None:
        self.settings = GroupSettings(max_size=max_size, initial_rebalance_delay_ms=3_000)
        self.rng = Random(seed)
        self.now = 50.0
        self.tickets = count(1)
        self.nonces = count(1)
        self.durable: dict[str, bytes] = {}
        self.queue: deque[Given] = deque()
        self.asked: dict[Ticket, UnansweredRequest] = {}
        self.clients = [ScheduledMember(f"i{n}" if n < 2 else None) for n in range(5)]
        self.machine = ClassicGroup("g", self.settings, self.rng, self.now_ms)
        self.highest_synced = 0
        self.source_of: dict[int, bytes] = {}

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    # What the machine gives out

    def take(self, effects: Effects) -> None:
        answered = {ticket for ticket, _ in effects.replies}
        assert len(answered) == len(effects.replies), "one answer for a ticket"
        waiting = self.asked.keys() - self.answered()
        assert answered <= waiting, "only what waits is answered"
        self.queue.append(Given(effects.records, effects.replies))
        if effects.records and self.machine.state in {"Stable", "Empty"}:
            again = ClassicGroup.restore("g", self.written(), self.settings, self.rng, self.now)
            if len(again.members) <= self.settings.max_size:
                assert again.describe() == self.machine.describe()
                assert again.generation == self.machine.generation
                assert again.leader == self.machine.leader

    def answered(self) -> set[Ticket]:
        """Tickets whose replies are not released yet."""
        return {ticket for given in self.queue for ticket, _ in given.replies}

    def written(self) -> dict[str, bytes]:
        records: dict[str, bytes | None] = dict(self.durable)
        for given in self.queue:
            records |= given.records
        return {name: data for name, data in records.items() if data is not None}

    def release(self, given: Given) -> None:
        for name, data in given.records.items():
            if data is None:
                del self.durable[name]
            else:
                self.durable[name] = data
        for ticket, reply in given.replies:
            asked = self.asked.pop(ticket)
            consumer = self.clients[asked.client]
            if consumer.waits == ticket:
                consumer.waits = None
                self.learn(consumer, asked.request, reply)

    def learn(
        self, consumer: ScheduledMember, request: JoinRequest | SyncRequest, reply: Any
    ) -> None:
        if reply.error in {Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID}:
            consumer.member_id = ""
        elif isinstance(reply, JoinReply) and reply.error in {Code.NONE, Code.MEMBER_ID_REQUIRED}:
            consumer.member_id = reply.member_id
            consumer.generation = reply.generation
            consumer.members = tuple(member.member_id for member in reply.members)
        elif isinstance(reply, SyncReply) and not reply.error:
            assert isinstance(request, SyncRequest)
            generation, source = request.generation, reply.assignment.partition(b"/")[0]
            assert generation >= self.highest_synced, "generations never go back"
            self.highest_synced = generation
            assert source, "every member of a generation is assigned something"
            assert self.source_of.setdefault(generation, source) == source, "one assignment"

    # What clients do

    @rule(n=CLIENTS, protocols=PROTOCOLS, known=st.booleans(), skips=st.booleans())
    def join(
        self, n: int, protocols: tuple[tuple[str, bytes], ...], known: bool, skips: bool
    ) -> None:
        consumer = self.clients[n]
        if consumer.waits is not None:
            return
        consumer.protocols = protocols
        request = JoinRequest(
            client=ClientIdentity(f"c{n}", "/127.0.0.1"),
            member_id=consumer.member_id,
            instance_id=consumer.instance,
            session_timeout_ms=6_000 + 1_000 * n,
            rebalance_timeout_ms=[20_000, 5_000, 60_000, 0, 10_000][n],
            protocol_type="consumer",
            protocols=protocols,
            requires_known_member_id=known,
            supports_skipping_assignment=skips,
        )
        self.ask(n, request)

    @rule(n=CLIENTS)
    def sync(self, n: int) -> None:
        consumer = self.clients[n]
        if consumer.waits is not None or not consumer.member_id:
            return
        source = f"{next(self.nonces)}"
        request = SyncRequest(
            member_id=consumer.member_id,
            instance_id=consumer.instance,
            generation=consumer.generation,
            protocol_type="consumer",
            protocol_name=None,
            assignments={m: f"{source}/{m}".encode() for m in consumer.members},
        )
        self.ask(n, request)

    @rule(n=CLIENTS)
    def ask_again(self, n: int) -> None:
        """The client's connection broke and it sends its request once more."""
        waits = self.clients[n].waits
        if waits is not None:
            self.ask(n, self.asked[waits].request)

    def ask(self, n: int, request: JoinRequest | SyncRequest) -> None:
        ticket = Ticket(next(self.tickets))
        self.asked[ticket] = UnansweredRequest(n, request)
        self.clients[n].waits = ticket
        if isinstance(request, JoinRequest):
            self.take(self.machine.join(ticket, request, self.now, self.now_ms))
        else:
            self.take(self.machine.sync(ticket, request, self.now, self.now_ms))

    @rule(n=CLIENTS)
    def start_again(self, n: int) -> None:
        """The client's process dies and another one takes its place."""
        self.clients[n] = ScheduledMember(self.clients[n].instance)

    @rule(n=CLIENTS)
    def heartbeat(self, n: int) -> None:
        consumer = self.clients[n]
        request = HeartbeatRequest(
            member_id=consumer.member_id,
            instance_id=consumer.instance,
            generation=consumer.generation,
        )
        assert self.machine.heartbeat(request, self.now) in {0, 22, 25, 27, 82}

    @rule(n=CLIENTS)
    def commit(self, n: int) -> None:
        consumer = self.clients[n]
        code = self.machine.check_commit(
            consumer.member_id, consumer.instance, consumer.generation, self.now
        )
        assert code in {
            Code.NONE,
            Code.ILLEGAL_GENERATION,
            Code.UNKNOWN_MEMBER_ID,
            Code.REBALANCE_IN_PROGRESS,
            Code.FENCED_INSTANCE_ID,
        }

    @rule(leaving=st.lists(CLIENTS, max_size=3), by_instance=st.booleans())
    def leave(self, leaving: list[int], by_instance: bool) -> None:
        members = [
            LeavingMember("", self.clients[n].instance)
            if by_instance
            else LeavingMember(self.clients[n].member_id, self.clients[n].instance)
            for n in leaving
        ]
        reply, effects = self.machine.leave(members, self.now, self.now_ms)
        assert [m[:2] for m in reply.members] == [(m.member_id, m.instance_id) for m in members]
        self.take(effects)

    # What time and the coordinator do

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 8.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.machine.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.take(self.machine.expire(self.now, self.now_ms))
        self.now = end

    @rule(seconds=st.sampled_from([5.0, 100.0]))
    def pass_time_in_one_step(self, seconds: float) -> None:
        """The coordinator's host was stopped for a while."""
        self.now += seconds
        self.take(self.machine.expire(self.now, self.now_ms))

    @rule(calls=st.integers(1, 100))
    def write(self, calls: int) -> None:
        for _ in range(min(calls, len(self.queue))):
            self.release(self.queue.popleft())

    @rule(calls=st.integers(0, 3))
    def die(self, calls: int) -> None:
        """Another coordinator loads the written records; waiting members must ask it."""
        self.write(calls)
        self.queue.clear()
        self.asked.clear()
        for consumer in self.clients:
            consumer.waits = None
        self.machine = (
            ClassicGroup.restore("g", self.durable, self.settings, self.rng, self.now)
            if self.durable
            else ClassicGroup("g", self.settings, self.rng, self.now_ms)
        )

    @rule(joins=st.permutations(range(5)), size=st.integers(1, 4), syncing=st.integers(0, 4))
    def work_together(self, joins: list[int], size: int, syncing: int) -> None:
        """Some clients come to a generation, and some of them to its assignment."""
        chosen = joins[:size]
        for _ in range(3):
            for n in chosen:
                self.join(n, (("range", b"r"),), True, True)
            self.write(1_000)
        self.pass_time(3.0)
        self.write(1_000)
        for n in chosen[-syncing:]:
            self.sync(n)
        self.write(1_000)

    @invariant()
    def a_machine_that_waits_for_something_has_a_deadline(self) -> None:
        if self.machine.deadline is None:
            assert self.machine.empty
            assert not self.machine.members
            assert self.asked.keys() == self.answered()

    @invariant()
    def no_instance_has_two_members(self) -> None:
        instances = [m.instance_id for m in self.machine.members if m.instance_id is not None]
        assert len(instances) == len(set(instances))

    def teardown(self) -> None:
        """Without any further request every timer runs out and everything is answered."""
        if not hasattr(self, "machine"):
            return
        for _ in range(2_000):
            due = self.machine.deadline
            if due is None:
                break
            self.now = max(self.now, due)
            self.take(self.machine.expire(self.now, self.now_ms))
        assert self.machine.deadline is None
        assert self.machine.empty
        self.write(len(self.queue))
        assert not self.asked


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=150, stateful_step_count=60)
