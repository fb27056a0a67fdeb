"""The topic configurations of Apache Kafka 4.3, typed: names, defaults, validators, synonyms.

Names that begin with ``headwater.`` are Headwater's own.

``Topic.configs`` holds the configurations that a user set, as text. Functions here take such a
mapping and fall back to the default. Unknown names are refused. Configurations for Kafka's files on
disk are accepted, checked and stored, so that tools which set them work. They are marked
``effective=False`` because they have no effect in Headwater.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from headwater.errors import InvalidConfig
from headwater.topic_config.table import (
    COMPACT_TO,
    LOG_PARTITIONING,
    check_partitioning,
    check_table_name,
    is_log_partitioning,
)
from headwater.topic_config.values import (
    INT_MAX,
    LONG_MAX,
    NOT_A_NUMBER,
    Check,
    check_length,
    check_number,
    is_boolean,
    is_fraction,
    is_gzip_level,
    is_list_of,
    is_one_of,
    is_throttled_replicas,
    list_value,
    trimmed,
)


class ConfigType(IntEnum):
    """Kafka's numbers for types in a DescribeConfigs response."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic configuration; ``broker_name`` is the broker configuration with its default."""

    name: str
    type: ConfigType
    default: str
    check: Check
    broker_name: str | None
    doc: str
    effective: bool = True


def _define(
    name: str,
    type_: ConfigType,
    default: str,
    check: Check,
    broker_name: str | None,
    doc: str,
    *,
    effective: bool = True,
) -> tuple[str, TopicConfig]:
    return name, TopicConfig(
        name=name,
        type=type_,
        default=default,
        check=check,
        broker_name=broker_name,
        doc=doc,
        effective=effective,
    )


def _int(low: int, high: int = INT_MAX) -> Check:
    return partial(check_number, low=low, high=high)


def _long(low: int) -> Check:
    return partial(check_number, low=low, high=LONG_MAX)


