"""Replies have the brokers' addresses of the listener that the client connected to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from headwater.broker import apis
from headwater.broker.cluster.membership import Membership
from headwater.broker.cluster.registration import DRAINING, Registration, address_of
from headwater.broker.cluster.view import PLAINTEXT, BrokerAddress, ListenerAddress, LiveBrokers
from headwater.broker.handlers import find_coordinator
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.dispatch import Api
from headwater.broker.network.listener import broker_address
from headwater.broker.services import RequestContext, Services
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.values import Value, decode, encode
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.waiting import eventually
from tests.unit.broker.cluster.test_membership import ids

INTERNAL = "INTERNAL"
BOTH = (ListenerAddress(INTERNAL, "10.0.0.1", 9093), ListenerAddress(PLAINTEXT, "public", 9092))


@pytest.fixture
async def two_listeners() -> AsyncIterator[RunningBroker]:
    async with running_broker(listeners=(PLAINTEXT, INTERNAL)) as running:
        yield running


@pytest.mark.parametrize("listener", [PLAINTEXT, INTERNAL])
async def test_every_address_in_a_reply_is_the_one_of_the_client_s_listener(
    two_listeners: RunningBroker, listener: str
) -> None:
    await two_listeners.create_topic("topic")
    own = [(1, "127.0.0.1", two_listeners.ports[listener])]
    client = await two_listeners.connect(listener)
    metadata = await client.call(ApiKey.METADATA, 4, topics=None, allow_auto_topic_creation=False)
    assert [(one.node_id, one.host, one.port) for one in metadata.brokers] == own
    assert metadata.topics[0].partitions[0].leader_id == 1
    described = await client.call(
        ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False
    )
    assert [(one.broker_id, one.host, one.port) for one in described.brokers] == own
    assert described.controller_id == 1
    found = await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["group"])
    coordinators = [(one.node_id, one.host, one.port) for one in found.coordinators]
    assert coordinators == own
    await client.close()


async def test_the_listeners_of_a_server_have_different_ports_and_stop_together(
    two_listeners: RunningBroker,
) -> None:
    ports = two_listeners.ports
    assert len(set(ports.values())) == 2
    await two_listeners.server.stop()
    for listener in ports:
        with pytest.raises(ConnectionError):
            await two_listeners.connect(listener)


async def test_a_handler_gets_the_listener_of_its_client(
    two_listeners: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def handle(_services: Services, _request: Any, context: RequestContext) -> dict[str, Any]:
        seen.append(context.session.listener)
        return {"groups": []}

    key = ApiKey.LIST_GROUPS
    monkeypatch.setitem(cast("dict[int, Api]", apis.APIS), int(key), Api(key, "x", handle=handle))
    for listener in (INTERNAL, PLAINTEXT):
        client = await two_listeners.connect(listener)
        await client.call(key, 0)
        await client.close()
    assert seen == [INTERNAL, PLAINTEXT]


def test_brokers_without_the_listener_are_not_listed() -> None:
    old, new = BrokerAddress(1, "old", 9092), broker_address(2, BOTH)
    live = LiveBrokers([old, new])
    assert [(one.id, one.host) for one in live.at(PLAINTEXT).addresses] == [
        (1, "old"),
        (2, "public"),
    ]
    assert [(one.id, one.host) for one in live.at(INTERNAL).addresses] == [(2, "10.0.0.1")]
    assert live.at("NONE").addresses == ()
    assert LiveBrokers([old]).at(PLAINTEXT).addresses == (old,)


class FormerRegistration(Value):
    """A registration of a release without named listeners."""

    host: str
    port: int
    incarnation: str
    session: str
    rack: str | None = None


def test_registrations_are_read_by_releases_with_and_without_named_listeners() -> None:
    one = broker_address(1, [ListenerAddress(PLAINTEXT, "broker", 9092)], "a")
    assert one == BrokerAddress(1, "broker", 9092, "a")
    former = FormerRegistration(host="broker", port=9092, incarnation="i", session="s", rack="a")
    assert address_of(1, decode(Registration, encode(former))) == one

    listeners = {each.listener: (each.host, each.port) for each in BOTH}
    stored = encode(
        Registration(host="10.0.0.1", port=9093, incarnation="i", session="s", listeners=listeners)
    )
    assert address_of(2, decode(Registration, stored)) == broker_address(2, BOTH)
    known = decode(FormerRegistration, stored)
    assert (known.host, known.port) == ("10.0.0.1", 9093)
    assert decode(Registration, encode(known)).listeners == listeners, "an old release keeps them"


@asynccontextmanager
async def member(database: MemoryDatabase, address: BrokerAddress) -> AsyncIterator[Membership]:
    async def fence(_incarnation: str) -> None:
        raise AssertionError("no incarnation may be fenced")

    store = MemoryStore(database=database)
    joined = Membership(
        meta=store,
        address=address,
        cluster_id="c",
        leader_epoch=0,
        incarnation=lambda: f"i{address.id}",
        fence=fence,
        exclusive=False,
        session_seconds=10,
    )
    await joined.join()
    following = asyncio.ensure_future(joined.run())
    try:
        yield joined
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.close()


async def test_brokers_register_the_addresses_of_their_listeners() -> None:
    database = MemoryDatabase()
    alone = BrokerAddress(2, "old", 9092)
    async with (
        member(database, broker_address(1, BOTH)) as first,
        member(database, alone) as second,
    ):
        await eventually(lambda: ids(first) == ids(second) == [1, 2])
        for one in (first, second):
            internal, public = one.zone(None, INTERNAL), one.zone(None, PLAINTEXT)
            assert [each.host for each in internal.addresses] == ["10.0.0.1"]
            assert [each.host for each in public.addresses] == ["public", "old"]
            assert {internal.leader(stream) for stream in range(50)} == {1}
            assert {public.leader(stream) for stream in range(50)} == {1, 2}
        stored = await MemoryStore(database=database).get(keys.broker(2))
        assert stored is not None
        assert decode(Registration, stored.value).listeners == {}

        await first.announce(DRAINING)
        assert [each.id for each in first.zone(None, PLAINTEXT).addresses] == [2]
        assert [each.id for each in first.zone(None, INTERNAL).addresses] == [1], "or none"


async def test_a_coordinator_without_the_listener_is_not_available(
    two_listeners: RunningBroker,
) -> None:
    context = RequestContext(4, "app", ClientSession("NONE", 1))
    found = find_coordinator._find(two_listeners.services, 0, "group", context)
    assert (found["error_code"], found["node_id"]) == (15, -1)
