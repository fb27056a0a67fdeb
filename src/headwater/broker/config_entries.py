"""Configurations as clients are shown them: value, where it comes from, what else it is called."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from headwater.topic_configs import TOPIC_CONFIGS, ConfigType


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place that could give a configuration its value."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration with what holds for it."""

    name: str
    value: str
    source: ConfigSource
    type: ConfigType
    read_only: bool
    synonyms: tuple[Synonym, ...]
    doc: str


def topic_entries(
    configs: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """A topic's configurations, all or those named; names that are not known are left out."""
    for config in TOPIC_CONFIGS.values():
        if names is not None and config.name not in names:
            continue
        synonyms = []
        if (value := configs.get(config.name)) is not None:
            synonyms.append(Synonym(config.name, value, ConfigSource.DYNAMIC_TOPIC))
        if config.broker_name is not None:
            synonyms.append(Synonym(config.broker_name, config.default, ConfigSource.DEFAULT))
        yield ConfigEntry(
            config.name,
            config.default if value is None else value,
            ConfigSource.DEFAULT if value is None else ConfigSource.DYNAMIC_TOPIC,
            config.type,
            read_only=False,
            synonyms=tuple(synonyms),
            doc=config.doc,
        )
