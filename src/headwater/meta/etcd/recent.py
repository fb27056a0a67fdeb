"""What this process last saw of keys, so that a transaction need not read them first.

Nothing rests on it being right: a transaction compares every key, and one that saw something old
loses and is given what is there. What it saves is a call per commit where a broker writes the
same keys again and again, and is mostly the only one who does.
"""

from collections import OrderedDict
from collections.abc import Sequence

from headwater.meta.store import Entry, Values, Writes

MOST_KEYS = 4_096
LARGEST_VALUE = 16 * 1024


class Recent:
    """The keys of the last transactions, within bounds."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry | None] = OrderedDict()

    def values(self, keys: Sequence[str]) -> Values | None:
        """What was seen of all these keys; None where of one of them nothing is known."""
        entries = self._entries
        if not all(key in entries for key in keys):
            return None
        return {key: entries[key] for key in keys}

    def saw(self, values: Values) -> None:
        """These were read."""
        for key, entry in values.items():
            self._keep(key, entry)

    def wrote(self, values: Values, writes: Writes, revision: int) -> None:
        """The keys that a transaction read are what it wrote, if it wrote them."""
        for key in values:
            if key in writes.puts:
                self._keep(key, Entry(key, writes.puts[key], revision))
            elif key in writes.deletes:
                self._keep(key, None)

    def _keep(self, key: str, entry: Entry | None) -> None:
        self._entries.pop(key, None)
        if entry is not None and len(entry.value) > LARGEST_VALUE:
            return
        self._entries[key] = entry
        if len(self._entries) > MOST_KEYS:
            self._entries.popitem(last=False)
