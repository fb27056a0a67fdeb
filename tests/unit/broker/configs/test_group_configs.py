"""The settings of groups, by Kafka's names."""

from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker

BROKER = 4


async def test_settings_of_groups_are_shown_under_kafkas_names(broker: RunningBroker) -> None:
    reply = await broker.call(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}],
        include_synonyms=False,
        include_documentation=False,
    )
    shown = {entry.name: entry.value for entry in reply.results[0].configs}
    assert shown["group.initial.rebalance.delay.ms"] == "3000"
    assert shown["group.max.session.timeout.ms"] == "1800000"
    assert shown["group.consumer.session.timeout.ms"] == "45000"
    assert shown["group.consumer.migration.policy"] == "bidirectional"
    assert shown["offsets.retention.minutes"] == "10080"
    assert shown["offset.metadata.max.bytes"] == "4096"