_WEEK = str(7 * 24 * 3_600_000)
_UNUSED = "Accepted for compatibility; without effect on object storage."
_T = ConfigType

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = dict(
    (
        _define(
            "cleanup.policy", _T.LIST, "delete",
            partial(is_list_of, choices=("compact", "delete")), "log.cleanup.policy",
            "delete drops records by retention, compact keeps the last of each key.",
        ),
        _define(
            "compression.gzip.level", _T.INT, "-1", is_gzip_level, "compression.gzip.level",
            "Accepted; the codec's default level is used.", effective=False,
        ),
        _define(
            "compression.lz4.level", _T.INT, "9", _int(1, 17), "compression.lz4.level",
            "Accepted; the codec's default level is used.", effective=False,
        ),
        _define(
            "compression.type", _T.STRING, "producer",
            partial(
                is_one_of, choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
            ),
            "compression.type",
            "The codec that batches are kept in; producer keeps what the producer chose.",
        ),
        _define(
            "compression.zstd.level", _T.INT, "3", _int(-131072, 22), "compression.zstd.level",
            "Accepted; the codec's default level is used.", effective=False,
        ),
        _define(
            "delete.retention.ms", _T.LONG, "86400000", _long(0),
            "log.cleaner.delete.retention.ms",
            "How long a compacted topic keeps the marker of a deleted key.",
        ),
        _define(
            "file.delete.delay.ms", _T.LONG, "60000", _long(0), "log.segment.delete.delay.ms",
            _UNUSED, effective=False,
        ),
        _define(
            "flush.messages", _T.LONG, str(LONG_MAX), _long(1), "log.flush.interval.messages",
            "Without effect: a record is durable before it is acknowledged.", effective=False,
        ),
        _define(
            "flush.ms", _T.LONG, str(LONG_MAX), _long(0), "log.flush.interval.ms",
            "Without effect: a record is durable before it is acknowledged.", effective=False,
        ),
        _define(
            "follower.replication.throttled.replicas", _T.LIST, "", is_throttled_replicas, None,
            "Without effect: there are no replicas to copy to.", effective=False,
        ),
        _define(
            "headwater.compact-to", _T.STRING, "parquet", partial(is_one_of, choices=COMPACT_TO),
            None,
            "What records are compacted to: parquet, an Iceberg table; segment, .kfs files; "
            "both, segments as the log and the table as a copy; none.",
        ),
        _define(
            "headwater.latency", _T.STRING, "low", partial(is_one_of, choices=("low", "cheap")),
            None,
            "How small amounts of records are made durable: low, inside a metadata transaction; "
            "cheap, in an object with others, which waits for the next flush.",
        ),
        _define(
            "headwater.replication.factor", _T.INT, "1", _int(1), None,
            "The factor that the topic was created with. " + _UNUSED, effective=False,
        ),
        _define(
            "headwater.table.name", _T.STRING, "", check_table_name, None,
            "The Iceberg table, as namespace.table; empty: by the template of the settings.",
        ),
        _define(
            "headwater.table.partition-by", _T.STRING, LOG_PARTITIONING, check_partitioning, None,
            "How the table is partitioned when it is created; other than by partition only "
            "with headwater.compact-to=both.",
        ),
        _define(
            "index.interval.bytes", _T.INT, "4096", _int(0), "log.index.interval.bytes",
            _UNUSED, effective=False,
        ),
        _define(
            "leader.replication.throttled.replicas", _T.LIST, "", is_throttled_replicas, None,
            "Without effect: there are no replicas to copy to.", effective=False,
        ),
        _define(
            "local.retention.bytes", _T.LONG, "-2", _long(-2), "log.local.retention.bytes",
            _UNUSED, effective=False,
        ),
        _define(
            "local.retention.ms", _T.LONG, "-2", _long(-2), "log.local.retention.ms",
            _UNUSED, effective=False,
        ),
        _define(
            "max.compaction.lag.ms", _T.LONG, str(LONG_MAX), _long(1),
            "log.cleaner.max.compaction.lag.ms",
            "How long a record may stay uncompacted.",
        ),
        _define(
            "max.message.bytes", _T.INT, str(1024 * 1024 + 12), _int(0), "message.max.bytes",
            "The largest record batch that is accepted, as it came from the producer.",
        ),
        _define(
            "message.timestamp.after.max.ms", _T.LONG, "3600000", _long(0),
            "log.message.timestamp.after.max.ms",
            "How far a record's timestamp may be ahead of the broker's clock.",
        ),
        _define(
            "message.timestamp.before.max.ms", _T.LONG, str(LONG_MAX), _long(0),
            "log.message.timestamp.before.max.ms",
            "How far a record's timestamp may be behind the broker's clock.",
        ),
        _define(
            "message.timestamp.type", _T.STRING, "CreateTime",
            partial(is_one_of, choices=("CreateTime", "LogAppendTime")),
            "log.message.timestamp.type",
            "Whether a record keeps its producer's time or gets the broker's.",
        ),
        _define(
            "min.cleanable.dirty.ratio", _T.DOUBLE, "0.5", is_fraction,
            "log.cleaner.min.cleanable.ratio",
            "Which part of a compacted topic must be new before it is compacted.",
        ),
        _define(
            "min.compaction.lag.ms", _T.LONG, "0", _long(0), "log.cleaner.min.compaction.lag.ms",
            "How long a record stays uncompacted at least.",
        ),
        _define(
            "min.insync.replicas", _T.INT, "1", _int(1), "min.insync.replicas",
            "Without effect: every acknowledged record is in durable storage.", effective=False,
        ),
        _define(
            "preallocate", _T.BOOLEAN, "false", is_boolean, "log.preallocate",
            _UNUSED, effective=False,
        ),
        _define(
            "remote.log.copy.disable", _T.BOOLEAN, "false", is_boolean, None,
            _UNUSED, effective=False,
        ),
        _define(
            "remote.log.delete.on.disable", _T.BOOLEAN, "false", is_boolean, None,
            _UNUSED, effective=False,
        ),
        _define(
            "remote.storage.enable", _T.BOOLEAN, "false", is_boolean, None,
            _UNUSED, effective=False,
        ),
        _define(
            "retention.bytes", _T.LONG, "-1", partial(check_number, low=-(2**63), high=LONG_MAX),
            "log.retention.bytes",
            "How much of each partition is kept, in bytes as produced; negative: all of it.",
        ),
        _define(
            "retention.ms", _T.LONG, _WEEK, _long(-1), "log.retention.ms",
            "How long records are kept; -1: for ever.",
        ),
        _define(
            "segment.bytes", _T.INT, "1073741824", _int(1024 * 1024), "log.segment.bytes",
            _UNUSED, effective=False,
        ),
        _define(
            "segment.index.bytes", _T.INT, "10485760", _int(4), "log.index.size.max.bytes",
            _UNUSED, effective=False,
        ),
        _define(
            "segment.jitter.ms", _T.LONG, "0", _long(0), "log.roll.jitter.ms",
            _UNUSED, effective=False,
        ),
        _define(
            "segment.ms", _T.LONG, _WEEK, _long(1), "log.roll.ms",
            _UNUSED, effective=False,
        ),
        _define(
            "unclean.leader.election.enable", _T.BOOLEAN, "false", is_boolean,
            "unclean.leader.election.enable",
            "Without effect: partitions have no leader to elect.", effective=False,
        ),
    )
)  # fmt: skip
"""Every configuration by name, in Kafka's order."""

