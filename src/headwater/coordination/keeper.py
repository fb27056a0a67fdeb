"""Holding shards: taking leases, loading entries, leaving, and handing over.

A shard is held from the moment that its lease is written and its entries are loaded until it is
left: because the session ran out, a write was refused, or its lease is handed to the broker that
should have it. A broker that has come since gets its share by such hand-overs, slowly.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, Generic

from headwater.coordination.leases import Leases, Members
from headwater.coordination.shards import E, Shard, ShardKind, again
from headwater.coordination.writer import WriteMetrics, Writer
from headwater.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    SessionLost,
    StoreError,
)
from headwater.meta.store import MetadataStore

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 10.0
"""How long another broker must have been the better choice before a shard is handed to it."""
PATIENCE: Final = 5.0
RELOAD_SECONDS: Final = 5.0


class Keeper(Generic[E]):
    """The shards of one kind that this broker holds. ``load`` reads a shard's entries.

    ``margin`` is how long before the session's certain end answers from memory stop.
    """

    def __init__(
        self,
        meta: MetadataStore,
        members: Members,
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
        self.leases = Leases(meta, members, kind, incarnation)
        self.writer = Writer(
            meta, kind.noun, metrics, leave=self.leave, renew=self.leases.next_value
        )
        self._shards: list[Shard[E] | None] = [None] * kind.count
        self._opening: dict[int, asyncio.Future[KafkaError | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()
        self._misplaced_since: dict[int, float] = {}
        self._releasing: set[int] = set()
        self._retry_at: dict[int, float] = {}
        """When shards that could not be loaded are tried again without being asked for."""
        self._closing = False
        members.listen(self._look.set)

    def held(self, name: str) -> Shard[E] | None:
        """The shard of an entry, where requests may be answered from it at this moment."""
        shard = self._shards[self._kind.shard_of(name)]
        if shard is None or self._closing or not self.vouched(shard):
            return None
        return shard

    def vouched(self, shard: Shard[E]) -> bool:
        """Nobody else can have the shard's lease yet."""
        return not shard.left and shard.session.remaining > self._margin

    def shards(self) -> Iterator[Shard[E]]:
        return (shard for shard in self._shards if shard is not None)

    def coordinator(self, name: str) -> int:
        """The broker that clients are sent to."""
        number = self._kind.shard_of(name)
        holder = self.leases.holder(number)
        if holder is not None and self._members.lives(holder):
            return holder
        return self._members.chosen(number)

    async def obtain(self, number: int) -> Shard[E]:
        """Take and load a shard that is not held, or wait while that is under way.

        Raises ``NotCoordinator`` where it is another broker's, ``CoordinatorNotAvailable``
        where the store does not answer in time.
        """
        if self._closing:
            raise NotCoordinator("this broker is stopping")
        shard = self._shards[number]
        if shard is not None and not self._drop_if_lost(shard):
            if self.vouched(shard):
                return shard
            raise NotCoordinator("this broker's lease is about to run out")
        opening = self._opening.get(number)
        if opening is None:
            if not self._mine(number):
                raise NotCoordinator(f"another broker coordinates this {self._kind.noun}")
            self._open([number])
            opening = self._opening[number]
        try:
            async with asyncio.timeout(PATIENCE):
                error = await asyncio.shield(opening)
        except TimeoutError:
            raise CoordinatorNotAvailable(f"{self._kind.noun}s are being loaded") from None
        if error is not None:
            raise again(error)
        shard = self._shards[number]
        if shard is None or not self.vouched(shard):
            raise NotCoordinator("this broker's lease ran out")
        return shard

    async def obtain_all(self) -> list[Shard[E]]:
        """Every shard that is this broker's or should be."""
        held = []
        for number in range(self._kind.count):
            if self._shards[number] is not None or number in self._opening or self._mine(number):
                with suppress(NotCoordinator):
                    held.append(await self.obtain(number))
        return held

    def leave(self, shard: Shard[E], error: KafkaError) -> None:
        """Stop answering for a shard; what waits for it gets the error."""
        if shard.left:
            return
        shard.leave(error)
        self.writer.discard(shard, error)
        if self._shards[shard.number] is shard:
            self._shards[shard.number] = None
        self._look.set()

    async def run(self) -> None:
        """Follow the leases, take what should be this broker's, hand over what should not."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.leases.follow(self._lease_changed))
            tasks.create_task(self._look_after())

    async def close(self) -> None:
        """Let writes end, then give all leases back so that others go on at once."""
        self._closing = True
        error = NotCoordinator("this broker is stopping")
        held = list(self.shards())
        for shard in held:
            shard.refuse(error)
        await self.writer.close()
        for shard in held:
            self.leave(shard, error)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if held:
            try:
                async with asyncio.timeout(PATIENCE):
                    await self.leases.release(held)
            except (StoreError, TimeoutError) as reason:
                logger.warning("leases of %ss run out by themselves: %s", self._kind.noun, reason)

    def _mine(self, number: int) -> bool:
        if number in self._releasing or not self.leases.free(number):
            return False
        node = self._members.node_id
        # A lease that is ours without a shard is what an attempt with a lost answer left.
        return self._members.chosen(number) == node or self.leases.holder(number) == node

    def _drop_if_lost(self, shard: Shard[E]) -> bool:
        if shard.session.lost:
            self.leave(shard, NotCoordinator("this broker's session has ended"))
        return shard.left

    def _lease_changed(self, number: int, value: bytes | None, revision: int) -> None:
        shard = self._shards[number]
        # The watch may tell of a renewal before its own answer comes: the shard knows the value.
        if shard is not None and revision > shard.revision and value not in shard.leases:
            self.leave(shard, NotCoordinator(f"this {self._kind.noun}'s lease is gone"))
        self._look.set()

    async def _look_after(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look.wait()
            self._look.clear()
            for shard in list(self.shards()):
                self._drop_if_lost(shard)
            if self.leases.followed and self._registered() and not self._closing:
                wanted = [number for number in range(self._kind.count) if self._wanted(number)]
                if wanted:
                    self._open(wanted)
                    await asyncio.wait(self._tasks)
                await self._hand_over()

    def _registered(self) -> bool:
        session = self._members.session
        return session is not None and not session.lost

    def _wanted(self, number: int) -> bool:
        if self._shards[number] is not None or number in self._opening:
            return False
        # Taking a lease is news of it, which asks for another look at once.
        return self._loop.time() >= self._retry_at.get(number, 0.0) and self._mine(number)

    def _open(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._opening[number] = self._loop.create_future()
        task = asyncio.create_task(self._take(numbers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, numbers: Collection[int]) -> None:
        noun = self._kind.noun
        error: KafkaError = CoordinatorNotAvailable(f"{noun}s could not be loaded")
        try:
            session = self._members.session
            if session is None:
                error = NotCoordinator("this broker is not registered")
                return
            for shard in await self.leases.acquire(numbers, session):
                self._opened(shard.number, await self._filled(shard))
            error = NotCoordinator(f"another broker coordinates this {noun}")
        except SessionLost:
            error = NotCoordinator("this broker's session has ended")
        except CoordinatorNotAvailable as reason:
            error = reason
        except StoreError as reason:
            error = CoordinatorNotAvailable(f"cannot take a lease: {reason}")
        finally:
            for number in numbers:
                self._opened(number, error)

    async def _filled(self, shard: Shard[E]) -> KafkaError | None:
        """Load a shard's entries; why not, where that failed. The next request tries again."""
        noun = self._kind.noun
        try:
            await self._load(shard)
        except StoreError as reason:
            logger.warning("%ss of shard %d cannot be loaded: %s", noun, shard.number, reason)
            self._retry_at[shard.number] = self._loop.time() + RELOAD_SECONDS
            return CoordinatorNotAvailable(f"{noun}s cannot be loaded: {reason}")
        except Exception as reason:  # one shard must not keep the others away
            logger.exception("%ss of shard %d cannot be loaded", noun, shard.number)
            self._retry_at[shard.number] = self._loop.time() + RELOAD_SECONDS
            return CoordinatorNotAvailable(f"{noun}s cannot be loaded: {reason!r}")
        self._retry_at.pop(shard.number, None)
        self._shards[shard.number] = shard
        return None

    def _opened(self, number: int, error: KafkaError | None) -> None:
        opening = self._opening.pop(number, None)
        if opening is not None:
            opening.set_result(error)

    async def _hand_over(self) -> None:
        """Give shards to the brokers that should have them.

        Those without entries go at once and together; of the others one at a time, when it has
        been clear for a while who should have them.
        """
        now, node = self._loop.time(), self._members.node_id
        idle: list[Shard[E]] = []
        due: list[Shard[E]] = []
        for shard in self.shards():
            if self._members.chosen(shard.number) == node:
                self._misplaced_since.pop(shard.number, None)
            elif not shard.entries:
                idle.append(shard)
            elif now - self._misplaced_since.setdefault(shard.number, now) >= SETTLE_SECONDS:
                due.append(shard)
        await self._give_away(idle + due[:1])

    async def hand_over_now(self) -> None:
        """Give away every shard that another broker should have: this one lets its clients go."""
        node = self._members.node_id
        await self._give_away(
            [shard for shard in self.shards() if self._members.chosen(shard.number) != node]
        )

    async def _give_away(self, moving: Collection[Shard[E]]) -> None:
        if not moving:
            return
        self._releasing = {shard.number for shard in moving}
        for shard in moving:
            self._misplaced_since.pop(shard.number, None)
            self.leave(shard, NotCoordinator(f"another broker takes this {self._kind.noun} over"))
        try:
            await self.leases.release(moving)
        except StoreError as reason:
            logger.warning("leases were not handed over: %s", reason)
        finally:
            self._releasing = set()
