import time
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.broker.cluster.view import PLAINTEXT
from headwater.broker.configs.changes import ConfigRules
from headwater.broker.handlers import describe_configs, incremental_alter_configs
from headwater.broker.network.client_session import ClientSession
from headwater.broker.services import RequestContext
from headwater.errors import InvalidConfig
from headwater.topic_config.topic import (
    TOPIC_CONFIGS,
    check_config,
    check_configs,
    retention_bytes,
    retention_ms,
)
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import MAX_DESCRIBED_CONFIGS
from tests.support.broker.running import RunningBroker

SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(broker: RunningBroker, *changes: tuple[str, int, str | None], **more: Any) -> int:
    configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
    resource = {"resource_type": 2, "resource_name": "t", "configs": configs}
    resource |= {key: value for key, value in more.items() if key.startswith("resource")}
    response = await broker.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[resource],
        validate_only=more.get("validate_only", False),
    )
    return int(response.responses[0].error_code)


async def configs(broker: RunningBroker) -> dict[str, str]:
    return dict((await broker.engine.topics.find("t")).configs)


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_every_default_passes_its_own_check(name: str) -> None:
    check_config(name, TOPIC_CONFIGS[name].default)


@pytest.mark.parametrize(
    ("name", "value"),
    [("nope", "1"), ("retention.ms", "-2"), ("retention.ms", "x"), ("max.message.bytes", "-1"),
     ("max.message.bytes", str(2**31)), ("compression.type", "brotli"),
     ("message.timestamp.type", "createtime"), ("cleanup.policy", "zap"),
     ("cleanup.policy", "delete,delete"), ("segment.bytes", "1000"), ("preallocate", "yes"),
     ("min.cleanable.dirty.ratio", "1.5"), ("compression.gzip.level", "0"),
     ("leader.replication.throttled.replicas", "x:y"),
     ("retention.ms", "1_000"), ("retention.ms", ""), ("retention.ms", "1 000"),
     ("retention.ms", "1.0"), ("retention.ms", "5\u00a0"), ("retention.ms", "--5"),
     ("min.cleanable.dirty.ratio", "0.1_5"), ("min.cleanable.dirty.ratio", "nan"),
     ("cleanup.policy", "compact,,delete"), ("cleanup.policy", "delete,"), ("cleanup.policy", ","),
     ("leader.replication.throttled.replicas", "1:2,"), ("compression.gzip.level", "0_9"),
     ("leader.replication.throttled.replicas", "1:²")],
)  # fmt: skip
def test_illegal_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        check_config(name, value)


@pytest.mark.parametrize(
    ("value", "meaning"), [("+5", 5), (" 5\t", 5), ("-1", -1), ("٣", 3), ("007", 7)]
)
def test_numbers_are_written_as_java_reads_them(value: str, meaning: int) -> None:
    check_config("retention.ms", value)
    assert retention_ms({"retention.ms": value}) == meaning


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="conflict"):
        check_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, (604_800_000, -1)), ({"retention.ms": "-1"}, (-1, -1)),
     ({"retention.bytes": "-5"}, (604_800_000, -1)),
     ({"cleanup.policy": "compact", "retention.bytes": "9"}, (-1, -1)),
     ({"cleanup.policy": "compact,delete", "retention.bytes": "9"}, (604_800_000, 9))],
)  # fmt: skip
def test_retention_follows_the_cleanup_policy(
    given: dict[str, str], expected: tuple[int, int]
) -> None:
    assert (retention_ms(given), retention_bytes(given)) == expected


