import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from headwater.broker.cluster.broker_lock import BrokerLock
from headwater.broker.cluster.membership import Membership
from headwater.broker.cluster.probe import answers
from headwater.broker.cluster.view import BrokerAddress
from headwater.broker.network.server import listen
from headwater.errors import ConfigurationError, UnknownOutcome
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from tests.support.broker.running import RunningBroker
from tests.support.meta.faulty import FaultyStore, MetadataFaults
from tests.support.waiting import eventually

TTL = 0.5


class MembershipWorld:
    """One database, and what was fenced in it."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.fenced: list[str] = []
        self.answering = False

    async def fence(self, incarnation: str) -> None:
        self.fenced.append(incarnation)

    async def probe(self, host: str, port: int) -> bool:
        return self.answering

    @asynccontextmanager
    async def broker(
        self, broker_id: int, name: str, *, exclusive: bool = False
    ) -> AsyncIterator[tuple[Membership, MemoryStore]]:
        store = MemoryStore(database=self.database)
        member = Membership(
            meta=store,
            address=BrokerAddress(broker_id, "127.0.0.1", 9092 + broker_id),
            cluster_id="c",
            leader_epoch=0,
            incarnation=lambda: name,
            fence=self.fence,
            exclusive=exclusive,
            probe=self.probe,
            session_seconds=TTL,
        )
        try:
            yield member, store
        finally:
            await store.close()


def ids(member: Membership) -> list[int]:
    return [broker.id for broker in member.brokers()]


async def test_brokers_see_each_other_join_and_leave() -> None:
    world = MembershipWorld()
    async with world.broker(1, "one") as (first, _), world.broker(2, "two") as (second, _):
        await first.join()
        following = asyncio.ensure_future(first.run())
        await second.join()
        assert ids(second) == [1, 2]
        await eventually(lambda: ids(first) == [1, 2])
        assert set(first.living()) == {"one", "two"}
        assert {first.leader(s) for s in range(50)} == {1, 2}
        assert [first.leader(s) for s in range(50)] == [second.leader(s) for s in range(50)]
        await second.leave()
        await eventually(lambda: ids(first) == [1])
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_subscribers_are_called_for_brokers_and_for_a_new_session() -> None:
    world = MembershipWorld()
    async with world.broker(1, "one") as (first, _), world.broker(2, "two") as (second, _):
        heard = asyncio.Event()
        first.listen(heard.set)
        assert first.session is None
        await first.join()
        assert heard.is_set()
        assert first.session is not None
        heard.clear()
        following = asyncio.ensure_future(first.run())
        await second.join()
        await asyncio.wait_for(heard.wait(), 5)
        assert first.lives(1)
        assert first.lives(2)
        assert not first.lives(3)
        assert [first.chosen(s) for s in range(50)] == [second.chosen(s) for s in range(50)]
        await second.leave()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_id_of_a_broker_that_answers_is_refused_with_one_line() -> None:
    world = MembershipWorld()
    world.answering = True
    async with world.broker(1, "old") as (old, _), world.broker(1, "new") as (new, _):
        await old.join()
        with pytest.raises(ConfigurationError, match=r"broker id 1 is in use at 127\.0\.0\.1:9093"):
            await new.join()
        assert world.fenced == []


@pytest.mark.parametrize("exclusive", [False, True])
async def test_id_of_a_dead_broker_is_taken_over_and_its_incarnation_fenced(
    exclusive: bool,
) -> None:
    world = MembershipWorld()
    world.answering = exclusive  # who holds the lock file need not ask
    async with (
        world.broker(1, "old") as (old, _),
        world.broker(1, "new", exclusive=exclusive) as (new, _),
    ):
        await old.join()
        await new.join()
        assert world.fenced == ["old"]
        assert set(new.living()) == {"new"}


async def test_broker_that_was_taken_over_stops() -> None:
    world = MembershipWorld()
    async with world.broker(1, "old") as (old, store), world.broker(1, "new") as (new, _):
        await old.join()
        for session in list(store._sessions):
            await session.abandon()
        await asyncio.sleep(TTL)
        await new.join()
        with pytest.raises(ExceptionGroup) as caught:
            await old.run()
        assert caught.group_contains(ConfigurationError, match="taken over")


async def test_lost_session_is_registered_again() -> None:
    world = MembershipWorld()
    async with world.broker(1, "one") as (member, store), world.broker(2, "two") as (other, _):
        await member.join()
        for session in list(store._sessions):
            await session.abandon()
        await asyncio.sleep(TTL)
        await other.join()
        assert ids(other) == [2]
        tasks = [asyncio.ensure_future(one.run()) for one in (member, other)]
        await eventually(lambda: ids(other) == [1, 2])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_lock_is_refused_while_held_and_free_after(tmp_path: Path) -> None:
    held = BrokerLock(tmp_path, 7)
    with pytest.raises(ConfigurationError, match="broker id 7 is in use by process"):
        BrokerLock(tmp_path, 7)
    BrokerLock(tmp_path, 8).release()
    held.release()
    BrokerLock(tmp_path, 7).release()


async def test_the_probe_distinguishes_a_broker_from_a_silent_socket(broker: RunningBroker) -> None:
    assert await answers("127.0.0.1", broker.port)
    silent = listen("127.0.0.1", 0)
    port = silent.getsockname()[1]
    assert not await answers("127.0.0.1", port, timeout=0.1)
    silent.close()
    assert not await answers("127.0.0.1", port, timeout=0.1)


async def test_a_session_that_is_lost_while_its_broker_registers_is_opened_again() -> None:
    world = MembershipWorld()
    async with world.broker(1, "old") as (old, _), world.broker(1, "new") as (new, store):
        await old.join()
        fence = world.fence

        async def starve(incarnation: str) -> None:
            time.sleep(TTL * 1.5)  # noqa: ASYNC251 - nothing is renewed meanwhile
            await fence(incarnation)

        new._fence = starve
        await new.join()
        assert (await store.get(keys.broker(1))) is not None
        assert ids(new) == [1]


async def test_unknown_outcomes_while_it_registers_again_do_not_stop_a_broker() -> None:
    world = MembershipWorld()
    async with world.broker(1, "one") as (member, store):
        await member.join()
        faulty = FaultyStore(store, Random(1), MetadataFaults(lost_request=1.0))
        member._meta = faulty
        for session in list(store._sessions):
            await session.abandon()
        await asyncio.sleep(TTL)
        with pytest.raises(UnknownOutcome):
            await member._register(taking_over=False)
        faulty.faults.lost_request = 0.0
        await member._register(taking_over=False)
        assert (await store.get(keys.broker(1))) is not None
