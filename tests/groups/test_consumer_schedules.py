"""Random schedules of clients, coordinators, topics and time.

Whatever happens, by what replies told them no two members of a group read one partition, and a
group that is left in peace ends where its target says.
"""

from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.groups.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from headwater.groups.settings import GroupSettings
from tests.groups.consumer_client import ConsumerClient
from tests.groups.consumer_world import World

TOPICS = ("t0", "t1", "t2")
MOST_CLIENTS = 5
SUBSCRIPTIONS = [(("t0",), ""), (("t0", "t1"), ""), ((), "t.*"), (("t2",), "t[01]"), ((), "")]

clients = st.integers(0, MOST_CLIENTS - 1)


class Schedules(RuleBasedStateMachine):
    @initialize(partitions=st.integers(1, 6))
    def begin(self, partitions: int) -> None:
        self.world = World(GroupSettings(consumer_session_timeout_ms=30_000), t0=partitions)
        self.clients: list[ConsumerClient | None] = [None] * MOST_CLIENTS
        self.started = 0

    # What goes between clients and their coordinator

    def deliver(
        self, request: ConsumerHeartbeatRequest, *, crash: bool = False
    ) -> ConsumerHeartbeatReply | None:
        """The coordinator may die with what it did not write, and then it did not answer."""
        world = self.world
        reply, effects = world.group.heartbeat(request, world.topics, world.now, world.now_ms)
        if crash:
            world.restart()
            return None
        world.store(effects)
        return reply

    @rule(which=clients, static=st.booleans(), wanted=st.sampled_from(SUBSCRIPTIONS))
    def start(self, which: int, *, static: bool, wanted: tuple[tuple[str, ...], str]) -> None:
        if self.clients[which] is None:
            self.started += 1
            instance = f"i{which}" if static else None
            client = ConsumerClient(f"m{self.started}", instance)
            client.subscribe(*wanted)
            self.clients[which] = client

    @rule(which=clients, outcome=st.sampled_from(["answered"] * 6 + ["lost", "crash"]))
    def heartbeat(self, which: int, outcome: str) -> None:
        client = self.clients[which]
        if client is None:
            return
        reply = self.deliver(client.request(), crash=outcome == "crash")
        if reply is None or outcome == "lost":
            client.lost()
        else:
            client.receive(reply)

    @rule(which=clients)
    def poll(self, which: int) -> None:
        client = self.clients[which]
        if client is not None:
            client.reconcile()

    @rule(which=clients, outcome=st.sampled_from(["heard", "heard", "never sent"]))
    def stop(self, which: int, outcome: str) -> None:
        client = self.clients[which]
        if client is None:
            return
        if outcome == "heard" and client.epoch:
            self.deliver(client.leaving())
        self.clients[which] = None

    @rule(which=clients, wanted=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(self, which: int, wanted: tuple[tuple[str, ...], str]) -> None:
        client = self.clients[which]
        if client is not None:
            client.subscribe(*wanted)

    @rule(seconds=st.sampled_from([1, 5, 19, 31]))
    def pass_time(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @rule()
    def restart(self) -> None:
        before = self.world.group.describe(self.world.topics)
        if self.world.group.unwritten:
            return
        self.world.restart()
        assert self.world.group.describe(self.world.topics) == before

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grow_topic(self, name: str, more: int) -> None:
        topic = self.world.topics.get(name)
        self.world.topics.put(name, more + (len(topic.streams) if topic else 0))

    @precondition(lambda self: self.world.topics.get("t1") is not None)
    @rule()
    def delete_topic(self) -> None:
        self.world.topics.delete("t1")

    # What always holds

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        members = {m.member_id: m for m in self.world.group.describe(self.world.topics).members}
        readers: Counter[tuple[UUID, int]] = Counter()
        for client in self.clients:
            if client is not None and client.member_id in members:
                readers.update(client.owned)
        assert all(count == 1 for count in readers.values()), readers

    @invariant()
    def deadline_is_told_while_there_are_members(self) -> None:
        if not self.world.group.empty:
            assert self.world.group.deadline is not None

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world, living = self.world, [client for client in self.clients if client is not None]
        for _ in range(14):  # clients that vanished, static ones too, are fenced in this time
            world.pass_time(5)
            for client in living:
                reply = self.deliver(client.request())
                assert reply is not None
                client.receive(reply)
                client.reconcile()
                client.reconcile()
            self.no_partition_has_two_readers()
        described = world.group.describe(world.topics)
        assert described.state == ("Stable" if living else "Empty")
        assert {m.member_id for m in described.members} == {c.member_id for c in living}
        for client in living:
            target = next(m.target for m in described.members if m.member_id == client.member_id)
            assert client.owned == {(t, n) for t, numbers in target.items() for n in numbers}
        self.every_subscribed_partition_has_a_reader(living)

    def every_subscribed_partition_has_a_reader(self, living: list[ConsumerClient]) -> None:
        topics = self.world.topics
        expected = {
            (topics.of(name).id, number)
            for name in topics.names()
            if self.world.group.subscribed_to(name)
            for number in range(len(topics.of(name).streams))
        }
        assert set[tuple[UUID, int]]().union(*(client.owned for client in living)) == expected


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
