"""Invariant I6: Metadata lists only the brokers of the zone that a client names."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader

from headwater.broker.authorizer import AllowAll
from headwater.broker.cluster.view import PLAINTEXT, BrokerAddress, LiveBrokers
from headwater.broker.handlers import describe_topic_partitions, metadata
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.replies import encode_reply
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import TopicAccess
from headwater.engine import Topic, Topics

ZONES = ["a", "b", "c", None]
TOPIC = Topic("t", UUID(int=7), tuple(range(1, 41)), {})

brokers = st.lists(
    st.builds(
        BrokerAddress,
        st.integers(0, 30),
        st.just("127.0.0.1"),
        st.just(9092),
        st.sampled_from(ZONES),
    ),
    min_size=1,
    max_size=9,
    unique_by=lambda broker: broker.id,
)


def services(addresses: Sequence[BrokerAddress]) -> Services:
    """A broker's view of a cluster whose one topic is in the cache."""
    live = LiveBrokers(addresses)
    cluster = SimpleNamespace(
        cluster_id="c", leader_epoch=0, zone=lambda name, _listener: live.zone(name)
    )
    topics = SimpleNamespace(get=lambda _name: TOPIC, get_by_id=lambda _id: TOPIC)
    authorizer = AllowAll()
    access = TopicAccess(cast("Topics", topics), authorizer)
    return cast("Services", SimpleNamespace(cluster=cluster, topics=access, authorizer=authorizer))


def ask(addresses: Sequence[BrokerAddress], client_id: str | None) -> Any:
    """The Metadata reply for a client id."""
    request = SimpleNamespace(topics=(SimpleNamespace(name="t", topic_id=None),))
    version = 13
    reply = metadata.handle(
        services(addresses),
        request,
        RequestContext(version, client_id, ClientSession(PLAINTEXT, 1)),
    )
    frame = b"".join(encode_reply(3, version, 1, cast("Any", reply)))[4:]
    schema: Any = load_response_schema(3, version)
    _, size = entity_reader(schema.__header_schema__)(frame, 0)
    response, _ = entity_reader(schema)(frame, size)
    return response


@given(brokers, st.sampled_from(ZONES[:3]))
def test_a_client_sees_the_brokers_of_its_zone_or_all_if_there_are_none(
    addresses: list[BrokerAddress], zone: str
) -> None:
    answer = ask(addresses, f"zone_id={zone},app=x")
    within = {broker.id for broker in addresses if broker.rack == zone}
    expected = within or {broker.id for broker in addresses}
    assert {broker.node_id for broker in answer.brokers} == expected
    assert answer.controller_id in expected
    for partition in answer.topics[0].partitions:
        assert partition.leader_id in expected
        assert set(partition.replica_nodes) | set(partition.isr_nodes) <= expected


@given(brokers, st.sampled_from([None, "", "app", "zone_id=", "zone_id=elsewhere"]))
def test_a_client_without_a_known_zone_sees_all_brokers(
    addresses: list[BrokerAddress], client_id: str | None
) -> None:
    answer = ask(addresses, client_id)
    assert {broker.node_id for broker in answer.brokers} == {broker.id for broker in addresses}


@given(brokers, st.sampled_from(ZONES[:3]), st.integers(31, 40))
def test_a_broker_that_joins_another_zone_moves_no_leader_of_this_one(
    addresses: list[BrokerAddress], zone: str, newcomer: int
) -> None:
    live = LiveBrokers(addresses)
    if not any(broker.rack == zone for broker in addresses):
        return
    other = replace(addresses[0], id=newcomer, rack="elsewhere")
    grown = LiveBrokers([*addresses, other])
    before = [live.zone(zone).leader(stream) for stream in TOPIC.streams]
    assert [grown.zone(zone).leader(stream) for stream in TOPIC.streams] == before


async def test_describing_partitions_names_the_leaders_that_metadata_names() -> None:
    addresses = [BrokerAddress(i, "127.0.0.1", 9092, "ab"[i % 2]) for i in range(6)]
    known = services(addresses)
    page = describe_topic_partitions._describe(
        known,
        RequestContext(0, "zone_id=b", ClientSession(PLAINTEXT, 1)),
        TOPIC,
        range(len(TOPIC.streams)),
    )
    named = [partition.leader_id for partition in ask(addresses, "zone_id=b").topics[0].partitions]
    assert [partition["leader_id"] for partition in page["partitions"]] == named


@given(brokers)
def test_a_partition_has_its_leader_and_the_choice_of_every_other_zone(
    addresses: list[BrokerAddress],
) -> None:
    live = LiveBrokers(addresses)
    by_id = {broker.id: broker for broker in addresses}
    racks = {broker.rack for broker in addresses if broker.rack is not None}
    for stream in TOPIC.streams:
        leader, *others = live.replicas(stream)
        assert leader == live.leader(stream)
        assert len({by_id[each].rack for each in (leader, *others)}) == 1 + len(others)
        if len(racks) > 1:
            for rack in racks - {by_id[leader].rack}:
                assert live.zone(rack).leader(stream) in others
        else:
            assert not others
