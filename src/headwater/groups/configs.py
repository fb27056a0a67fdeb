"""Configs of single groups, as in Kafka; they are stored in the metadata store.

``GroupConfigs`` is a broker's copy of them, which a watch keeps up to date. The coordinator reads
it at every heartbeat, so that a change takes effect with the members' next heartbeats.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from headwater.engine import ConfigChange
from headwater.errors import InvalidConfig
from headwater.groups.bounds import check_group_id
from headwater.groups.settings import GroupSettings
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import MetadataStore
from headwater.topic_config.stored import change_configs, stored_configs
from headwater.topic_config.values import trimmed, whole_number

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """One config, in milliseconds; ``broker_name`` is the broker config with its default.

    ``low`` and ``high`` are Kafka's limits. If the broker's default is outside of them, the limit
    is moved to the default.
    """

    name: str
    broker_name: str
    default: Callable[[GroupSettings], int]
    low: int
    high: int
    doc: str

    def check(self, text: str, settings: GroupSettings) -> None:
        """Raises ``InvalidConfig``."""
        try:
            value = whole_number(text)
        except ValueError:
            raise InvalidConfig(
                f"Invalid value {text} for configuration {self.name}: Not a number of type INT"
            ) from None
        default = self.default(settings)
        if value < min(self.low, default):
            raise InvalidConfig(
                f"{self.name} must be greater than or equal to {self._limit('min')}"
            )
        if value > max(self.high, default):
            raise InvalidConfig(f"{self.name} must be less than or equal to {self._limit('max')}")

    def _limit(self, which: str) -> str:
        return self.broker_name.replace("group.consumer.", f"group.consumer.{which}.")


GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config
    for config in (
        GroupConfig(
            name=HEARTBEAT_INTERVAL,
            broker_name="group.consumer.heartbeat.interval.ms",
            default=lambda settings: settings.consumer_heartbeat_interval_ms,
            low=5_000,
            high=15_000,
            doc="Interval between heartbeats of members of the new protocol.",
        ),
        GroupConfig(
            name=SESSION_TIMEOUT,
            broker_name="group.consumer.session.timeout.ms",
            default=lambda settings: settings.consumer_session_timeout_ms,
            low=45_000,
            high=60_000,
            doc="Time without a heartbeat after which a member of the new protocol is removed.",
        ),
    )
}
"""Every config by name. Kafka's configs of share and streams groups, which are not supported, and
of delayed assignments, which do not exist here, are unknown."""


def check_group_configs(configs: Mapping[str, str], settings: GroupSettings) -> None:
    """Raises ``InvalidConfig`` for an unknown name or a value that is not legal."""
    for name, value in configs.items():
        config = GROUP_CONFIGS.get(name)
        if config is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        config.check(value, settings)
    session, heartbeat = (_number(configs, name, settings) for name in _TIMES)
    if session <= heartbeat:
        raise InvalidConfig(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


_TIMES: Final = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)


def _number(configs: Mapping[str, str], name: str, settings: GroupSettings) -> int:
    text = configs.get(name)
    return GROUP_CONFIGS[name].default(settings) if text is None else int(trimmed(text))


class GroupConfigs:
    """The configs of all groups. Call ``load``, then keep ``run`` in a task."""

    def __init__(self, meta: MetadataStore, settings: GroupSettings) -> None:
        self._meta = meta
        self._settings = settings
        self._by_group: dict[str, Mapping[str, str]] = {}
        self._decoded: dict[str, tuple[bytes, str, Mapping[str, str]]] = {}
        self._mirror = Mirror(meta, keys.GROUP_CONFIGS, self._changed)
        self.load = self._mirror.load
        self.run = self._mirror.run
        self.refresh = self._mirror.refresh

    def session_timeout_ms(self, group: str) -> int:
        """Milliseconds without a heartbeat after which a member of a consumer group is removed."""
        return _number(self.of(group), SESSION_TIMEOUT, self._settings)

    def heartbeat_interval_ms(self, group: str) -> int:
        """Milliseconds between heartbeats of the members of a consumer group."""
        return _number(self.of(group), HEARTBEAT_INTERVAL, self._settings)

    def of(self, group: str) -> Mapping[str, str]:
        """The configs that are set for a group, without defaults."""
        return self._by_group.get(group, {})

    def groups(self) -> Sequence[str]:
        """The groups with configs of their own."""
        return sorted(self._by_group)

    async def change(self, group: str, change: ConfigChange, *, refresh: bool = True) -> None:
        """Change the configs of a group in the store. Raises what ``change`` raises.

        Other brokers follow by their watches. This broker uses the new configs on return, or with
        ``refresh=False`` when the caller has called ``refresh``.
        """
        check_group_id(group)
        await change_configs(self._meta, keys.group_configs(group), change)
        if refresh:
            await self.refresh()

    def _changed(self, values: Mapping[str, bytes]) -> None:
        known = self._decoded
        self._decoded = {
            name: old
            if (old := known.get(name)) is not None and old[0] == value
            else (value, unquote(name), stored_configs(value))
            for name, value in values.items()
        }
        self._by_group = {group: configs for _, group, configs in self._decoded.values()}
