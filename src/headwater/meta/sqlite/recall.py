"""What the writer knows without a look, right after commits of its own.

A key that was read, or that was written after it was read, stands as it is known here for as long
as nobody else commits. Whoever writes on the strength of it compares the store's revision in the
same statement, so it is either true or refused. Whoever writes nothing has to look.
"""

from collections.abc import Mapping, Sequence

from headwater.meta.store import Entry, Writes

ALONE = 16
"""After so many transactions with no other process's between them there may be none beside us."""
KEPT_KEYS = 4_096
KEPT_VALUE_BYTES = 4 * 1024


class Recall:
    """Keys as they are at ``revision``, if that is still the store's."""

    def __init__(self) -> None:
        self.revision = -1
        self._alone = 0
        self._known: dict[str, Entry | None] = {}

    def values(self, keys: Sequence[str]) -> dict[str, Entry | None] | None:
        """The keys at ``revision``; None where one is not known, or others commit too."""
        known = self._known
        if self._alone < ALONE or not all(key in known for key in keys):
            return None
        return {key: known[key] for key in keys}

    def looked(self, revision: int, values: Mapping[str, Entry | None]) -> None:
        """These were read at that revision."""
        if revision != self.revision:
            self.forget()
            self.revision = revision
        self._alone += 1
        if len(self._known) + len(values) > KEPT_KEYS:
            self._known.clear()
        if len(values) <= KEPT_KEYS:
            for key, entry in values.items():
                self._learn(key, entry)

    def wrote(self, revision: int, writes: Writes) -> None:
        """These were committed on top of ``revision`` and made it that one."""
        self.revision = revision
        if writes.range_deletes:
            self._known.clear()
        for key in writes.deletes:
            if key in self._known:
                self._known[key] = None
        for key, value in writes.puts.items():
            if key in self._known:
                self._learn(key, Entry(key, value, revision))

    def forget(self) -> None:
        """Others commit too, or nobody knows how a commit ended."""
        self.revision = -1
        self._alone = 0
        self._known.clear()

    def _learn(self, key: str, entry: Entry | None) -> None:
        if entry is None or len(entry.value) <= KEPT_VALUE_BYTES:
            self._known[key] = entry
        else:
            self._known.pop(key, None)
