"""A broker's settings by the names that Kafka's tools look for; set at start, so read-only."""

from collections.abc import Collection, Iterator

from headwater.broker.config_entries import ConfigEntry, ConfigSource, Synonym
from headwater.broker.services import Services
from headwater.topic_configs import TOPIC_CONFIGS, ConfigType


def broker_entries(
    services: Services, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """This broker's settings, and the defaults of its topics, all or those named."""
    settings, cluster = services.settings, services.cluster
    own = next(broker for broker in cluster.brokers() if broker.id == cluster.node_id)
    flag, number, text = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING
    table: list[tuple[str, ConfigType, str, str]] = [
        ("advertised.listeners", text, f"PLAINTEXT://{own.host}:{own.port}",
         "Where clients reach this broker."),
        ("auto.create.topics.enable", flag, str(settings.auto_create_topics).lower(),
         "Whether a topic that is asked for by name comes into being."),
        ("broker.id", number, str(cluster.node_id), "This broker's id."),
        ("broker.rack", text, own.rack or "", "This broker's zone."),
        ("default.replication.factor", number, str(settings.default_replication_factor),
         "Without effect: the object store replicates."),
        ("delete.topic.enable", flag, "true", "Topics can be deleted."),
        ("fetch.max.bytes", number, str(settings.fetch_max_bytes),
         "The most that one Fetch answer carries."),
        ("max.incremental.fetch.session.cache.slots", number, str(settings.max_fetch_sessions),
         "How many fetch sessions are kept."),
        ("max.request.partition.size.limit", number, str(settings.max_partitions_per_request),
         "The page size of DescribeTopicPartitions."),
        ("node.id", number, str(cluster.node_id), "This broker's id."),
        ("num.partitions", number, str(settings.num_partitions),
         "How many partitions a topic gets when nobody says."),
        ("socket.request.max.bytes", number, str(settings.max_request_bytes),
         "A longer request closes its connection."),
    ]  # fmt: skip
    table += [
        (config.broker_name, config.type, config.default, config.doc)
        for config in TOPIC_CONFIGS.values()
        if config.broker_name is not None
    ]
    for name, kind, value, doc in sorted(table):
        if names is None or name in names:
            source = ConfigSource.STATIC_BROKER
            yield ConfigEntry(
                name, value, source, kind, read_only=True,
                synonyms=(Synonym(name, value, source),), doc=doc,
            )  # fmt: skip
