"""Which broker coordinates which shard: leases in the metadata store.

A lease is an ephemeral key, bound to its broker's session, whose value names the broker, its
incarnation and a term. Whoever writes for a shard compares the whole value inside the
transaction; that, and not the lease's existence, keeps two brokers from both succeeding. So
the value has to be another one each time that a lease is taken: the term of a broker grows with
everything that it takes, and each incarnation has its own name.

The view of the other brokers' leases is a cache that may lag. It says where to send clients,
and saves transactions that would be refused; it gives nobody a right.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import count
from typing import Final, Generic, Protocol

from headwater.coordination.shards import E, Shard, ShardKind
from headwater.errors import CoordinatorNotAvailable, StoreError, StoreUnavailable, UnknownOutcome
from headwater.meta.store import Committed, MetadataStore, Session, Values, Writes, prefix_end
from headwater.meta.values import Value, decode, encode

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
PATIENCE: Final = 5.0


class Lease(Value):
    """Who holds a shard."""

    broker: int
    incarnation: str
    term: int


class Members(Protocol):
    """What a coordinator needs to know of the cluster's brokers."""

    @property
    def node_id(self) -> int:
        """This broker."""
        ...

    @property
    def session(self) -> Session | None:
        """What this broker's ephemeral keys are bound to; None until it has registered."""
        ...

    @property
    def exclusive(self) -> bool:
        """No other process with this broker's id can be alive."""
        ...

    def chosen(self, shard: int) -> int:
        """The rendezvous choice over the live brokers."""
        ...

    def lives(self, broker_id: int) -> bool: ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever brokers come or go, or this one's session is another."""
        ...


class Leases(Generic[E]):
    """The leases of one kind of shards as this broker knows them; takes and returns its own.

    ``incarnation`` names this run of this broker and nothing else.
    """

    def __init__(
        self, meta: MetadataStore, members: Members, kind: ShardKind[E], incarnation: str
    ) -> None:
        self._meta = meta
        self._kind = kind
        self._members = members
        self._incarnation = incarnation
        self._terms = count(1)
        self._seen: dict[int, tuple[Lease, int]] = {}
        self.followed = False
        """The view has been read once."""

    def holder(self, shard: int) -> int | None:
        """The broker that holds a shard, as far as is known; None where nobody does."""
        seen = self._seen.get(shard)
        return None if seen is None else seen[0].broker

    def free(self, shard: int) -> bool:
        """Nobody else is known to hold it, so that taking it is worth a transaction."""
        seen = self._seen.get(shard)
        return seen is None or self._may_replace(seen[0])

    def next_value(self) -> bytes:
        """A lease of this broker that no other was or will be the same as."""
        lease = Lease(
            broker=self._members.node_id, incarnation=self._incarnation, term=next(self._terms)
        )
        return encode(lease)

    async def acquire(self, shards: Collection[int], session: Session) -> list[Shard[E]]:
        """Take the shards that nobody else holds; whatever this broker wrote before is void.

        Raises ``CoordinatorNotAvailable`` where the store does not answer, ``SessionLost``
        where the session is over.
        """
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            value = self.next_value()  # an attempt before this one may land yet
            try:
                committed = await self._put(shards, value, session)
                break
            except (UnknownOutcome, StoreUnavailable) as error:
                if asyncio.get_running_loop().time() >= deadline:
                    raise CoordinatorNotAvailable(f"cannot take a lease: {error}") from error
                await asyncio.sleep(RETRY_SECONDS / 5)
        taken = [self._kind.shard_of_lease(key) for key in committed.result]
        lease = decode(Lease, value)
        for number in taken:
            self._see(number, lease, committed.revision)
        return [Shard(self._kind, number, value, committed.revision, session) for number in taken]

    async def _put(
        self, shards: Collection[int], value: bytes, session: Session
    ) -> Committed[list[str]]:
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
        """Give leases back, where they are still this broker's."""
        held = {shard.lease_key: shard for shard in shards}

        def decide(values: Values) -> tuple[Writes, list[int]]:
            writes, free = Writes(), []
            for key, shard in held.items():
                there = values[key]
                if there is not None:
                    # The writer may have renewed it since: by a value of this shard's all the same.
                    if there.value not in shard.leases:
                        continue
                    writes.delete(key)
                free.append(shard.number)
            return writes, free

        committed = await self._meta.transact(0, list(held), decide)
        for number in committed.result:
            self._unsee(number, committed.revision)

    async def follow(self, changed: Callable[[int, bytes | None, int], None]) -> None:
        """Keep the view up to date for ever; ``changed`` hears of each shard's new value."""
        prefix, number_of = self._kind.lease_prefix, self._kind.shard_of_lease
        while True:
            try:
                found = await self._meta.scan(prefix, prefix_end(prefix))
                there = {number_of(entry.key): entry for entry in found.entries}
                for number in range(self._kind.count):
                    entry = there.get(number)
                    value = None if entry is None else entry.value
                    self._note(number, value, found.revision, changed)
                self.followed = True
                async for changes in self._meta.watch(prefix, found.revision):
                    for change in changes:
                        number = number_of(change.key)
                        self._note(number, change.value, change.revision, changed)
            except StoreError as error:
                logger.warning("cannot follow the leases of %ss: %s", self._kind.noun, error)
                await asyncio.sleep(RETRY_SECONDS)

    def _note(
        self,
        number: int,
        value: bytes | None,
        revision: int,
        changed: Callable[[int, bytes | None, int], None],
    ) -> None:
        if value is None:
            self._unsee(number, revision)
        else:
            self._see(number, decode(Lease, value), revision)
        changed(number, value, revision)

    def _see(self, number: int, lease: Lease, revision: int) -> None:
        seen = self._seen.get(number)
        if seen is None or seen[1] <= revision:
            self._seen[number] = (lease, revision)

    def _unsee(self, number: int, revision: int) -> None:
        seen = self._seen.get(number)
        if seen is not None and seen[1] <= revision:
            del self._seen[number]

    def _may_replace(self, lease: Lease) -> bool:
        """It is this broker's own, or that of a dead process of the same broker."""
        if lease.broker != self._members.node_id:
            return False
        return lease.incarnation == self._incarnation or self._members.exclusive
