"""Several coordinators on one store, in schedules of crashes, pauses and lost answers.

Checked in each: an answer from memory comes from the broker that has the lease at that moment; a
read is never older than an acknowledged write; no member gets two assignments in one generation.
"""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import pytest

from headwater.groups.coordinator import GroupCoordinator
from headwater.groups.requests import (
    Assignment,
    CommitRequest,
    CommittedOffset,
    ConsumerHeartbeatReply,
    HeartbeatRequest,
)
from headwater.wire.error_codes import Code
from tests.support.groups.cluster import beating, joining, syncing
from tests.support.groups.world import GroupsWorld
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated

SECONDS = 90.0


class OffsetCommitter:
    """Commits growing offsets for a partition of its own, and reads them back."""

    def __init__(self, world: GroupsWorld, group: str, partition: int) -> None:
        self.world = world
        self.group = group
        self.where = ("t", partition)
        self.acknowledged = -1
        self.tried = 0

    async def commit(self, member_id: str = "", epoch: int = -1) -> int:
        """Commit the next offset; the error code."""
        self.tried += 1
        offset = CommittedOffset(offset=self.tried, metadata=f"m{self.tried}")
        request = CommitRequest(
            group=self.group,
            member_id=member_id,
            epoch=epoch,
            version=9,
            offsets={self.where: offset},
        )
        tried = self.tried
        _, codes = await self.world.ask(self.group, lambda groups: groups.commit(request))
        if codes[self.where] == 0:
            self.acknowledged = tried
        return codes[self.where]

    async def check(self) -> None:
        least = self.acknowledged
        broker, (code, found) = await self.world.ask(
            self.group, lambda groups: groups.fetch(self.group, [self.where])
        )
        assert code == 0
        assert self.world.holder(self.group) == broker.node_id
        offset = found[self.where]
        assert least <= offset.offset <= self.tried
        if offset.offset > 0:
            assert offset.metadata == f"m{offset.offset}"

    async def run(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            assert await self.commit() == 0
            await self.check()
            await asyncio.sleep(self.world.rng.uniform(0, 1))


class EndlessMember:
    """A member of a classic group that joins, syncs, beats and commits, for ever anew."""

    def __init__(self, world: GroupsWorld, group: "Told", partition: int) -> None:
        self.world = world
        self.group = group
        self.offsets = OffsetCommitter(world, group.name, partition)
        self.member_id = ""

    async def run(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            generation = await self._join()
            if generation is None or not await self._sync(generation):
                continue
            for _ in range(self.world.rng.randrange(1, 6)):
                beat = HeartbeatRequest(
                    member_id=self.member_id, instance_id=None, generation=generation
                )
                broker, code = await self.world.ask(self.group.name, partial(self._beat, beat))
                assert self.world.holder(self.group.name) == broker.node_id
                if code != 0 or await self.offsets.commit(self.member_id, generation) != 0:
                    break
                await self.offsets.check()
                await asyncio.sleep(self.world.rng.uniform(0, 2))

    async def _beat(self, request: HeartbeatRequest, groups: GroupCoordinator) -> int:
        return await groups.heartbeat(self.group.name, request)

    async def _join(self) -> int | None:
        request = joining(self.member_id, session_timeout_ms=6_000, rebalance_timeout_ms=8_000)
        broker, reply = await self.world.ask(
            self.group.name, lambda groups: groups.join(self.group.name, request)
        )
        assert self.world.holder(self.group.name) == broker.node_id
        if reply.error != 0:
            self.member_id = ""
            await asyncio.sleep(0.1)
            return None
        self.member_id = reply.member_id
        self.everybody = [member.member_id for member in reply.members]
        return reply.generation

    async def _sync(self, generation: int) -> bool:
        made = {member: self.group.assignment(member) for member in self.everybody}
        request = syncing(self.member_id, generation, **made)
        broker, reply = await self.world.ask(
            self.group.name, lambda groups: groups.sync(self.group.name, request)
        )
        assert self.world.holder(self.group.name) == broker.node_id
        if reply.error != 0:
            return False
        self.group.told(generation, self.member_id, reply.assignment)
        return True


class NewConsumer:
    """A member of a KIP-848 group: it owns its assignment, and reports it with each heartbeat."""

    def __init__(self, world: GroupsWorld, group: "Owned", number: int) -> None:
        self.world = world
        self.group = group
        self.offsets = OffsetCommitter(world, group.name, 30 + number)
        self._names = (f"{number}-{life}" for life in count())

    async def run(self, until: float) -> None:
        while asyncio.get_running_loop().time() < until:
            await self._live(next(self._names))

    async def _live(self, member_id: str) -> None:
        """From joining to leaving, being fenced, or falling silent."""
        rng = self.world.rng
        epoch, owned = 0, Assignment()
        for _ in range(rng.randrange(3, 20)):
            reply = await self._beat(member_id, epoch, owned)
            if reply.error:
                return
            epoch = reply.epoch
            owned = owned if reply.assignment is None else reply.assignment
            self.group.told(epoch, member_id, owned)
            if not await self._commit(member_id, epoch):
                return
            await asyncio.sleep(rng.uniform(0, 2))
        if rng.random() < 0.5:
            await self._beat(member_id, -1, owned)

    async def _commit(self, member_id: str, epoch: int) -> bool:
        code = await self.offsets.commit(member_id, epoch)
        await self.offsets.check()
        return code in {Code.NONE, Code.STALE_MEMBER_EPOCH}

    async def _beat(self, member_id: str, epoch: int, owned: Assignment) -> ConsumerHeartbeatReply:
        request = replace(beating(member_id, epoch), owned=owned if epoch > 0 else {})
        broker, reply = await self.world.ask(
            self.group.name, lambda groups: groups.consumer_heartbeat(self.group.name, request)
        )
        assert self.world.holder(self.group.name) == broker.node_id
        return reply


class Owned:
    """Who owned what in which epoch of one group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.owners: dict[tuple[int, int], str] = {}

    def told(self, epoch: int, member_id: str, owned: Assignment) -> None:
        for numbers in owned.values():
            for number in numbers:
                assert self.owners.setdefault((epoch, number), member_id) == member_id


class Told:
    """The replies that all members of one group got."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._made = 0
        self._assignments: dict[tuple[int, str], bytes] = {}

    def assignment(self, member_id: str) -> bytes:
        """Another one each time, so that two that should be the same would be told apart."""
        self._made += 1
        return f"{self._made} for {member_id}".encode()

    def told(self, generation: int, member_id: str, assignment: bytes) -> None:
        if assignment:
            assert assignment.endswith(member_id.encode())
        before = self._assignments.setdefault((generation, member_id), assignment)
        assert before == assignment

    @property
    def generations(self) -> int:
        return len({generation for generation, _ in self._assignments})


async def schedule(seed: int, loop: SimulatedLoop) -> None:
    rng = Random(seed)
    world = GroupsWorld(rng, SimulatedClock(loop), brokers=rng.choice((2, 3)), late=0.05)
    world.start_faults()
    told = [Told(f"group-{number}") for number in range(2)]
    committers = [OffsetCommitter(world, f"simple-{number}", number) for number in range(3)]
    consumers = [EndlessMember(world, told[number % 2], 10 + number) for number in range(5)]
    owned = Owned("new")
    new = [NewConsumer(world, owned, number) for number in range(3)]
    async with asyncio.TaskGroup() as tasks:
        for member in new:
            tasks.create_task(member.run(SECONDS))
        for committer in committers:
            tasks.create_task(committer.run(SECONDS))
        for consumer in consumers:
            tasks.create_task(consumer.run(SECONDS))
        tasks.create_task(world.trouble(SECONDS - 20))
    world.stop_faults()
    checked = [*committers, *(each.offsets for each in consumers), *(each.offsets for each in new)]
    for each in checked:
        await each.check()
    assert all(committer.acknowledged > 5 for committer in committers)
    assert all(group.generations > 1 for group in told)
    assert len({epoch for epoch, _ in owned.owners}) > 3
    await world.end()


@pytest.mark.parametrize("seed", range(12))
def test_no_schedule_lets_two_coordinators_succeed(seed: int) -> None:
    loop = SimulatedLoop()
    run_simulated(schedule(seed, loop), loop)
