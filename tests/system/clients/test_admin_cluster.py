"""Quotas, disks, producers and leaders through every admin client."""

import re

from tests.support.interop.admin import Admin, for_each_admin
from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.members.state import place
from tests.support.interop.records import numbered
from tests.support.waiting import wait_until
from tests.system.clients.conftest import fresh_name
from tests.system.clients.test_admin_topics import broker_id


@for_each_admin("AlterClientQuotas, DescribeClientQuotas", "set_quota", "quotas")
def test_a_clients_quota_is_set_and_described(bootstrap: str, admin: Admin) -> None:
    client = fresh_name("client")
    assert admin.call("quotas", bootstrap, client=client) == {}
    admin.call("set_quota", bootstrap, client=client, rate=1_000_000.0)
    wanted = {"producer_byte_rate": 1_000_000.0}
    wait_until(lambda: admin.call("quotas", bootstrap, client=client) == wanted)


@for_each_admin("DescribeLogDirs", "log_dirs")
def test_the_sizes_of_partitions_are_described(bootstrap: str, topic: str, admin: Admin) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(50))

    def size() -> int:
        sizes = admin.call("log_dirs", bootstrap, broker=broker_id(bootstrap, admin))
        return int(sizes.get(place(topic, 0), 0))

    wait_until(lambda: size() > 50 * 100)


@for_each_admin("DescribeProducers", "producers")
def test_a_partitions_producers_are_described(bootstrap: str, topic: str, admin: Admin) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(20), settings={"enable.idempotence": True})
    (found,) = admin.call("producers", bootstrap, topic=topic, partition=0)
    assert (found["epoch"], found["sequence"]) == (0, 19)
    assert found["producer"] >= 0


@for_each_admin("ListTransactions", "transactions")
def test_transactions_are_listed(bootstrap: str, admin: Admin) -> None:
    assert admin.call("transactions", bootstrap) == []


@for_each_admin("ElectLeaders", "elect_leader")
def test_an_election_is_not_needed(bootstrap: str, topic: str, admin: Admin) -> None:
    """Some clients take that for an error, others for success."""
    try:
        admin.call("elect_leader", bootstrap, topic=topic, partition=0)
    except Exception as refused:
        if not re.search(r"(?i)election.?not.?needed|not needed", repr(refused)):
            raise


@for_each_admin("AlterPartitionReassignments, ListPartitionReassignments", "reassign")
def test_a_partition_stays_where_it_is(bootstrap: str, topic: str, admin: Admin) -> None:
    broker = broker_id(bootstrap, admin)
    admin.call("reassign", bootstrap, topic=topic, partition=0, broker=broker)
    asked = {"topic": topic, "partition": 0}
    wait_until(lambda: admin.call("list_reassignments", bootstrap, **asked) == [])
