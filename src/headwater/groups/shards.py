"""What a coordinator keeps in memory: the shards that it holds, and the groups in them."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

from headwater.errors import KafkaError
from headwater.groups.machine import Machine, Ticket
from headwater.meta import keys
from headwater.meta.store import Session, prefix_end

SHARDS: Final = 64

OFFSETS_MARK: Final = "+offsets"
"""A group's record that says that it has committed offsets; no machine may use such a name."""

TORN_MARK: Final = "+torn"
"""A group's record while changes of it that belong together are written in several transactions.

Who finds it has some of the changes and not the others; nobody was told of any.
"""


def shard_of(name: str) -> int:
    """The shard of a group or transactional id.

    >>> shard_of("orders") == shard_of("orders")
    True
    """
    return crc32(name.encode()) % SHARDS


Waiting = tuple["asyncio.Future[Any]", Any]
"""A request that waits, and the answer that it gets once a write is durable."""


@dataclass(slots=True, eq=False)
class Write:
    """Changes of one shard that become durable together, and who waits for that.

    ``ranges`` are deleted before ``changes`` are made; None in ``changes`` deletes.
    """

    shard: "Shard"
    changes: dict[str, bytes | None]
    ranges: tuple[tuple[str, str], ...] = ()
    waiting: list[Waiting] = field(default_factory=list)
    done: bool = False
    size: int = 0
    """About how many bytes it has; the writer weighs it."""

    def succeed(self) -> None:
        self.done = True
        for future, answer in self.waiting:
            if not future.done():
                future.set_result(answer)

    def fail(self, error: KafkaError) -> None:
        self.done = True
        for future, _ in self.waiting:
            if not future.done():
                future.set_exception(again(error))


def again(error: KafkaError) -> KafkaError:
    """The same error for another request: one that is raised twice gathers tracebacks."""
    return type(error)(*error.args)


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

    def __init__(self, shard: "Shard", name: str) -> None:
        self.shard = shard
        self.name = name
        self.machine: Machine | None = None
        self.records: set[str] = set()
        """The names of the machine's records."""
        self.has_offsets = False
        self.records_prefix = keys.records_of_group(shard.number, name)
        self.offsets_prefix = keys.offsets_of_group(shard.number, name)
        self.tickets: dict[Ticket, asyncio.Future[Any]] = {}
        self.last_write: Write | None = None
        self.scheduled: float | None = None
        """The earliest time at which the timers will look at it."""

    @property
    def exists(self) -> bool:
        """A client may know of it."""
        return self.has_offsets or bool(self.records) or self.populated

    @property
    def populated(self) -> bool:
        return self.machine is not None and not self.machine.empty

    @property
    def forgettable(self) -> bool:
        """Nothing would be lost without it: no record, no offset, nobody who waits."""
        machine = self.machine
        return (
            not self.records
            and not self.has_offsets
            and not self.tickets
            and (self.last_write is None or self.last_write.done)
            and (machine is None or (machine.empty and machine.deadline is None))
        )

    def removal(self) -> Write:
        """What deletes the group with all that it has; requests to come find none."""
        prefixes = (self.records_prefix, self.offsets_prefix)
        self.machine = None
        self.records.clear()
        self.has_offsets = False
        self.last_write = Write(self.shard, {}, tuple((p, prefix_end(p)) for p in prefixes))
        return self.last_write

    def refuse(self, error: KafkaError) -> None:
        """Answer every request that waits for the machine with the error."""
        tickets, self.tickets = self.tickets, {}
        for future in tickets.values():
            if not future.done():
                future.set_exception(again(error))
                future.exception()  # the request itself may get the error in another way


class Shard:
    """A shard that this broker holds, from the moment that its groups are loaded.

    ``lease`` is what its key in the store has to hold, ``revision`` when it was written;
    ``leases`` are all that it may hold by writes whose answer was lost or is under way. A
    shard that was left is never used again: if its lease is taken again, that is another one.
    """

    __slots__ = (
        "committed_since", "groups", "lease", "leases", "left", "number", "reloading", "revision",
        "session", "written",
    )  # fmt: skip

    def __init__(self, number: int, lease: bytes, revision: int, session: Session) -> None:
        self.number = number
        self.lease = lease
        self.leases = {lease}
        self.revision = revision
        self.written = revision
        """Of this broker's last write: what is read from before that is out of date."""
        self.session = session
        self.groups: dict[str, Group] = {}
        self.reloading: set[str] = set()
        """Groups that are read again from the store, and not in ``groups`` until they are."""
        self.left = False
        self.committed_since: set[str] | None = None
        """While offsets are swept: the groups that committed since the sweep began."""

    def group(self, name: str) -> Group:
        """The group of that name, made where there is none."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(self, name)
        return group

    def forget(self, group: Group) -> None:
        if self.groups.get(group.name) is group:  # another of that name may have come since
            del self.groups[group.name]

    def leave(self, error: KafkaError) -> None:
        """Stop for good: every request that waits for a machine gets the error."""
        self.left = True
        for group in self.groups.values():
            group.refuse(error)
        self.groups.clear()
