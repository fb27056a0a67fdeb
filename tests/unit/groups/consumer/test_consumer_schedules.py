"""Random schedules of clients, coordinators, topics and time.

Whatever happens, by what replies told them no two members of a group read one partition, and a
group that is left in peace ends where its target says.
"""

from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.groups.settings import GroupSettings
from tests.support.groups.consumer_client import ClassicClient, ConsumerClient
from tests.support.groups.consumer_world import ConsumerGroupWorld

TOPICS = ("t0", "t1", "t2")
MOST_CLIENTS = 5
SUBSCRIPTIONS = [(("t0",), ""), (("t0", "t1"), ""), ((), "t.*"), (("t2",), "t[01]"), ((), "")]

MOVES = ["poll"] * 4 + ["answered"] * 8 + ["lost", "crash"]

clients = st.integers(0, MOST_CLIENTS - 1)


class Schedules(RuleBasedStateMachine):
    @initialize(partitions=st.integers(1, 6))
    def begin(self, partitions: int) -> None:
        settings = GroupSettings(
            consumer_session_timeout_ms=30_000, consumer_migration_policy="upgrade"
        )
        self.world = ConsumerGroupWorld(settings, t0=partitions)
        self.clients: list[ConsumerClient | ClassicClient | None] = [None] * MOST_CLIENTS
        self.started = 0

    @rule(
        which=clients,
        kind=st.sampled_from(["dynamic", "dynamic", "static", "eager", "cooperative"]),
        wanted=st.sampled_from(SUBSCRIPTIONS),
    )
    def start(self, which: int, kind: str, wanted: tuple[tuple[str, ...], str]) -> None:
        if self.clients[which] is not None:
            return
        self.started += 1
        client: ConsumerClient | ClassicClient
        if kind in {"eager", "cooperative"}:
            client = ClassicClient(cooperative=kind == "cooperative")
        else:
            client = ConsumerClient(f"m{self.started}", f"i{which}" if kind == "static" else None)
        client.subscribe(*wanted)
        self.clients[which] = client

    @rule(moves=st.lists(st.tuples(clients, st.sampled_from(MOVES)), min_size=4, max_size=16))
    def talk(self, moves: list[tuple[int, str]]) -> None:
        """Clients send requests, whose answers may be lost, and poll."""
        for which, move in moves:
            client = self.clients[which]
            if client is None:
                continue
            if move == "poll":
                client.reconcile()
            else:
                client.step(self.world, move)
            self.no_partition_has_two_readers()

    @rule(which=clients, outcome=st.sampled_from(["heard", "heard", "never sent"]))
    def stop(self, which: int, outcome: str) -> None:
        client = self.clients[which]
        if client is None:
            return
        if outcome == "heard":
            client.stop(self.world)
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
                for _ in range(3):
                    client.step(world, "answered")
                    client.reconcile()
            self.no_partition_has_two_readers()
        if world.group.empty and all(isinstance(client, ClassicClient) for client in living):
            return
        described = world.group.describe(world.topics)
        assert described.state == ("Stable" if living else "Empty")
        assert {m.member_id for m in described.members} == {c.member_id for c in living}
        for client in living:
            target = next(m.target for m in described.members if m.member_id == client.member_id)
            assert client.owned == {(t, n) for t, numbers in target.items() for n in numbers}
        self.every_subscribed_partition_has_a_reader(living)

    def every_subscribed_partition_has_a_reader(
        self, living: list[ConsumerClient | ClassicClient]
    ) -> None:
        topics = self.world.topics
        expected = {
            (topics.of(name).id, number)
            for name in topics.names()
            if self.world.group.subscribed_to(name)
            for number in range(len(topics.of(name).streams))
        }
        assert set[tuple[UUID, int]]().union(*(client.owned for client in living)) == expected


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_fenced_classic_member_does_not_keep_its_partitions() -> None:
    world = ConsumerGroupWorld(GroupSettings(consumer_migration_policy="upgrade"), t0=2)
    new, old = ConsumerClient("new", None), ClassicClient(cooperative=True)
    new.subscribe(("t0",), "")
    for _ in range(6):
        new.step(world, "answered")
        new.reconcile()
        old.step(world, "answered")
    assert len(new.owned) == len(old.owned) == 1
    for _ in range(4):  # the old one falls silent for longer than its session
        world.pass_time(5)
        new.step(world, "answered")
        new.reconcile()
    assert len(new.owned) == 2
    old.subscribe(("t0",))
    old.step(world, "answered")
    assert old.owned == set()