BY_BROKER_NAME: Final[Mapping[str, TopicConfig]] = {
    config.broker_name: config
    for config in TOPIC_CONFIGS.values()
    if config.broker_name is not None
}
"""Configurations whose default a broker configuration can set."""


DEFAULTS_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", str(LONG_MAX)),
    "log.retention.ms": ("log.retention.hours", "168"),
    "log.roll.jitter.ms": ("log.roll.jitter.hours", "0"),
    "log.roll.ms": ("log.roll.hours", "168"),
}
"""Broker configurations without a default in Kafka; the name and value that apply instead."""


def topic_defaults(configs: Mapping[str, str]) -> Mapping[str, str]:
    """The topic defaults in a broker's configurations, by topic configuration name."""
    return {
        BY_BROKER_NAME[name].name: value
        for name, value in configs.items()
        if name in BY_BROKER_NAME
    }


def check_configs(configs: Mapping[str, str]) -> None:
    """Raises ``InvalidConfig`` for an unknown name, an invalid value or a conflict."""
    for name, value in configs.items():
        check_config(name, value)
    shortest = number(configs, "min.compaction.lag.ms")
    longest = number(configs, "max.compaction.lag.ms")
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})"
        )
    if text(configs, "remote.storage.enable").strip().lower() == "true":
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    target, partitioning = compaction_target(configs), table_partitioning(configs)
    if is_compacted(configs) and target != "parquet":
        raise InvalidConfig(
            f"conflict topic config setting cleanup.policy ({text(configs, 'cleanup.policy')}) "
            f"needs headwater.compact-to=parquet, not {target}: records are compacted by key in "
            "files of a table"
        )
    if target != "both" and not is_log_partitioning(partitioning):
        raise InvalidConfig(
            f"conflict topic config setting headwater.table.partition-by ({partitioning}) "
            f"needs headwater.compact-to=both, not {target}: a table that is the log is "
            f"partitioned by {LOG_PARTITIONING} alone"
        )


def check_config(name: str, value: str | None) -> None:
    """Raises ``InvalidConfig`` for an unknown name or an invalid value."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    try:
        check_length(value)
        config.check(value)
    except ValueError as error:
        reason = str(error)
        if reason == NOT_A_NUMBER:
            reason = f"Not a number of type {config.type.name}"
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {reason}") from None


def text(configs: Mapping[str, str], name: str) -> str:
    """The effective value of a configuration: as set, or the default."""
    value = configs.get(name)
    return TOPIC_CONFIGS[name].default if value is None else value


def number(configs: Mapping[str, str], name: str) -> int:
    """The value of a configuration of type INT or LONG."""
    return int(trimmed(text(configs, name)))


def retention_ms(configs: Mapping[str, str]) -> int:
    """Retention time; -1 without limit, or if ``cleanup.policy`` does not include ``delete``."""
    return number(configs, "retention.ms") if is_deleted(configs) else -1


def retention_bytes(configs: Mapping[str, str]) -> int:
    """Retention size of a partition in bytes; -1 without limit."""
    return max(-1, number(configs, "retention.bytes")) if is_deleted(configs) else -1


def is_deleted(configs: Mapping[str, str]) -> bool:
    """Whether retention applies to the topic."""
    return "delete" in list_value(text(configs, "cleanup.policy"))


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether key compaction applies to the topic, so that every record needs a key."""
    return "compact" in list_value(text(configs, "cleanup.policy"))


def compaction_target(configs: Mapping[str, str]) -> str:
    """The target of compaction: one of ``table.COMPACT_TO``."""
    return text(configs, "headwater.compact-to")


def table_partitioning(configs: Mapping[str, str]) -> str:
    """The partitioning of the topic's table at its creation."""
    return text(configs, "headwater.table.partition-by")


def is_cheap(configs: Mapping[str, str]) -> bool:
    """Whether records are never stored inline in a metadata transaction."""
    return text(configs, "headwater.latency") == "cheap"


def uses_append_time(configs: Mapping[str, str]) -> bool:
    """Whether records get the broker's timestamp instead of their producer's."""
    return text(configs, "message.timestamp.type") == "LogAppendTime"
