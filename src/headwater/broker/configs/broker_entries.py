"""A broker's configurations, by Kafka's names, as DescribeConfigs lists them.

Configurations that are set at start are read-only. Dynamic ones list where they were set.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from headwater.broker.configs.dynamic_configs import DYNAMIC_CONFIGS, DynamicConfig
from headwater.broker.configs.entries import BrokerLayers, ConfigEntry, ConfigSource, Synonym
from headwater.broker.network.connection_limits import CONNECTIONS_MAX_IDLE_MS, static_limits
from headwater.broker.services import Services
from headwater.groups.settings import GroupSettings
from headwater.topic_config.topic import ConfigType

Row = tuple[str, ConfigType, str, str]
"""Name, type, value and documentation."""

_INT: Final = ConfigType.INT


def broker_entries(
    services: Services, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """This broker's configurations sorted by name: all, or only ``names``."""
    dynamic = _dynamic_entries(services.dynamic.brokers.layers, static_limits(services.settings))
    entries = [*_fixed_entries(services), *dynamic]
    for entry in sorted(entries, key=lambda entry: entry.name):
        if names is None or entry.name in names:
            yield entry


def cluster_entries(
    services: Services, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The dynamic configurations of all brokers, sorted by name: all, or only ``names``."""
    layers = BrokerLayers({}, services.dynamic.brokers.layers.cluster)
    for name in sorted(layers.cluster.keys() & DYNAMIC_CONFIGS.keys()):
        if names is None or name in names:
            yield _dynamic_entry(DYNAMIC_CONFIGS[name], list(layers.synonyms(name)))


def _dynamic_entries(layers: BrokerLayers, static: Mapping[str, str]) -> Iterator[ConfigEntry]:
    for name, config in DYNAMIC_CONFIGS.items():
        synonyms = layers.synonyms_with_default(name, config.default, static.get(name))
        if synonyms or config.default is not None:
            yield _dynamic_entry(config, synonyms)


def _dynamic_entry(config: DynamicConfig, synonyms: Sequence[Synonym]) -> ConfigEntry:
    value, source = config.default or "", ConfigSource.DEFAULT
    if synonyms:
        value, source = synonyms[0].value, synonyms[0].source
    return ConfigEntry(
        config.name, value, source, config.type, read_only=False,
        synonyms=tuple(synonyms), doc=config.doc,
    )  # fmt: skip


def _fixed_entries(services: Services) -> Iterator[ConfigEntry]:
    settings, cluster = services.settings, services.cluster
    own = cluster.find(cluster.node_id)
    assert own is not None
    advertised = ",".join(f"{one.listener}://{one.host}:{one.port}" for one in own.advertised)
    flag, number, text = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING
    table: list[Row] = [
        ("advertised.listeners", text, advertised,
         "The addresses that clients connect to."),
        ("auto.create.topics.enable", flag, str(settings.auto_create_topics).lower(),
         "Whether a Metadata request for a missing topic creates it."),
        ("broker.id", number, str(cluster.node_id), "This broker's id."),
        ("broker.rack", text, own.rack or "", "This broker's zone."),
        (CONNECTIONS_MAX_IDLE_MS, ConfigType.LONG, str(settings.connections_max_idle_ms),
         "A connection that is idle for this long is closed."),
        ("default.replication.factor", number, str(settings.default_replication_factor),
         "Without effect: the object store replicates."),
        ("delete.topic.enable", flag, "true", "Topics can be deleted."),
        ("fetch.max.bytes", number, str(settings.fetch_max_bytes),
         "Most bytes of records in one Fetch reply."),
        ("max.incremental.fetch.session.cache.slots", number, str(settings.max_fetch_sessions),
         "Most incremental fetch sessions."),
        ("max.request.partition.size.limit", number, str(settings.max_partitions_per_request),
         "The page size of DescribeTopicPartitions."),
        ("node.id", number, str(cluster.node_id), "This broker's id."),
        ("num.partitions", number, str(settings.num_partitions),
         "The number of partitions of a topic that is created without one."),
        ("socket.request.max.bytes", number, str(settings.max_request_bytes),
         "A larger request closes its connection."),
    ]  # fmt: skip
    table += _group_rows(services.group_settings)
    source = ConfigSource.STATIC_BROKER
    for name, kind, value, doc in table:
        yield ConfigEntry(
            name, value, source, kind, read_only=True,
            synonyms=(Synonym(name, value, source),), doc=doc,
        )  # fmt: skip


def _group_rows(groups: GroupSettings) -> list[Row]:
    return [
        ("group.consumer.assignors", ConfigType.LIST, "uniform,range",
         "The server-side assignors of consumer groups."),
        ("group.consumer.heartbeat.interval.ms", _INT, str(groups.consumer_heartbeat_interval_ms),
         "The heartbeat interval of members of consumer groups."),
        ("group.consumer.max.size", _INT, str(groups.max_size),
         "Most members of a consumer group."),
        ("group.consumer.migration.policy", ConfigType.STRING, groups.consumer_migration_policy,
         "Which conversions between the classic and the consumer protocol are allowed."),
        ("group.consumer.regex.refresh.interval.ms", _INT,
         str(groups.consumer_regex_refresh_interval_ms),
         "Time between two evaluations of subscribed patterns."),
        ("group.consumer.session.timeout.ms", _INT, str(groups.consumer_session_timeout_ms),
         "A member of a consumer group without a heartbeat for this long is removed."),
        ("group.coordinator.rebalance.protocols", ConfigType.LIST, "classic,consumer",
         "The group protocols that are served."),
        ("group.initial.rebalance.delay.ms", _INT, str(groups.initial_rebalance_delay_ms),
         "An empty classic group waits this long for more members."),
        ("group.max.session.timeout.ms", _INT, str(groups.max_session_timeout_ms),
         "The longest session timeout of a classic member."),
        ("group.max.size", _INT, str(groups.max_size), "Most members of a classic group."),
        ("group.min.session.timeout.ms", _INT, str(groups.min_session_timeout_ms),
         "The shortest session timeout of a classic member."),
        ("offset.metadata.max.bytes", _INT, str(groups.offset_metadata_max_bytes),
         "Most bytes of metadata with a committed offset."),
        ("offsets.retention.check.interval.ms", ConfigType.LONG,
         str(groups.offsets_retention_check_interval_ms),
         "Time between two checks for expired offsets."),
        ("offsets.retention.minutes", _INT, str(groups.offsets_retention_minutes),
         "The offsets of a group without members expire after this time."),
    ]  # fmt: skip
