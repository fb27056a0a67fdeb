"""A cache of the keys that this process read or wrote last, which saves transactions a read.

A wrong entry does no harm: a transaction compares every key that it read, and if a key has
changed, etcd refuses the transaction and answers with the current values. The cache saves one
call per commit, because a broker often writes the same keys again that no other broker writes.
"""

from collections.abc import Sequence

from cachetools import LRUCache

from headwater.meta.store import Entry, Values, Writes

MAX_KEYS = 4_096
MAX_VALUE_BYTES = 16 * 1024


class RecentKeys:
    """The last known entries of up to ``MAX_KEYS`` keys; None for a key that is absent."""

    def __init__(self) -> None:
        self._entries: LRUCache[str, Entry | None] = LRUCache(MAX_KEYS)

    def values(self, keys: Sequence[str]) -> Values | None:
        """The entries of all these keys; None if one of the keys is not in the cache."""
        if not all(key in self._entries for key in keys):
            return None
        return {key: self._entries[key] for key in keys}

    def note_read(self, values: Values) -> None:
        """Remember the result of a read."""
        for key, entry in values.items():
            self._remember(key, entry)

    def note_committed(self, values: Values, writes: Writes, revision: int) -> None:
        """Remember the writes of a transaction, to those keys that it also read."""
        for key in values:
            if key in writes.puts:
                self._remember(key, Entry(key, writes.puts[key], revision))
            elif key in writes.deletes:
                self._remember(key, None)

    def _remember(self, key: str, entry: Entry | None) -> None:
        if entry is not None and len(entry.value) > MAX_VALUE_BYTES:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry
