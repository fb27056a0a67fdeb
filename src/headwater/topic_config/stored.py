"""Stored configurations: one record for each resource that has any."""

from collections.abc import Mapping

import msgspec

from headwater.engine import ConfigChange
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import Value, decode, encode


class ConfigRecord(Value):
    """The configurations of a resource, as text. A missing record means none."""

    configs: dict[str, str] = msgspec.field(default_factory=dict)


def stored_configs(value: bytes | None) -> Mapping[str, str]:
    """The configurations in a record."""
    return {} if value is None else decode(ConfigRecord, value).configs


async def change_configs(meta: MetadataStore, key: str, change: ConfigChange) -> None:
    """Change the configurations under ``key`` atomically.

    ``change`` may be applied to its own result again. Raises what it raises, and a ``KafkaError``
    if the store does not answer.
    """

    def decide(values: Values) -> tuple[Writes, None]:
        writes, there = Writes(), values[key]
        record = ConfigRecord() if there is None else decode(ConfigRecord, there.value)
        record.configs = dict(change(record.configs))
        if record.configs:
            writes.put(key, encode(record))
        elif there is not None:
            writes.delete(key)
        return writes, None

    await transact(meta, [key], decide)