async def test_changes_are_applied_one_by_one(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert (
        await alter(broker, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")) == 0
    )
    assert await configs(broker) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert (
        await alter(broker, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
        == 0
    )
    assert await configs(broker) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("changes", "more", "code"),
    [
        ([("nope", SET, "1")], {}, Code.INVALID_CONFIG),
        ([("nope", DELETE, None)], {}, Code.NONE),
        ([("retention.ms", APPEND, "1")], {}, Code.INVALID_CONFIG),
        ([("retention.ms", SET, None)], {}, Code.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], {}, Code.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], {}, Code.INVALID_REQUEST),
        ([("retention.ms", SET, "1")], {"resource_name": "no"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ([("retention.ms", SET, "1")], {"resource_type": 4, "resource_name": "1"}, Code.NONE),
        (
            [("log.retention.hours", SET, "1")],
            {"resource_type": 4, "resource_name": "1"},
            Code.INVALID_REQUEST,
        ),
    ],
)
async def test_changes_are_checked_as_kafka_does(
    broker: RunningBroker, changes: list[Any], more: dict[str, Any], code: int
) -> None:
    await broker.create_topic("t")
    assert await alter(broker, *changes, **more) == code
    assert await configs(broker) == {}


async def test_validate_only_changes_nothing(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert await alter(broker, ("retention.ms", SET, "5"), validate_only=True) == 0
    assert await configs(broker) == {}


async def test_alter_configs_replaces_everything(broker: RunningBroker) -> None:
    await broker.create_topic("t", retention_ms="5", cleanup_policy="compact")
    resource = {
        "resource_type": 2,
        "resource_name": "t",
        "configs": [{"name": "retention.ms", "value": "9"}],
    }
    response = await broker.call(ApiKey.ALTER_CONFIGS, 2, resources=[resource], validate_only=False)
    assert response.responses[0].error_code == 0
    assert await configs(broker) == {"retention.ms": "9"}


async def test_configurations_are_described_with_their_sources(broker: RunningBroker) -> None:
    await broker.create_topic("t", retention_ms="5")
    asked = [
        (2, "t", ["retention.ms", "nope"]), (2, "t", None), (2, "t", []), (2, "no", None),
        (4, "1", ["num.partitions"]), (4, "9", None), (4, "", None), (16, "1", None),
    ]  # fmt: skip
    response = await broker.call(
        ApiKey.DESCRIBE_CONFIGS, 4,
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name, keys in asked
        ],
        include_synonyms=True, include_documentation=True,
    )  # fmt: skip
    every = len(TOPIC_CONFIGS)
    found = [(one.error_code, len(one.configs)) for one in response.results]
    assert found == [(0, 1), (0, every), (0, every), (3, 0), (0, 1), (42, 0), (0, 0), (42, 0)]
    (entry,) = response.results[0].configs
    assert (entry.value, entry.config_source, entry.config_type) == ("5", 1, 5)
    assert [(one.name, one.source) for one in entry.synonyms] == [("retention.ms", 1)]
    assert entry.documentation


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_list_operations_on_long_lists_take_linear_time(operation: int) -> None:
    name = "leader.replication.throttled.replicas"
    present = ",".join(f"{n}:1" for n in range(4_500))
    given = ",".join(f"{n}:2" for n in range(4_500))
    one = SimpleNamespace(name=name, config_operation=operation, value=given)
    rules = ConfigRules(lambda _: None, lambda configs, name, _: configs[name])
    change = incremental_alter_configs._change_of(SimpleNamespace(configs=[one]), rules)
    began = time.thread_time()
    changed = change({name: present})
    assert time.thread_time() - began < 0.2
    assert changed[name] == (f"{present},{given}" if operation == APPEND else present)


async def test_appending_makes_no_value_longer_than_a_reply_can_carry(
    broker: RunningBroker,
) -> None:
    """The longest string of Kafka's protocol has 32,767 bytes."""
    name = "leader.replication.throttled.replicas"
    await broker.create_topic("t")
    items = [",".join(f"{n}:{broker_id}" for n in range(1_000, 5_000)) for broker_id in (1, 2)]
    assert await alter(broker, (name, SET, items[0])) == 0
    assert await alter(broker, (name, APPEND, items[1])) == 40
    assert await configs(broker) == {name: items[0]}


async def test_more_configurations_than_one_request_may_describe_are_refused(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t")
    every = len(TOPIC_CONFIGS)
    count = MAX_DESCRIBED_CONFIGS // every
    resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
    request = SimpleNamespace(
        resources=[SimpleNamespace(**resource)] * (count + 1), include_synonyms=False
    )
    reply = await describe_configs.handle(
        broker.services, request, RequestContext(1, None, ClientSession(PLAINTEXT, 1))
    )
    assert {one.get("error_code", 0) for one in reply["results"][:count]} == {0}
    assert reply["results"][-1]["error_code"] == Code.POLICY_VIOLATION
    rows = {id(one["configs"]) for one in reply["results"][:count]}
    assert len(rows) == 1  # they share what is the same


async def test_a_topic_cannot_have_the_table_of_another_topic(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await broker.create_topic("other.topic")
    name = "headwater.table.name"
    assert await alter(broker, (name, SET, "headwater.other_topic")) == 40
    assert await alter(broker, (name, SET, "lake.raw.t")) == 0
    assert await alter(broker, (name, SET, "lake.raw.t"), ("retention.ms", SET, "5")) == 0
    assert await alter(broker, (name, SET, "lake.raw.t"), resource_name="other.topic") == 40
    wanted = [{"name": name, "value": "lake.raw.t"}]
    topics = [
        {"name": each, "num_partitions": 1, "replication_factor": 1, "assignments": [],
         "configs": [*wanted] if each == "u" else [{"name": name, "value": "lake.raw.v"}]}
        for each in ("u", "v", "w")
    ]  # fmt: skip
    answer = await broker.call(
        ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=False
    )
    assert [each.error_code for each in answer.topics] == [
        Code.INVALID_CONFIG,
        Code.NONE,
        Code.INVALID_CONFIG,
    ]
    assert await configs(broker) == {name: "lake.raw.t", "retention.ms": "5"}


async def test_a_table_name_cannot_be_unset_if_another_topic_has_the_default_one(
    broker: RunningBroker,
) -> None:
    name = "headwater.table.name"
    await broker.create_topic("t", headwater_table_name="lake.raw.t")
    await broker.create_topic("u", headwater_table_name="headwater.t")
    assert await alter(broker, (name, DELETE, None)) == 40
    assert await alter(broker, (name, SET, "")) == 40
    assert await configs(broker) == {name: "lake.raw.t"}
    assert await alter(broker, (name, DELETE, None), resource_name="u") == 0
    assert await alter(broker, (name, DELETE, None)) == 0
