"""Which broker holds which shard: leases in the metadata store.

A lease is an ephemeral key, bound to its broker's session. Its value names the broker, the
broker's incarnation and a term. Every write for a shard compares the whole value inside its
transaction; this comparison, not the lease's existence, keeps two brokers from both succeeding.
So each acquisition needs a value of its own: a broker's term grows with every acquisition, and
each incarnation has its own name.

The view of the other brokers' leases is a cache that may lag. It tells where to send clients and
saves transactions that would be refused. It never gives a broker the right to write.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import count
from typing import Final, Generic, Protocol

from headwater.coordination.shards import E, Shard, ShardKind
from headwater.errors import CoordinatorNotAvailable, StoreError
from headwater.meta.store import CommitResult, MetadataStore, Session, Values, Writes, prefix_end
from headwater.meta.transactions import NO_ANSWER
from headwater.meta.values import Value, decode, encode
from headwater.retry import Backoff, retry

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
BACKOFF: Final = Backoff(first=0.1, longest=0.1, total=5.0)


class Lease(Value):
    """The value of a lease: which run of which broker holds the shard."""

    broker: int
    incarnation: str
    term: int


class CoordinatorLookup(Protocol):
    """The interface for FindCoordinator: which broker owns the shard of a key."""

    def coordinator(self, key: str) -> int:
        """The id of that broker: the known holder of the lease, or the rendezvous choice over the
        live brokers.
        """
        ...


class ClusterMembers(Protocol):
    """The information about the cluster's brokers that a ``ShardOwner`` needs."""

    @property
    def node_id(self) -> int:
        """This broker."""
        ...

    @property
    def session(self) -> Session | None:
        """The session of this broker's ephemeral keys; None until the broker has registered."""
        ...

    @property
    def exclusive(self) -> bool:
        """No other process with this broker's id can be alive."""
        ...

    def chosen(self, shard: int) -> int:
        """The live broker that should own the shard, by rendezvous hashing."""
        ...

    def lives(self, broker_id: int) -> bool: ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` when brokers join or leave, or when this broker has another session."""
        ...


class ShardLeases(Generic[E]):
    """The known leases of one kind of shards.

    ``incarnation`` names this run of this broker and no other.
    """

    def __init__(
        self, meta: MetadataStore, members: ClusterMembers, kind: ShardKind[E], incarnation: str
    ) -> None:
        self._meta = meta
        self._kind = kind
        self._members = members
        self._incarnation = incarnation
        self._terms = count(1)
        self._known: dict[int, tuple[Lease, int]] = {}
        self.loaded = False
        """The view has been read once."""

    def holder(self, shard: int) -> int | None:
        """The broker that holds a shard; None if no broker is known to."""
        known = self._known.get(shard)
        return None if known is None else known[0].broker

    def is_available(self, shard: int) -> bool:
        """No other broker is known to hold it, so that taking it is worth a transaction."""
        known = self._known.get(shard)
        return known is None or self._may_replace(known[0])

    def next_value(self) -> bytes:
        """A lease of this broker that differs from every other, past and future."""
        lease = Lease(
            broker=self._members.node_id, incarnation=self._incarnation, term=next(self._terms)
        )
        return encode(lease)

    async def acquire(self, shards: Collection[int], session: Session) -> list[Shard[E]]:
        """Take those of the shards that no other broker holds; returns the ones taken.

        Writes under an earlier lease of this broker are void from then on. Raises
        ``CoordinatorNotAvailable`` if the store does not answer, ``SessionLost`` if the session
        has ended.
        """

        async def attempt() -> tuple[bytes, CommitResult[list[str]]]:
            value = self.next_value()  # an earlier attempt may still be committed
            return value, await self._put(shards, value, session)

        pauses = BACKOFF.pauses(now=asyncio.get_running_loop().time)
        try:
            value, committed = await retry(attempt, on=NO_ANSWER, pauses=pauses)
        except NO_ANSWER as error:
            raise CoordinatorNotAvailable(f"could not take a lease: {error}") from error
        taken = [self._kind.shard_of_lease(key) for key in committed.result]
        lease = decode(Lease, value)
        for number in taken:
            self._record(number, lease, committed.revision)
        return [Shard(self._kind, number, value, committed.revision, session) for number in taken]

    async def _put(
        self, shards: Collection[int], value: bytes, session: Session
    ) -> CommitResult[list[str]]:
        wanted = [self._kind.lease_key(shard) for shard in sorted(shards)]

        def decide(values: Values) -> tuple[Writes, list[str]]:
            writes = Writes()
            for key in wanted:
                there = values[key]
                if there is None or self._may_replace(decode(Lease, there.value)):
                    writes.put(key, value, session=session.id)
            return writes, list(writes.puts)

        return await self._meta.transact(0, wanted, decide)

    async def release(self, shards: Collection[Shard[E]]) -> None:
        """Delete the leases of these shards that this broker still holds."""
        held = {shard.lease_key: shard for shard in shards}

        def decide(values: Values) -> tuple[Writes, list[int]]:
            writes, free = Writes(), []
            for key, shard in held.items():
                there = values[key]
                if there is not None:
                    # The writer may have renewed it since, with another value of the same shard.
                    if there.value not in shard.leases:
                        continue
                    writes.delete(key)
                free.append(shard.number)
            return writes, free

        committed = await self._meta.transact(0, list(held), decide)
        for number in committed.result:
            self._forget(number, committed.revision)

    async def follow(self, changed: Callable[[int, bytes | None, int], None]) -> None:
        """Keep the view up to date; calls ``changed`` with each shard's new value."""
        prefix, number_of = self._kind.lease_prefix, self._kind.shard_of_lease
        while True:
            try:
                found = await self._meta.scan(prefix, prefix_end(prefix))
                there = {number_of(entry.key): entry for entry in found.entries}
                for number in range(self._kind.count):
                    entry = there.get(number)
                    value = None if entry is None else entry.value
                    self._apply_change(number, value, found.revision, changed)
                self.loaded = True
                async for changes in self._meta.watch(prefix, found.revision):
                    for change in changes:
                        number = number_of(change.key)
                        self._apply_change(number, change.value, change.revision, changed)
            except StoreError as error:
                logger.warning(
                    "Could not watch leases", extra={"kind": self._kind.noun, "error": error}
                )
                await asyncio.sleep(RETRY_SECONDS)

    def _apply_change(
        self,
        number: int,
        value: bytes | None,
        revision: int,
        changed: Callable[[int, bytes | None, int], None],
    ) -> None:
        if value is None:
            self._forget(number, revision)
        else:
            self._record(number, decode(Lease, value), revision)
        changed(number, value, revision)

    def _record(self, number: int, lease: Lease, revision: int) -> None:
        known = self._known.get(number)
        if known is None or known[1] <= revision:
            self._known[number] = (lease, revision)

    def _forget(self, number: int, revision: int) -> None:
        known = self._known.get(number)
        if known is not None and known[1] <= revision:
            del self._known[number]

    def _may_replace(self, lease: Lease) -> bool:
        """It is this broker's own, or that of a dead process of the same broker."""
        if lease.broker != self._members.node_id:
            return False
        return lease.incarnation == self._incarnation or self._members.exclusive
