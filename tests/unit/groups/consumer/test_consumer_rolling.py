"""An application is restarted instance by instance, to the new protocol and back."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.groups.consumer.consumer_protocol import read_assignment, write_assignment
from headwater.groups.machine import Ticket
from headwater.groups.requests import JoinReply, LeavingMember, SyncReply
from headwater.wire.error_codes import Code
from tests.support.groups.consumer_mixed import MixedWorld, subscription

Reads = set[int]
PARTITIONS = 5


class NewInstance:
    """An instance of the application with the consumer protocol."""

    def __init__(self, name: str) -> None:
        self.member_id = name
        self.reads: Reads = set()
        self._epoch = 0

    def step(self, world: MixedWorld) -> None:
        if self._epoch == 0:
            reply = world.join(self.member_id)
        else:
            owned = world.partitions("t", *sorted(self.reads))
            reply = world.beat(self.member_id, self._epoch, owned)
        if reply.error:
            self._epoch, self.reads = 0, set()
            return
        self._epoch = reply.epoch
        if reply.assignment is not None:
            self.reads = {n for numbers in reply.assignment.values() for n in numbers}

    def stop(self, world: MixedWorld) -> None:
        self.reads = set()
        if self._epoch:
            world.leave(self.member_id)


class OldInstance:
    """One with the classic protocol, eager; it assigns by itself where it leads."""

    def __init__(self) -> None:
        self.member_id = ""
        self.reads: Reads = set()
        self._generation = -1
        self._waiting: Ticket | None = None
        self._phase = "join"

    def step(self, world: MixedWorld) -> None:
        if self._waiting is not None:
            self._hear(world)
        elif self._phase == "join":
            self.reads = set()
            self._waiting = world.join_classic(self.member_id, known=True)
            self._hear(world)
        elif self._phase == "beat":
            code = world.beat_classic(self.member_id, self._generation)
            if code:
                self._start_anew(code)

    def stop(self, world: MixedWorld) -> None:
        self.reads = set()
        world.leave_classic(LeavingMember(self.member_id, None))

    def _hear(self, world: MixedWorld) -> None:
        assert self._waiting is not None
        reply = world.answers.get(self._waiting)
        if reply is None:
            return
        self._waiting = None
        if reply.error == Code.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error:
            self._start_anew(reply.error)
        elif isinstance(reply, JoinReply):
            self._sync(world, reply)
        else:
            assert isinstance(reply, SyncReply)
            found = read_assignment(reply.assignment)
            assert found is not None
            self.reads = set(found.partitions.get("t", ()))
            self._phase = "beat"

    def _sync(self, world: MixedWorld, reply: JoinReply) -> None:
        self._generation = reply.generation
        ids = [member.member_id for member in reply.members]
        data = subscription(["t"])
        shares = {
            member_id: write_assignment({"t": range(index, PARTITIONS, len(ids))}, data)
            for index, member_id in enumerate(ids)
        }
        self._waiting = world.send_sync(self.member_id, self._generation, shares)
        self._hear(world)

    def _start_anew(self, code: int) -> None:
        self._phase = "join"
        if code != Code.REBALANCE_IN_PROGRESS:
            self.reads = set()
        if code == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""


Instance = NewInstance | OldInstance


def check(instances: list[Instance]) -> None:
    readers = Counter(number for instance in instances for number in instance.reads)
    assert all(count == 1 for count in readers.values()), readers


def run(world: MixedWorld, instances: list[Instance], rng: Random, rounds: int) -> None:
    for _ in range(rounds):
        for instance in rng.sample(instances, len(instances)):
            instance.step(world)
            check(instances)
        world.pass_time(1)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    pauses=st.lists(st.integers(0, 12), min_size=8, max_size=8),
)
def test_rolling_restarts_never_assign_a_partition_twice_and_end_with_all_assigned(
    size: int, seed: int, pauses: list[int]
) -> None:
    rng = Random(seed)
    world = MixedWorld(t=PARTITIONS)
    instances: list[Instance] = [OldInstance() for _ in range(size)]
    run(world, instances, rng, 30)
    for place in range(size):
        instances[place].stop(world)
        instances[place] = NewInstance(f"new{place}")
        run(world, instances, rng, pauses[place])
    run(world, instances, rng, 30)
    assert world.consumer.state == "Stable"
    assert set().union(*(i.reads for i in instances)) == set(range(PARTITIONS))
    assert all(m.member_type == 1 for m in world.consumer.describe(world.topics).members)

    for place in range(size):
        instances[place].stop(world)
        instances[place] = OldInstance()
        run(world, instances, rng, pauses[place + 4])
    run(world, instances, rng, 30)
    assert world.classic.state == "Stable"
    assert set().union(*(i.reads for i in instances)) == set(range(PARTITIONS))
    assert all(name.startswith("classic") for name in world.records)
