"""Configurations as replies list them: value, source and synonyms."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from headwater.groups.configs import GROUP_CONFIGS
from headwater.groups.settings import GroupSettings
from headwater.topic_config.topic import DEFAULTS_ELSEWHERE, TOPIC_CONFIGS, ConfigType


class ConfigSource(IntEnum):
    """Kafka's numbers for the sources of a value."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One source that can give a configuration its value."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration with its effective value."""

    name: str
    value: str
    source: ConfigSource
    type: ConfigType
    read_only: bool
    synonyms: tuple[Synonym, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """Dynamic configurations: those of this broker, and those of all brokers."""

    own: Mapping[str, str]
    cluster: Mapping[str, str]

    def synonyms(self, name: str) -> Iterator[Synonym]:
        """The dynamic values of a configuration; the first one is effective."""
        if (value := self.own.get(name)) is not None:
            yield Synonym(name, value, ConfigSource.DYNAMIC_BROKER)
        if (value := self.cluster.get(name)) is not None:
            yield Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)

    def synonyms_with_default(
        self, name: str, default: str | None, static: str | None = None
    ) -> list[Synonym]:
        """The dynamic values, then the value at start, then the default.

        As in Kafka, the default of another configuration is listed only after a value that was
        set.
        """
        found = list(self.synonyms(name))
        if static is not None and static != default:
            found.append(Synonym(name, static, ConfigSource.STATIC_BROKER))
        if name not in DEFAULTS_ELSEWHERE:
            if default is not None:
                found.append(Synonym(name, default, ConfigSource.DEFAULT))
        elif found:
            found.append(Synonym(*DEFAULTS_ELSEWHERE[name], ConfigSource.DEFAULT))
        return found


def topic_entries(
    configs: Mapping[str, str], layers: BrokerLayers, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """A topic's configurations: all, or only ``names``. Unknown names are left out."""
    for config in TOPIC_CONFIGS.values():
        if names is not None and config.name not in names:
            continue
        synonyms = []
        if (value := configs.get(config.name)) is not None:
            synonyms.append(Synonym(config.name, value, ConfigSource.DYNAMIC_TOPIC))
        if config.broker_name is not None:
            synonyms += layers.synonyms_with_default(config.broker_name, config.default)
        yield ConfigEntry(
            config.name,
            synonyms[0].value if synonyms else config.default,
            synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            config.type,
            read_only=False,
            synonyms=tuple(synonyms),
            doc=config.doc,
        )


def group_entries(
    configs: Mapping[str, str], settings: GroupSettings, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """A group's configurations: all, or only ``names``."""
    for config in GROUP_CONFIGS.values():
        if names is not None and config.name not in names:
            continue
        default = str(config.default(settings))
        synonyms = [Synonym(config.broker_name, default, ConfigSource.DEFAULT)]
        if (value := configs.get(config.name)) is not None:
            synonyms.insert(0, Synonym(config.name, value, ConfigSource.DYNAMIC_GROUP))
        yield ConfigEntry(
            config.name,
            synonyms[0].value,
            synonyms[0].source,
            ConfigType.INT,
            read_only=False,
            synonyms=tuple(synonyms),
            doc=config.doc,
        )
