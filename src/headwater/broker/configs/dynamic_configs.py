"""The broker configurations that can be changed at run time, and their legal values.

- The defaults of topics and the limits of connections have their effect.
- Configurations for work that Headwater does not do (replication, log cleaning, threads) are stored
  and listed without effect, because Kafka's tools set them.
- Topic configurations can be set on a broker without effect, as in Kafka. Some clients do it by
  mistake.
- All others are refused, as in Kafka for configurations that need a restart. Kafka also stores
  names that it does not know, for its plugins; Headwater has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.broker.network.connection_limits import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP
from headwater.errors import InvalidConfig, InvalidRequest
from headwater.topic_config.topic import BY_BROKER_NAME, TOPIC_CONFIGS, ConfigType, TopicConfig
from headwater.topic_config.values import (
    INT_MAX,
    LONG_MAX,
    NOT_A_NUMBER,
    Check,
    check_length,
    check_number,
    is_double,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfig:
    """One configuration; ``default`` is None if it can only be set at run time."""

    name: str
    type: ConfigType
    default: str | None
    check: Check
    doc: str


def _int(name: str, default: int) -> DynamicConfig:
    return DynamicConfig(
        name=name,
        type=ConfigType.INT,
        default=str(default),
        check=partial(check_number, low=1, high=INT_MAX),
        doc="Without effect: a broker is one event loop.",
    )


def _connections(name: str, doc: str) -> DynamicConfig:
    return DynamicConfig(
        name=name,
        type=ConfigType.INT,
        default=str(INT_MAX),
        check=partial(check_number, low=0, high=INT_MAX),
        doc=doc,
    )


def _rate(name: str) -> DynamicConfig:
    return DynamicConfig(
        name=name,
        type=ConfigType.LONG,
        default=None,
        check=partial(check_number, low=0, high=LONG_MAX),
        doc="Without effect: there are no replicas to copy.",
    )


def _cleaner(
    name: str, default: str, check: Check, type_: ConfigType = ConfigType.INT
) -> DynamicConfig:
    return DynamicConfig(
        name=name,
        type=type_,
        default=default,
        check=check,
        doc="Without effect: there are no segments on a disk; the pipeline compacts.",
    )


def _of_topics(config: TopicConfig) -> DynamicConfig:
    where = f"set {config.broker_name} for" if config.broker_name else "set it on"
    return DynamicConfig(
        name=config.name,
        type=ConfigType.UNKNOWN,
        default=None,
        check=lambda _: None,
        doc=f"Without effect on a broker, as in Kafka: {where} topics.",
    )


_SIZE: Final = partial(check_number, low=0, high=INT_MAX)
_LONG: Final = partial(check_number, low=0, high=LONG_MAX)

DYNAMIC_CONFIGS: Final[Mapping[str, DynamicConfig]] = {
    **{
        name: _of_topics(config)
        for name, config in TOPIC_CONFIGS.items()
        if not name.startswith("headwater.")
    },
    **{
        name: DynamicConfig(
            name=name,
            type=config.type,
            default=config.default,
            check=config.check,
            doc=config.doc,
        )
        for name, config in BY_BROKER_NAME.items()
    },
    **{
        config.name: config
        for config in (
            _int("background.threads", 10),
            _connections(MAX_CONNECTIONS, "Most connections at one time; further ones wait."),
            _connections(MAX_CONNECTIONS_PER_IP, "Most connections from one address."),
            _int("num.io.threads", 8),
            _int("num.network.threads", 3),
            _int("num.recovery.threads.per.data.dir", 2),
            _int("num.replica.fetchers", 1),
            _cleaner("log.cleaner.backoff.ms", "15000", _LONG, ConfigType.LONG),
            _cleaner("log.cleaner.dedupe.buffer.size", "134217728", _LONG, ConfigType.LONG),
            _cleaner("log.cleaner.io.buffer.load.factor", "0.9", is_double, ConfigType.DOUBLE),
            _cleaner("log.cleaner.io.buffer.size", "524288", _SIZE),
            _cleaner(
                "log.cleaner.io.max.bytes.per.second",
                "1.7976931348623157E308",
                is_double,
                ConfigType.DOUBLE,
            ),
            _cleaner("log.cleaner.threads", "1", _SIZE),
            _rate("follower.replication.throttled.rate"),
            _rate("leader.replication.throttled.rate"),
            _rate("replica.alter.log.dirs.io.max.bytes.per.second"),
        )
    },
}
"""Every configuration that can be set at run time, on one broker or on all."""


def check_broker_configs(configs: Mapping[str, str]) -> None:
    """Raises ``InvalidRequest``, as Kafka does for brokers."""
    fixed = [name for name in configs if name not in DYNAMIC_CONFIGS]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, value in configs.items():
        config = DYNAMIC_CONFIGS[name]
        try:
            check_length(value)
            config.check(value)
        except ValueError as error:
            reason = str(error)
            if reason == NOT_A_NUMBER:
                reason = f"Not a number of type {config.type.name}"
            raise InvalidRequest(
                f"Invalid value {value} for configuration {name}: {reason}"
            ) from None


def broker_list(configs: Mapping[str, str], name: str, operation: str) -> str:
    """The list before a list operation. Raises ``InvalidConfig`` if it is not a list."""
    config = DYNAMIC_CONFIGS.get(name)
    if config is None or config.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Config value {operation.lower()} is not allowed for config key: {name}"
        )
    return configs.get(name, config.default or "")
