"""What goes wrong around groups: members and brokers are killed, or stopped and woken."""

import asyncio
from collections import Counter
from enum import Enum
from random import Random

from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.cluster import SESSION_SECONDS, LocalCluster
from tests.system.invariants.groups.fleet import Fleet, MemberProcess
from tests.system.invariants.groups.member import SESSION_MS
from tests.system.invariants.nemesis import PAST_EVERY_TIMEOUT

AT_ONCE = 4
PAST_MEMBER_SESSION = SESSION_MS / 1000 + SESSION_SECONDS + 1


class GroupHarm(Enum):
    KILL_MEMBER = "member killed"
    PAUSE_MEMBER = "member stopped"
    LOSE_MEMBER = "member stopped past its session"
    KILL_BROKER = "broker killed"
    PAUSE_BROKER = "broker stopped"
    LOSE_BROKER = "broker stopped past every time-out"


class GroupNemesis:
    """Does harm a given number of times, to four at once, and never to all brokers."""

    def __init__(self, cluster: LocalCluster, fleet: Fleet, rng: Random, faults: int) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._rng = rng
        self._deck = self._shuffled(faults)
        self._brokers = list(cluster.brokers.values())
        self._members = list(fleet.members)
        self.done: Counter[str] = Counter()

    def _shuffled(self, faults: int) -> list[GroupHarm]:
        """Every kind comes before any comes again."""
        deck: list[GroupHarm] = []
        while len(deck) < faults:
            deck += self._rng.sample(list(GroupHarm), len(GroupHarm))
        return deck[:faults]

    async def run(self) -> None:
        """Until all harm is done; then every broker and member is up."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._harm_one_after_another())

    async def _harm_one_after_another(self) -> None:
        while self._deck:
            harm = self._deck.pop()
            if harm in (GroupHarm.KILL_BROKER, GroupHarm.PAUSE_BROKER, GroupHarm.LOSE_BROKER):
                while len(self._brokers) < 2:  # one stays up
                    await asyncio.sleep(0.1)
                await self._harm_broker(harm)
            else:
                await self._harm_member(harm)
            self.done[harm.value] += 1
            await asyncio.sleep(self._rng.uniform(0.5, 2.0))

    async def _harm_broker(self, harm: GroupHarm) -> None:
        broker = self._brokers.pop(self._rng.randrange(len(self._brokers)))
        assert broker.up, f"broker {broker.id} ended by itself"
        if harm == GroupHarm.KILL_BROKER:
            await self._restart_broker(broker)
        else:
            broker.pause()
            short = self._rng.uniform(0.05, SESSION_SECONDS)
            await asyncio.sleep(short if harm == GroupHarm.PAUSE_BROKER else PAST_EVERY_TIMEOUT)
            if self._rng.random() < 0.2:
                await self._restart_broker(broker)
            else:
                broker.resume()
        self._brokers.append(broker)

    async def _restart_broker(self, broker: ServeProcess) -> None:
        await broker.kill()
        await asyncio.sleep(self._rng.choice([0, 0.3, 2 * SESSION_SECONDS]))
        await broker.start()

    async def _harm_member(self, harm: GroupHarm) -> None:
        member = self._members.pop(self._rng.randrange(len(self._members)))
        assert member.up, f"a member ended by itself:\n{member.log()}"
        if harm == GroupHarm.KILL_MEMBER:
            await self._restart_member(member)
        else:
            member.pause()
            short = self._rng.uniform(0.1, SESSION_MS / 2000)
            await asyncio.sleep(short if harm == GroupHarm.PAUSE_MEMBER else PAST_MEMBER_SESSION)
            if self._rng.random() < 0.2:
                await self._restart_member(member)
            else:
                member.resume()
        self._members.append(member)

    async def _restart_member(self, member: MemberProcess) -> None:
        await member.kill()
        await asyncio.sleep(self._rng.choice([0, 0.5, 2]))
        member.start()
