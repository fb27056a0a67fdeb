"""The values that a transaction reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.meta.oxia.keyspace import Head, StoredKey
from headwater.meta.store import Values


@dataclass(frozen=True, slots=True)
class HeadSnapshot:
    """An applied head, and the keys as they were while it was the head."""

    head: Head
    version: int
    records: Mapping[str, StoredKey]

    def select(self, keys: Iterable[str]) -> "HeadSnapshot":
        """This snapshot with only these keys."""
        return HeadSnapshot(self.head, self.version, {key: self.records[key] for key in keys})

    @property
    def values(self) -> Values:
        return {key: record.entry for key, record in self.records.items()}
