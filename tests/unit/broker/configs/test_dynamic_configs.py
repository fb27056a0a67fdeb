"""Dynamic configurations of brokers, groups and loggers, and their effect."""

import asyncio
import logging
from typing import Any

import pytest

from headwater.broker.configs.loggers import loggers
from headwater.groups.configs import GroupConfigs
from headwater.groups.settings import GroupSettings
from headwater.meta.memory import MemoryStore
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    NOW,
    RunningBroker,
    batch,
    dynamic_state,
    produce_fields,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(
    broker: RunningBroker,
    resource: tuple[int, str],
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> tuple[int, str | None]:
    configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
    asked = {"resource_type": resource[0], "resource_name": resource[1], "configs": configs}
    response = await broker.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked], validate_only=validate_only
    )
    (result,) = response.responses
    return int(result.error_code), result.error_message


async def describe(broker: RunningBroker, kind: int, name: str, *keys: str) -> Any:
    response = await broker.call(
        ApiKey.DESCRIBE_CONFIGS, 4,
        resources=[
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
        ],
        include_synonyms=True, include_documentation=False,
    )  # fmt: skip
    return response.results[0]


def synonyms(entry: Any) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


async def test_a_default_of_the_cluster_applies_to_topics_without_a_value(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("plain")
    await broker.create_topic("own", max_message_bytes="9000")
    assert await alter(broker, (BROKER, ""), ("message.max.bytes", SET, "100")) == (0, None)
    large = batch(b"x" * 1000)
    codes = {}
    for name in ("plain", "own"):
        response = await broker.call(ApiKey.PRODUCE, 9, **produce_fields(name, large))
        codes[name] = response.responses[0].partition_responses[0].error_code
    assert codes == {"plain": Code.MESSAGE_TOO_LARGE, "own": Code.NONE}
    assert (await alter(broker, (BROKER, ""), ("message.max.bytes", DELETE, None)))[0] == 0
    response = await broker.call(ApiKey.PRODUCE, 9, **produce_fields("plain", large))
    assert response.responses[0].partition_responses[0].error_code == 0


async def test_topics_list_the_sources_of_their_defaults(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await alter(broker, (BROKER, ""), ("log.retention.ms", SET, "7000"))
    await alter(broker, (BROKER, "1"), ("log.retention.ms", SET, "8000"))
    (entry,) = (await describe(broker, TOPIC, "t", "retention.ms")).configs
    assert (entry.value, entry.config_source, entry.read_only) == ("8000", 2, False)
    assert synonyms(entry) == [
        ("log.retention.ms", "8000", 2), ("log.retention.ms", "7000", 3),
        ("log.retention.hours", "168", 5),
    ]  # fmt: skip
    (entry,) = (await describe(broker, BROKER, "1", "log.retention.ms")).configs
    assert [source for *_, source in synonyms(entry)] == [2, 3, 5]
    (entry,) = (await describe(broker, BROKER, "")).configs
    assert (entry.name, entry.value, entry.config_source) == ("log.retention.ms", "7000", 3)
    await broker.create_topic("u", retention_ms="5")
    (entry,) = (await describe(broker, TOPIC, "u", "retention.ms")).configs
    assert (entry.value, entry.config_source) == ("5", 1)


@pytest.mark.parametrize(
    ("kind", "name", "config", "value", "listed"),
    [
        (TOPIC, "t", "retention.ms", "604800000", []),
        (TOPIC, "t", "segment.ms", "604800000", []),
        (TOPIC, "t", "compression.type", "producer", [("compression.type", "producer", 5)]),
        (BROKER, "1", "log.retention.ms", "604800000", []),
        (BROKER, "1", "log.cleanup.policy", "delete", [("log.cleanup.policy", "delete", 5)]),
    ],
)
async def test_a_default_that_kafka_has_under_another_name_is_no_synonym(
    broker: RunningBroker, kind: int, name: str, config: str, value: str, listed: list[Any]
) -> None:
    await broker.create_topic("t")
    (entry,) = (await describe(broker, kind, name, config)).configs
    assert (entry.value, entry.config_source, synonyms(entry)) == (value, 5, listed)


@pytest.mark.parametrize(
    ("name", "value", "shown_before"),
    [
        ("log.cleaner.backoff.ms", "12000", "15000"),
        ("log.cleaner.threads", "2", "1"),
        ("log.cleaner.io.max.bytes.per.second", "1e9", "1.7976931348623157E308"),
        ("cleanup.policy", "compact", None),
        ("retention.ms", "whatever", None),
    ],
)
@pytest.mark.parametrize("target", ["", "1"])
async def test_topic_configurations_on_brokers_are_stored_without_effect(
    broker: RunningBroker, target: str, name: str, value: str, shown_before: str | None
) -> None:
    await broker.create_topic("t")
    before = (await describe(broker, BROKER, "1", name)).configs
    assert [one.value for one in before] == ([] if shown_before is None else [shown_before])
    assert await alter(broker, (BROKER, target), (name, SET, value)) == (0, None)
    for shown in {target, "1"}:
        (entry,) = (await describe(broker, BROKER, shown, name)).configs
        assert (entry.value, entry.config_source) == (value, 2 if target else 3)
    (topic,) = (await describe(broker, TOPIC, "t", "cleanup.policy")).configs
    assert (topic.value, topic.config_source) == ("delete", 5)
    assert await alter(broker, (BROKER, target), (name, DELETE, None)) == (0, None)


@pytest.mark.parametrize(
    ("name", "value"), [("log.cleaner.backoff.ms", "-1"), ("log.cleaner.threads", "many")]
)
async def test_values_without_effect_are_checked(
    broker: RunningBroker, name: str, value: str
) -> None:
    code, message = await alter(broker, (BROKER, ""), (name, SET, value))
    assert code == Code.INVALID_REQUEST
    assert message is not None
    assert name in message


async def test_retention_follows_the_clusters_default(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x", timestamp=NOW - 60_000)))
    await alter(broker, (BROKER, ""), ("log.retention.ms", SET, "1000"))
    engine: Any = broker.engine
    await engine._maintenance.sweep()
    offsets = await broker.engine.offsets(await broker.engine.topics.find("t"), 0)
    assert (offsets.log_start, offsets.high_watermark) == (1, 1)


async def test_a_list_of_the_cluster_is_added_to(broker: RunningBroker) -> None:
    assert (await alter(broker, (BROKER, ""), ("log.cleanup.policy", APPEND, "compact")))[0] == 0
    (entry,) = (await describe(broker, BROKER, "", "log.cleanup.policy")).configs
    assert entry.value == "delete,compact"
    await broker.create_topic("t")
    (entry,) = (await describe(broker, TOPIC, "t", "cleanup.policy")).configs
    assert (entry.value, entry.config_source) == ("delete,compact", 3)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [("", ("auto.create.topics.enable", SET, "false"),
      (42, "Cannot update these configs dynamically: [auto.create.topics.enable]")),
     ("1", ("log.retention.hours", SET, "2"),
      (42, "Cannot update these configs dynamically: [log.retention.hours]")),
     ("", ("log.retention.ms", SET, "2x"),
      (42, "Invalid value 2x for configuration log.retention.ms: Not a number of type LONG")),
     ("", ("message.max.bytes", SET, "-1"),
      (42, "Invalid value -1 for configuration message.max.bytes: Value must be at least 0")),
     ("", ("compression.type", SET, "zap"),
      (42, ("Invalid value zap for configuration compression.type: String must be one of: "
       "uncompressed, zstd, lz4, snappy, gzip, producer"))),
     ("", ("log.retention.ms", APPEND, "1"),
      (40, "Config value append is not allowed for config key: log.retention.ms")),
     ("", ("log.retention.ms", SET, None),
      (42, "Null value not supported for : log.retention.ms")),
     ("", ("log.retention.ms", 9, "1"), (42, "Unknown operations type 9")),
     ("7", ("log.retention.ms", SET, "5"),
      (42, "Unexpected broker id, expected 1, but received 7")),
     ("x", ("log.retention.ms", SET, "5"), (42, "Node id must be an integer, but it is: x")),
     ("", ("nope", DELETE, None), (0, None))],
)  # fmt: skip
async def test_brokers_refuse_in_kafkas_words(
    broker: RunningBroker,
    name: str,
    change: tuple[str, int, str | None],
    expected: tuple[int, str | None],
) -> None:
    assert await alter(broker, (BROKER, name), change) == expected
    assert (await describe(broker, BROKER, "")).configs == ()


async def test_configurations_for_replicas_and_threads_are_stored(broker: RunningBroker) -> None:
    change = ("leader.replication.throttled.rate", SET, "100")
    assert (await alter(broker, (BROKER, "1"), change))[0] == 0
    assert (await alter(broker, (BROKER, ""), ("num.io.threads", SET, "9")))[0] == 0
    found = await describe(broker, BROKER, "1", "num.io.threads", change[0])
    assert {entry.name: (entry.value, entry.config_source) for entry in found.configs} == {
        "num.io.threads": ("9", 3), change[0]: ("100", 2)
    }  # fmt: skip


async def test_alter_configs_replaces_all_configurations(broker: RunningBroker) -> None:
    await alter(broker, (BROKER, ""), ("log.retention.ms", SET, "7000"))
    resource = {
        "resource_type": BROKER,
        "resource_name": "",
        "configs": [{"name": "message.max.bytes", "value": "5"}],
    }
    response = await broker.call(ApiKey.ALTER_CONFIGS, 2, resources=[resource], validate_only=False)
    assert response.responses[0].error_code == 0
    assert [one.name for one in (await describe(broker, BROKER, "")).configs] == [
        "message.max.bytes"
    ]


async def test_validating_changes_nothing(broker: RunningBroker) -> None:
    change = ("log.retention.ms", SET, "7000")
    assert (await alter(broker, (BROKER, ""), change, validate_only=True))[0] == 0
    assert (await describe(broker, BROKER, "")).configs == ()


async def test_a_change_reaches_every_broker() -> None:
    meta = MemoryStore()
    async with dynamic_state(meta, 1) as one, dynamic_state(meta, 2) as other:
        await one.brokers.change(lambda _: {"message.max.bytes": "5"}, whole_cluster=True)
        assert one.brokers.topic_defaults == {"max.message.bytes": "5"}
        while not other.brokers.topic_defaults:
            await asyncio.sleep(0)
        await one.brokers.change(lambda _: {"message.max.bytes": "6"}, whole_cluster=False)
        assert one.brokers.topic_defaults == {"max.message.bytes": "6"}
        await asyncio.sleep(0)
        assert other.brokers.topic_defaults == {"max.message.bytes": "5"}
    await meta.close()


async def test_a_group_has_its_own_timeouts(broker: RunningBroker) -> None:
    groups = broker.services.dynamic.groups
    assert (groups.session_timeout_ms("g"), groups.heartbeat_interval_ms("g")) == (45_000, 5_000)
    change = ("consumer.session.timeout.ms", SET, "50000")
    assert await alter(broker, (GROUP, "g"), change) == (0, None)
    assert (groups.session_timeout_ms("g"), groups.session_timeout_ms("h")) == (50_000, 45_000)
    found = (await describe(broker, GROUP, "g")).configs
    assert [(one.name, one.value, one.config_source) for one in found] == [
        ("consumer.heartbeat.interval.ms", "5000", 5),
        ("consumer.session.timeout.ms", "50000", 8),
    ]
    assert synonyms(found[1]) == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    await alter(broker, (GROUP, "g"), ("consumer.session.timeout.ms", DELETE, None))
    assert groups.session_timeout_ms("g") == 45_000
    assert groups.groups() == []


@pytest.mark.parametrize(
    ("group", "change", "expected"),
    [("g", ("consumer.session.timeout.ms", SET, "5"),
      (40, ("consumer.session.timeout.ms must be greater than or equal to "
       "group.consumer.min.session.timeout.ms"))),
     ("g", ("consumer.heartbeat.interval.ms", SET, "60000"),
      (40, ("consumer.heartbeat.interval.ms must be less than or equal to "
       "group.consumer.max.heartbeat.interval.ms"))),
     ("g", ("consumer.session.timeout.ms", SET, "x"),
      (40, ("Invalid value x for configuration consumer.session.timeout.ms: "
       "Not a number of type INT"))),
     ("g", ("nope", SET, "1"), (40, "Unknown group config name: nope")),
     ("g", ("nope", DELETE, None), (0, None)),
     ("", ("consumer.session.timeout.ms", SET, "50000"),
      (42, "Default group resources are not allowed.")),
     ("g", ("consumer.session.timeout.ms", APPEND, "50000"),
      (40, "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST."))],
)  # fmt: skip
async def test_groups_refuse_in_kafkas_words(
    broker: RunningBroker,
    group: str,
    change: tuple[str, int, str | None],
    expected: tuple[int, str | None],
) -> None:
    assert await alter(broker, (GROUP, group), change) == expected


async def test_an_operator_may_move_the_limits_of_groups() -> None:
    meta = MemoryStore()
    configs = GroupConfigs(
        meta,
        GroupSettings(consumer_session_timeout_ms=6000, consumer_heartbeat_interval_ms=1000),
    )
    assert configs.session_timeout_ms("any") == 6000
    assert configs.heartbeat_interval_ms("any") == 1000
    await meta.close()


def test_parent_loggers_are_listed() -> None:
    assert {"root", "headwater", "headwater.log", "headwater.log.append.writer"} <= loggers().keys()


async def test_levels_of_loggers_are_set_and_deleted(broker: RunningBroker) -> None:
    name = "headwater.broker.network.connection"
    before = logging.getLogger(name).level
    try:
        assert await alter(broker, (LOGGER, "1"), (name, SET, "DEBUG")) == (0, None)
        (entry,) = (await describe(broker, LOGGER, "1", name)).configs
        assert (entry.value, entry.config_source, entry.read_only) == ("DEBUG", 6, False)
        assert logging.getLogger(name).level == logging.DEBUG
        assert await alter(broker, (LOGGER, "1"), (name, DELETE, None)) == (0, None)
        assert logging.getLogger(name).level == logging.NOTSET
    finally:
        logging.getLogger(name).setLevel(before)
    names = {one.name for one in (await describe(broker, LOGGER, "1")).configs}
    assert {"root", "headwater", name} <= names


@pytest.mark.parametrize(
    ("broker_id", "change", "expected"),
    [("1", ("root", SET, "ZIP"),
      (40, ("Cannot set the log level of root to ZIP as it is not a supported log level. Valid log "
       "levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"))),
     ("1", ("nope.logger", SET, "DEBUG"), (40, "Logger nope.logger does not exist!")),
     ("1", ("root", DELETE, None),
      (42, "Removing the log level of the root logger is not allowed")),
     ("1", ("root", APPEND, "INFO"),
      (42, "APPEND operation is not allowed for the BROKER_LOGGER resource")),
     ("", ("root", SET, "INFO"), (42, "Node id must be an integer, but it is: "))],
)  # fmt: skip
async def test_loggers_refuse_in_kafkas_words(
    broker: RunningBroker,
    broker_id: str,
    change: tuple[str, int, str | None],
    expected: tuple[int, str | None],
) -> None:
    assert await alter(broker, (LOGGER, broker_id), change) == expected


@pytest.mark.parametrize(
    ("kind", "name"), [(BROKER, "x"), (BROKER, "7"), (LOGGER, ""), (LOGGER, "7"), (GROUP, ""),
                       (METRICS, "m"), (99, "x")],
)  # fmt: skip
async def test_resources_without_configurations_are_refused(
    broker: RunningBroker, kind: int, name: str
) -> None:
    assert (await describe(broker, kind, name)).error_code == Code.INVALID_REQUEST
    if kind != BROKER:
        assert (await alter(broker, (kind, name), ("a", SET, "1")))[0] == 42


async def test_everything_with_configurations_is_listed(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    await alter(broker, (GROUP, "g"), ("consumer.session.timeout.ms", SET, "50000"))

    async def listed(*kinds: int) -> list[tuple[int, str]]:
        response = await broker.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=list(kinds))
        assert response.error_code == 0
        return [(one.resource_type, one.resource_name) for one in response.config_resources]

    assert await listed() == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (GROUP, "g")]
    assert await listed(GROUP, METRICS) == [(GROUP, "g")]
    assert (
        await broker.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[99])
    ).error_code == Code.UNSUPPORTED_VERSION
    assert (await broker.call(ApiKey.LIST_CONFIG_RESOURCES, 0)).config_resources == ()
