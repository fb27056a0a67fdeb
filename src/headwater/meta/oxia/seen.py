"""What a commit begins with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.meta.oxia.layout import Head, Record
from headwater.meta.store import Values


@dataclass(frozen=True, slots=True)
class Seen:
    """A head whose commit is applied, and keys as they were while it stood."""

    head: Head
    version: int
    records: Mapping[str, Record]

    def of(self, keys: Iterable[str]) -> "Seen":
        """The same with some of its keys."""
        return Seen(self.head, self.version, {key: self.records[key] for key in keys})

    @property
    def values(self) -> Values:
        return {key: record.entry for key, record in self.records.items()}
