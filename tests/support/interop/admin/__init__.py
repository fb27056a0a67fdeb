"""Admin clients behind one face: operations by name, with the same fields and answers for all.

topics
    create_topic topic partitions configs, grow_topic topic partitions, count_partitions topic,
    list_topics, delete_topic topic, describe_configs topic, alter_configs topic configs,
    broker_configs broker, config_resources, delete_records topic partition offset (gives the low
    watermark), find_offset topic partition time (-1 last, -2 first, -3 of the latest time),
    topic_id topic, describe_topic_by_id topic_id (name and partitions),
    delete_topic_by_id topic_id
groups
    list_groups (a map by name), describe_group group (state, and places by member),
    delete_group group, group_offsets group (by place), alter_offsets group offsets,
    delete_offsets group topic partition
cluster
    cluster (id and address of each broker), set_quota client rate (bytes that it may produce),
    quotas client, log_dirs broker (size by place), producers topic partition, transactions,
    elect_leader topic partition, reassign topic partition broker,
    list_reassignments topic partition
"""

from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from tests.support.interop.admin.aiokafka import AiokafkaAdmin
from tests.support.interop.admin.confluent import ConfluentAdmin
from tests.support.interop.admin.kafka_python import KafkaPythonAdmin
from tests.support.interop.clients.driven import (
    FRANZ_GO,
    JAVA,
    JAVA_NEWEST,
    KAFKAJS,
    SARAMA,
    Driven,
)

# fmt: off
TOPICS = frozenset({
    "create_topic", "grow_topic", "count_partitions", "list_topics", "delete_topic",
    "describe_configs", "alter_configs", "broker_configs", "delete_records", "find_offset",
    "cluster",
})
GROUPS = frozenset({
    "list_groups", "describe_group", "delete_group", "group_offsets", "alter_offsets",
})
REASSIGNMENTS = frozenset({"reassign", "list_reassignments"})
MORE = frozenset({
    "config_resources", "describe_consumer_group", "delete_offsets", "set_quota", "quotas",
    "log_dirs", "producers", "transactions", "elect_leader", "find_latest_time",
})
BY_ID = frozenset({"topic_id", "describe_topic_by_id", "delete_topic_by_id"})
# fmt: on
ALL = TOPICS | GROUPS | REASSIGNMENTS | MORE


class Admin(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def offers(self) -> frozenset[str]:
        """Operations, and with them variants that not every client has.

        ``describe_consumer_group``: of the new protocol; ``find_latest_time``: with time -3.
        """
        ...

    def call(self, op: str, bootstrap: str, **fields: object) -> Any: ...


@dataclass(frozen=True, slots=True)
class DrivenAdmin:
    client: Driven
    offers: frozenset[str]

    @property
    def name(self) -> str:
        return self.client.name

    def call(self, op: str, bootstrap: str, **fields: object) -> Any:
        return self.client.driver.call(op, bootstrap=bootstrap, **fields)


ADMINS: tuple[Admin, ...] = (
    DrivenAdmin(JAVA, ALL | BY_ID),
    DrivenAdmin(JAVA_NEWEST, ALL | BY_ID),
    ConfluentAdmin(),
    DrivenAdmin(FRANZ_GO, ALL),
    DrivenAdmin(
        SARAMA,
        ALL
        - {"config_resources", "describe_consumer_group", "producers", "transactions"}
        - {"find_latest_time"},
    ),
    DrivenAdmin(KAFKAJS, TOPICS | GROUPS | REASSIGNMENTS),
    AiokafkaAdmin(),
    KafkaPythonAdmin(),
)


def for_each_admin(capability: str, *operations: str) -> pytest.MarkDecorator:
    """The clients that offer all of ``operations``."""
    return pytest.mark.parametrize(
        "admin",
        [
            pytest.param(each, id=each.name, marks=pytest.mark.cell(each.name, capability))
            for each in ADMINS
            if each.offers.issuperset(operations)
        ],
    )
