"""Which of a broker's configurations can be changed while it runs, and to what.

They are those of Kafka that mean something here: the defaults of topics and the limits of
connections, which are honoured, and numbers that Kafka's tools set for work that nobody does here
(copying replicas, threads), which are kept and shown. Everything else is refused with Kafka's words
for what needs a restart, names that nobody knows among it: there is no plugin here that could read
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.broker.connection_limits import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP
from headwater.config_values import (
    INT_MAX,
    LONG_MAX,
    NOT_A_NUMBER,
    Check,
    check_length,
    check_number,
)
from headwater.errors import InvalidConfig, InvalidRequest
from headwater.topic_configs import BY_BROKER_NAME, ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfig:
    """One configuration; ``default`` is None where it can only be set dynamically."""

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


DYNAMIC_CONFIGS: Final[Mapping[str, DynamicConfig]] = {
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
            _connections(MAX_CONNECTIONS, "The most connections at one time; more have to wait."),
            _connections(MAX_CONNECTIONS_PER_IP, "The most connections from one address."),
            _int("num.io.threads", 8),
            _int("num.network.threads", 3),
            _int("num.recovery.threads.per.data.dir", 2),
            _int("num.replica.fetchers", 1),
            _rate("follower.replication.throttled.rate"),
            _rate("leader.replication.throttled.rate"),
            _rate("replica.alter.log.dirs.io.max.bytes.per.second"),
        )
    },
}
"""Every configuration that can be set on a running broker or for all of them."""


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
    """What a list operation starts from. Raises ``InvalidConfig`` where it is no list."""
    config = DYNAMIC_CONFIGS.get(name)
    if config is None or config.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Config value {operation.lower()} is not allowed for config key: {name}"
        )
    return configs.get(name, config.default or "")
