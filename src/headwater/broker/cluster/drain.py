"""How a broker lets its clients go: when it is asked to drain, and before it stops.

A broker that drains leaves the Metadata answers of all brokers. It hands its groups over at once,
and answers those who still ask it for data with "not leader" and "not coordinator", which clients
take as a reason to ask who is and to send again there; applications see nothing of it. What it
has taken in before is committed and answered. Where no other broker serves, it serves on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from headwater.broker.cluster.registration import DRAINED, DRAINING, SERVING, DrainRequest
from headwater.errors import StoreError
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.values import decode
from headwater.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 3.0
"""A broker that nobody asked for data for so long has no clients left."""
STOP_QUIET_SECONDS: Final = 0.3
"""The same before it stops: clients that come later find their way by themselves."""

DATA_APIS: Final = (
    "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup",
    "Heartbeat", "ConsumerGroupHeartbeat",
)  # fmt: skip


class Draining(Protocol):
    """What is drained: this broker's membership."""

    @property
    def node_id(self) -> int: ...

    @property
    def joined_epoch(self) -> int: ...

    @property
    def state(self) -> str: ...

    @property
    def alone(self) -> bool: ...

    async def announce(self, state: str, *, groups: int = 0, active: bool = False) -> None: ...


class Drainer:
    """Follows requests to drain this broker: keep ``run`` in a task; ``let_go`` before a stop.

    ``hand_over`` gives the groups that others should have to them, ``groups_held`` counts those
    that are left.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        members: Draining,
        metrics: Metrics,
        hand_over: Callable[[], Awaitable[None]],
        groups_held: Callable[[], int],
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self._meta = meta
        self._members = members
        self._metrics = metrics
        self._hand_over = hand_over
        self._groups_held = groups_held
        self._quiet_seconds = quiet_seconds
        self._wanted = False
        self._changed = asyncio.Event()
        self._mirror = Mirror(meta, keys.DRAINS, self._requests)

    async def run(self) -> None:
        """Do as the requests in the store say, until cancelled."""
        await self._forget_old_request()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._obey())

    async def let_go(self, seconds: float) -> None:
        """Send clients elsewhere and return when they have gone, or after ``seconds``.

        At once where no other broker could serve them, as when all stop together.
        """
        if self._members.alone or not seconds:
            return
        try:
            async with asyncio.timeout(seconds):
                if self._members.state == SERVING:
                    await self._members.announce(DRAINING)
                await self._hand_over()
                await self._quiet(STOP_QUIET_SECONDS)
        except TimeoutError:
            logger.warning("clients have not all moved in %s s; stopping all the same", seconds)
        except StoreError as error:
            logger.warning("clients are not sent elsewhere before the stop: %s", error)

    def _requests(self, values: Mapping[str, bytes]) -> None:
        value = values.get(keys.drain(self._members.node_id).removeprefix(keys.DRAINS))
        # One that an earlier process of this broker was given does not mean this one.
        wanted = (
            value is not None and decode(DrainRequest, value).epoch >= self._members.joined_epoch
        )
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def _obey(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                if self._wanted:
                    logger.info("asked to drain: clients are sent to other brokers")
                    await self._drain()
                elif self._members.state != SERVING:
                    logger.info("serving again")
                    await self._members.announce(SERVING)
            except StoreError as error:
                logger.warning("draining goes on later: %s", error)
                await asyncio.sleep(LOOK_SECONDS)
                self._changed.set()

    async def _drain(self) -> None:
        """Drain, and say how far it is, until the request is taken back."""
        loop = asyncio.get_running_loop()
        count, since = self._asked_for_data(), loop.time()
        await self._members.announce(DRAINING, active=True)
        while self._wanted:
            if not self._members.alone:
                await self._hand_over()
            if (now := self._asked_for_data()) != count:
                count, since = now, loop.time()
            groups = self._groups_held()
            active = loop.time() - since < self._quiet_seconds
            done = not groups and not active and not self._members.alone
            state = DRAINED if done else DRAINING
            await self._members.announce(state, groups=groups, active=active)
            await asyncio.sleep(LOOK_SECONDS)

    def _asked_for_data(self) -> int:
        return sum(self._metrics.requests[api].value for api in DATA_APIS)

    async def _quiet(self, seconds: float) -> None:
        count = -1
        while (now := self._asked_for_data()) != count and not self._members.alone:
            count = now
            await asyncio.sleep(seconds)

    async def _forget_old_request(self) -> None:
        """A request to the process before this one is done with."""
        key, joined = keys.drain(self._members.node_id), self._members.joined_epoch

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), values[key]
            if there is not None and decode(DrainRequest, there.value).epoch < joined:
                writes.delete(key)
            return writes, None

        try:
            await self._meta.transact(0, [key], decide)
        except StoreError as error:
            logger.warning("an old request to drain stays: %s", error)
