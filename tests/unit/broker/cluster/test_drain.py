"""Draining: requests, what other brokers see, and when a broker is drained."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from headwater.broker.cluster.drain import Drainer
from headwater.broker.cluster.membership import Membership
from headwater.broker.cluster.ownership import check_served_here, preferred_read_replica
from headwater.broker.cluster.registration import DRAINED, DRAINING, SERVING, DrainRequest
from headwater.broker.cluster.view import PLAINTEXT, BrokerAddress
from headwater.broker.services import Services
from headwater.broker.settings import BrokerSettings
from headwater.errors import NotLeaderOrFollower
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import Writes
from headwater.meta.values import encode
from headwater.telemetry.metrics import Metrics
from tests.support.simulation.loop import on_simulated_time
from tests.support.waiting import eventually
from tests.unit.broker.cluster.test_membership import ids


class DrainingMember:
    """A member that drains on request; it hands over all its groups at once."""

    def __init__(self, database: MemoryDatabase, broker_id: int, rack: str | None = None) -> None:
        self.store = MemoryStore(database=database)
        self.metrics = Metrics()
        self.groups = 3
        self.member = Membership(
            meta=self.store,
            address=BrokerAddress(broker_id, "127.0.0.1", 9092, rack),
            cluster_id="c",
            leader_epoch=0,
            incarnation=lambda: f"i{broker_id}",
            fence=self._fence,
            exclusive=False,
            session_seconds=10,
        )
        self.drainer = Drainer(
            meta=self.store,
            members=self.member,
            metrics=self.metrics,
            hand_over=self._hand_over,
            groups_held=lambda: self.groups,
            quiet_seconds=0.2,
        )

    async def _fence(self, _incarnation: str) -> None:
        raise AssertionError("no incarnation may be fenced")

    async def _hand_over(self) -> None:
        self.groups = 0

    @asynccontextmanager
    async def joined(self) -> AsyncIterator["DrainingMember"]:
        await self.member.join()
        tasks = [asyncio.create_task(self.member.run()), asyncio.create_task(self.drainer.run())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.member.leave()
            await self.store.close()


def ask(database: MemoryDatabase, broker_id: int, epoch: int) -> None:
    request = DrainRequest(epoch=epoch, requested_ms=0)
    database.apply(Writes(puts={keys.drain(broker_id): encode(request)}))


@on_simulated_time
async def test_a_draining_broker_is_not_in_metadata_and_reports_when_it_is_drained() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1), DrainingMember(database, 2)
    async with first.joined(), second.joined():
        await eventually(lambda: ids(first.member) == [1, 2])
        ask(database, 2, second.member.joined_epoch)
        await eventually(lambda: ids(first.member) == ids(second.member) == [1])
        assert second.member.redirects_clients
        assert not first.member.redirects_clients
        assert first.member.lives(2)
        found = first.member.find(2)
        assert found is not None
        assert found.id == 2
        assert {first.member.chosen(shard) for shard in range(64)} == {1}
        assert set(first.member.living()) == {"i1", "i2"}
        for _ in range(3):
            second.metrics.requests["Fetch"].inc()  # a client that has not moved yet
            assert second.member.state == DRAINING
            await asyncio.sleep(0.1)
        await eventually(lambda: second.member.state == DRAINED)
        assert second.groups == 0
        database.apply(Writes(deletes=[keys.drain(2)]))
        await eventually(lambda: ids(first.member) == [1, 2])
        assert second.member.state == SERVING


@on_simulated_time
async def test_a_drain_request_to_an_earlier_process_is_deleted() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1), DrainingMember(database, 2)
    async with first.joined():
        async with second.joined():
            pass
        again = DrainingMember(database, 2)
        ask(database, 2, second.member.joined_epoch)
        async with again.joined():
            await eventually(lambda: keys.drain(2) not in database.entries)
            assert again.member.state == SERVING


@on_simulated_time
async def test_the_only_broker_serves_while_it_drains() -> None:
    database = MemoryDatabase()
    only = DrainingMember(database, 1)
    async with only.joined():
        ask(database, 1, only.member.joined_epoch)
        await eventually(lambda: only.member.state == DRAINING)
        assert ids(only.member) == [1]
        assert not only.member.redirects_clients
        await only.drainer.drain_before_stop(10)  # at once: no other broker serves
        assert only.groups == 3


@on_simulated_time
async def test_a_stopping_broker_drains_first() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1), DrainingMember(database, 2)
    async with first.joined(), second.joined():
        await eventually(lambda: ids(second.member) == [1, 2])
        await second.drainer.drain_before_stop(10)
        assert second.groups == 0
        await eventually(lambda: ids(first.member) == [1])


@on_simulated_time
async def test_brokers_that_stop_together_do_not_wait_for_clients() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1), DrainingMember(database, 2)
    async with first.joined(), second.joined():
        await eventually(lambda: ids(first.member) == ids(second.member) == [1, 2])

        async def keep_asking() -> None:
            while True:
                for each in (first, second):
                    each.metrics.requests["Produce"].inc()
                await asyncio.sleep(0.01)

        asking = asyncio.create_task(keep_asking())
        async with asyncio.timeout(30):
            await asyncio.gather(
                first.drainer.drain_before_stop(3_600), second.drainer.drain_before_stop(3_600)
            )
        asking.cancel()


def services(broker: DrainingMember, **settings: object) -> Services:
    own = BrokerSettings(**settings)  # type: ignore[arg-type]
    return cast("Services", SimpleNamespace(cluster=broker.member, settings=own))


@on_simulated_time
async def test_with_enforce_owner_only_the_owner_serves_a_partition() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1, "a"), DrainingMember(database, 2, "b")
    async with first.joined(), second.joined():
        await eventually(lambda: ids(first.member) == [1, 2])
        elsewhere = next(s for s in range(99) if first.member.leader(s) == 2)
        check_served_here(services(first), elsewhere, None, PLAINTEXT)
        strict = services(first, enforce_owner=True)
        with pytest.raises(NotLeaderOrFollower, match="broker 2 owns this partition"):
            check_served_here(strict, elsewhere, None, PLAINTEXT)
        check_served_here(strict, elsewhere, "a", PLAINTEXT)


@on_simulated_time
async def test_a_consumer_is_sent_to_a_broker_of_its_rack() -> None:
    database = MemoryDatabase()
    first, second = DrainingMember(database, 1, "a"), DrainingMember(database, 2, "b")
    async with first.joined(), second.joined():
        await eventually(lambda: ids(first.member) == [1, 2])
        own = services(first, rack="a")
        assert preferred_read_replica(own, 5, "b", PLAINTEXT) == 2
        assert preferred_read_replica(own, 5, "a", PLAINTEXT) is None
        assert preferred_read_replica(own, 5, "c", PLAINTEXT) is None
        assert preferred_read_replica(own, 5, None, PLAINTEXT) is None
