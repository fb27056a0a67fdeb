"""A group as an entry of its shard, and the shards that groups are in."""

import asyncio
from typing import Any, Final

from headwater.coordination.shards import Shard, ShardKind
from headwater.coordination.writes import ShardWrite, copy_of
from headwater.errors import KafkaError
from headwater.groups.machine import GroupMachine, Ticket
from headwater.meta import keys
from headwater.meta.store import prefix_end

OFFSETS_MARK: Final = "+offsets"
"""The name of a record that exists while the group has committed offsets; reserved."""

TORN_MARK: Final = "+torn"
"""The name of a record that exists while one change is written in several transactions.

If a coordinator loads this record, only a part of the change was written, and no client has
received the change.
"""


class Group:
    """One group of an owned shard: its machine, if it has one, and its waiting requests.

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
        self.machine: GroupMachine | None = None
        self.records: set[str] = set()
        """The names of the machine's records."""
        self.has_offsets = False
        self.records_prefix = keys.records_of_group(shard.number, name)
        self.offsets_prefix = keys.offsets_of_group(shard.number, name)
        self.tickets: dict[Ticket, asyncio.Future[Any]] = {}
        self.last_write: ShardWrite | None = None
        self.scheduled: float | None = None
        """The time of its alarm; only ``Timers`` writes it."""

    @property
    def exists(self) -> bool:
        """A client may have seen the group."""
        return self.has_offsets or bool(self.records) or self.populated

    @property
    def populated(self) -> bool:
        return self.machine is not None and not self.machine.empty

    @property
    def deadline(self) -> float | None:
        """When the machine's next timer is due, on the loop's clock."""
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
        """Make the group empty; returns the write that deletes all of its records and offsets."""
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
                future.exception()  # the request may get the error in another way


GROUPS: Final = ShardKind(noun="group", lease_prefix=keys.COORDINATORS, count=64, make=Group)
"""The number of shards never changes: keys of groups contain their shard's number."""
