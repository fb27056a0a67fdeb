"""The owner of shards: it takes leases, loads entries, resigns and hands over.

A broker owns a shard from the moment at which the lease is written and the entries are loaded. It
resigns when its session has ended, when a write was refused, or to hand the shard over to the
broker that should own it. When a broker joins, it gets its share of the shards by such hand-overs,
one non-empty shard at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, Generic

from headwater.coordination.leases import ClusterMembers, ShardLeases
from headwater.coordination.shards import E, Shard, ShardKind
from headwater.coordination.writer import ShardWriter, WriteMetrics
from headwater.coordination.writes import copy_of
from headwater.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    SessionLost,
    StoreError,
)
from headwater.meta.store import MetadataStore

logger = logging.getLogger(__name__)

RECONCILE_SECONDS: Final = 1.0
HAND_OVER_SECONDS: Final = 10.0
"""Seconds for which another broker must be the choice for a shard before it is handed over."""
TIMEOUT_SECONDS: Final = 5.0
RELOAD_SECONDS: Final = 5.0
"""Seconds until a shard that could not be loaded is loaded again, unless a request needs it."""


class ShardOwner(Generic[E]):
    """The shards of one kind that this broker owns.

    ``load`` reads a shard's entries from the store. Answers from memory stop ``margin`` seconds
    before the broker's session can end.
    """

    def __init__(
        self,
        meta: MetadataStore,
        members: ClusterMembers,
        kind: ShardKind[E],
        *,
        metrics: WriteMetrics,
        incarnation: str,
        load: Callable[[Shard[E]], Awaitable[None]],
        margin: float,
    ) -> None:
        self._members = members
        self._kind = kind
        self._load = load
        self._margin = margin
        self._loop = asyncio.get_running_loop()
        self.leases = ShardLeases(meta, members, kind, incarnation)
        self.writer = ShardWriter(
            meta, kind.noun, metrics, resign=self.resign, next_lease=self.leases.next_value
        )
        self._shards: list[Shard[E] | None] = [None] * kind.count
        self._opening: dict[int, asyncio.Future[KafkaError | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._misplaced_since: dict[int, float] = {}
        self._releasing: set[int] = set()
        self._retry_at: dict[int, float] = {}
        """By shard that could not be loaded: when to load it again without a request for it."""
        self._closing = False
        members.listen(self._changed.set)

    def owned_shard(self, name: str) -> Shard[E] | None:
        """The shard of that entry, if this broker may answer from it at this moment."""
        shard = self._shards[self._kind.shard_of(name)]
        if shard is None or self._closing or not self.lease_is_valid(shard):
            return None
        return shard

    async def shard_for(self, name: str) -> Shard[E]:
        """The shard of that entry, taken and loaded if necessary; see ``obtain``.

        Raises ``CoordinatorLoading`` while the entry is being read again from the store.
        """
        shard = self.owned_shard(name) or await self.obtain(self._kind.shard_of(name))
        if name in shard.reloading:
            raise CoordinatorLoading(
                f"{self._kind.noun} {name} is being read again from the metadata store"
            )
        return shard

    def check_lease(self, shard: Shard[E]) -> None:
        """Raises ``NotCoordinator`` if another broker can hold the shard's lease."""
        if not self.lease_is_valid(shard):
            raise NotCoordinator("this broker's lease ran out before the answer")

    def lease_is_valid(self, shard: Shard[E]) -> bool:
        """No other broker can hold the shard's lease yet."""
        return not shard.resigned and shard.session.remaining > self._margin

    def shards(self) -> Iterator[Shard[E]]:
        return (shard for shard in self._shards if shard is not None)

    def coordinator(self, key: str) -> int:
        """The broker that clients are sent to; see ``CoordinatorLookup``."""
        number = self._kind.shard_of(key)
        holder = self.leases.holder(number)
        if holder is not None and self._members.lives(holder):
            return holder
        return self._members.chosen(number)

    async def obtain(self, number: int) -> Shard[E]:
        """Take and load a shard that this broker does not own, or wait for a load in progress.

        Raises ``NotCoordinator`` if another broker owns the shard, ``CoordinatorNotAvailable``
        if the store does not answer in time.
        """
        if self._closing:
            raise NotCoordinator("this broker is stopping")
        shard = self._shards[number]
        if shard is not None and not self._resign_if_session_lost(shard):
            if self.lease_is_valid(shard):
                return shard
            raise NotCoordinator("this broker's lease is about to run out")
        opening = self._opening.get(number)
        if opening is None:
            if not self.should_own(number):
                raise NotCoordinator(f"another broker coordinates this {self._kind.noun}")
            self._open([number])
            opening = self._opening[number]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                error = await asyncio.shield(opening)
        except TimeoutError:
            raise CoordinatorNotAvailable(f"{self._kind.noun}s are being loaded") from None
        if error is not None:
            raise copy_of(error)
        shard = self._shards[number]
        if shard is None or not self.lease_is_valid(shard):
            raise NotCoordinator("this broker's lease ran out")
        return shard

    async def obtain_all(self) -> list[Shard[E]]:
        """Every shard that this broker owns or should own."""
        owned = []
        for number in range(self._kind.count):
            here = self._shards[number] is not None or number in self._opening
            if here or self.should_own(number):
                with suppress(NotCoordinator):
                    owned.append(await self.obtain(number))
        return owned

    def resign(self, shard: Shard[E], error: KafkaError) -> None:
        """Stop answering for a shard; requests that wait for it fail with the error."""
        if shard.resigned:
            return
        shard.resign(error)
        self.writer.discard(shard, error)
        if self._shards[shard.number] is shard:
            self._shards[shard.number] = None
        self._changed.set()

    async def run(self) -> None:
        """Follow the leases, take the shards that this broker should own, hand over the others."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.leases.follow(self._lease_changed))
            tasks.create_task(self._reconcile())

    async def close(self) -> None:
        """Wait for writes, then release all leases so that other brokers continue at once."""
        self._closing = True
        error = NotCoordinator("this broker is stopping")
        owned = list(self.shards())
        for shard in owned:
            shard.refuse(error)
        await self.writer.close()
        for shard in owned:
            self.resign(shard, error)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if owned:
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await self.leases.release(owned)
            except (StoreError, TimeoutError) as reason:
                logger.warning(
                    "Could not release leases", extra={"kind": self._kind.noun, "error": reason}
                )

    def should_own(self, number: int) -> bool:
        """This broker is the choice for a shard, and no other broker is known to hold it."""
        if number in self._releasing or not self.leases.is_available(number):
            return False
        node = self._members.node_id
        # This broker holds the lease without a shard if the answer to taking it was lost.
        return self._members.chosen(number) == node or self.leases.holder(number) == node

    def _resign_if_session_lost(self, shard: Shard[E]) -> bool:
        if shard.session.lost:
            self.resign(shard, NotCoordinator("this broker's session has ended"))
        return shard.resigned

    def _lease_changed(self, number: int, value: bytes | None, revision: int) -> None:
        shard = self._shards[number]
        # The watch may report a renewal before the writer's answer: ``leases`` has the value.
        if shard is not None and revision > shard.lease_revision and value not in shard.leases:
            self.resign(shard, NotCoordinator(f"this {self._kind.noun}'s lease is gone"))
        self._changed.set()

    async def _reconcile(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RECONCILE_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            for shard in list(self.shards()):
                self._resign_if_session_lost(shard)
            if self.leases.loaded and self._registered() and not self._closing:
                wanted = [number for number in range(self._kind.count) if self._should_open(number)]
                if wanted:
                    self._open(wanted)
                    await asyncio.wait(self._tasks)
                await self._hand_over()

    def _registered(self) -> bool:
        session = self._members.session
        return session is not None and not session.lost

    def _should_open(self, number: int) -> bool:
        if self._shards[number] is not None or number in self._opening:
            return False
        # Taking a lease changes the leases, which wakes ``_reconcile`` again at once.
        return self._loop.time() >= self._retry_at.get(number, 0.0) and self.should_own(number)

    def _open(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._opening[number] = self._loop.create_future()
        task = asyncio.create_task(self._acquire(numbers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _acquire(self, numbers: Collection[int]) -> None:
        noun = self._kind.noun
        error: KafkaError = CoordinatorNotAvailable(f"{noun}s could not be loaded")
        try:
            session = self._members.session
            if session is None:
                error = NotCoordinator("this broker is not registered")
                return
            for shard in await self.leases.acquire(numbers, session):
                self._finish_opening(shard.number, await self._load_shard(shard))
            error = NotCoordinator(f"another broker coordinates this {noun}")
        except SessionLost:
            error = NotCoordinator("this broker's session has ended")
        except CoordinatorNotAvailable as reason:
            error = reason
        except StoreError as reason:
            error = CoordinatorNotAvailable(f"could not take a lease: {reason}")
        finally:
            for number in numbers:
                self._finish_opening(number, error)

    async def _load_shard(self, shard: Shard[E]) -> KafkaError | None:
        """Load a shard's entries; returns the error if that failed."""
        noun = self._kind.noun
        try:
            await self._load(shard)
        except StoreError as reason:
            logger.warning(
                "Could not load a shard",
                extra={"kind": noun, "shard": shard.number, "error": reason},
            )
            self._retry_at[shard.number] = self._loop.time() + RELOAD_SECONDS
            return CoordinatorNotAvailable(f"{noun}s could not be loaded: {reason}")
        except Exception as reason:  # one shard must not block the others
            logger.exception("Could not load a shard", extra={"kind": noun, "shard": shard.number})
            self._retry_at[shard.number] = self._loop.time() + RELOAD_SECONDS
            return CoordinatorNotAvailable(f"{noun}s could not be loaded: {reason!r}")
        self._retry_at.pop(shard.number, None)
        self._shards[shard.number] = shard
        return None

    def _finish_opening(self, number: int, error: KafkaError | None) -> None:
        opening = self._opening.pop(number, None)
        if opening is not None:
            opening.set_result(error)

    async def _hand_over(self) -> None:
        """Give shards to the brokers that should own them.

        Shards without entries move at once and together. The others move one at a time, after
        another broker has been the choice for ``HAND_OVER_SECONDS``.
        """
        now, node = self._loop.time(), self._members.node_id
        idle: list[Shard[E]] = []
        due: list[Shard[E]] = []
        for shard in self.shards():
            if self._members.chosen(shard.number) == node:
                self._misplaced_since.pop(shard.number, None)
            elif not shard.entries:
                idle.append(shard)
            elif now - self._misplaced_since.setdefault(shard.number, now) >= HAND_OVER_SECONDS:
                due.append(shard)
        await self._hand_over_shards(idle + due[:1])

    async def hand_over_now(self) -> None:
        """Hand over every shard that another broker should own: this broker drains."""
        node = self._members.node_id
        await self._hand_over_shards(
            [shard for shard in self.shards() if self._members.chosen(shard.number) != node]
        )

    async def _hand_over_shards(self, moving: Collection[Shard[E]]) -> None:
        if not moving:
            return
        self._releasing = {shard.number for shard in moving}
        for shard in moving:
            self._misplaced_since.pop(shard.number, None)
            self.resign(shard, NotCoordinator(f"another broker takes this {self._kind.noun} over"))
        try:
            await self.leases.release(moving)
        except StoreError as reason:
            logger.warning("Could not release leases to hand shards over", extra={"error": reason})
        finally:
            self._releasing = set()
