"""A group as an entry of its shard, and the shards that groups are in."""

import asyncio
from typing import Any, Final

from headwater.coordination.shards import Shard, ShardKind
from headwater.coordination.writes import ShardWrite, copy_of
from headwater.errors import KafkaError
from headwater.groups.machine import Machine, Ticket
from headwater.meta import keys
from headwater.meta.store import prefix_end

OFFSETS_MARK: Final = "+offsets"
"""A group's record that says that it has committed offsets; no machine may use such a name."""

TORN_MARK: Final = "+torn"
"""A group's record while changes of it that belong together are written in several transactions.

Who finds it has some of the changes and not the others; nobody was told of any.
"""


class Group:
    """One group of a held shard: its machine if it has one, and what is under way for it.

    A group without a machine only has offsets.
    """

    __slots__ = (
        "has_offsets",
        "last_write",
        "machine",
        "name",
        "offsets_prefix",
        "records",
        "records_prefix",
        "scheduled",
        "shard",
        "tickets",
    )

    def __init__(self, shard: "Shard[Group]", name: str) -> None:
        self.shard = shard
        self.name = name
        self.machine: Machine | None = None
        self.records: set[str] = set()
        """The names of the machine's records."""
        self.has_offsets = False
        self.records_prefix = keys.records_of_group(shard.number, name)
        self.offsets_prefix = keys.offsets_of_group(shard.number, name)
        self.tickets: dict[Ticket, asyncio.Future[Any]] = {}
        self.last_write: ShardWrite | None = None
        self.scheduled: float | None = None
        """The time of its alarm; only the timers write it."""

    @property
    def exists(self) -> bool:
        """A client may know of it."""
        return self.has_offsets or bool(self.records) or self.populated

    @property
    def populated(self) -> bool:
        return self.machine is not None and not self.machine.empty

    @property
    def deadline(self) -> float | None:
        """When the machine wants to be called next, on the loop's clock."""
        return None if self.machine is None else self.machine.deadline

    @property
    def is_empty(self) -> bool:
        """It has no records, no offsets and no waiting requests."""
        machine = self.machine
        return (
            not self.records
            and not self.has_offsets
            and not self.tickets
            and (self.last_write is None or self.last_write.done)
            and (machine is None or (machine.empty and machine.deadline is None))
        )

    def removal(self) -> ShardWrite:
        """What deletes the group with all that it has; requests to come find none."""
        prefixes = (self.records_prefix, self.offsets_prefix)
        self.machine = None
        self.records.clear()
        self.has_offsets = False
        self.last_write = ShardWrite(self.shard, {}, tuple((p, prefix_end(p)) for p in prefixes))
        return self.last_write

    def refuse(self, error: KafkaError) -> None:
        """Fail every request that waits for the machine."""
        tickets, self.tickets = self.tickets, {}
        for future in tickets.values():
            if not future.done():
                future.set_exception(copy_of(error))
                future.exception()  # the request itself may get the error in another way


GROUPS: Final = ShardKind(noun="group", lease_prefix=keys.COORDINATORS, count=64, make=Group)
"""The number of shards never changes: keys of groups contain their shard's number."""
