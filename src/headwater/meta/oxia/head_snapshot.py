"""What a commit begins with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.meta.oxia.keyspace import Head, StoredKey
from headwater.meta.store import Values


@dataclass(frozen=True, slots=True)
class HeadSnapshot:
    """A head whose commit is applied, and keys as they were while it stood."""

    head: Head
    version: int
    records: Mapping[str, StoredKey]

    def of(self, keys: Iterable[str]) -> "HeadSnapshot":
        """The same with some of its keys."""
        return HeadSnapshot(self.head, self.version, {key: self.records[key] for key in keys})

    @property
    def values(self) -> Values:
        return {key: record.entry for key, record in self.records.items()}
