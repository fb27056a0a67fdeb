"""Draining: a broker sends its clients elsewhere, on request and before it stops.

A draining broker is left out of the Metadata replies of all brokers. It hands over its groups at
once. It answers data requests with NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR, so that clients look
up the new broker and send the request there; applications do not notice. Requests that it accepted
before are committed and answered. If no other broker serves, it continues to serve.
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

POLL_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 3.0
"""A draining broker without a data request for this long has no clients left."""
STOP_QUIET_SECONDS: Final = 0.3
"""The same before a stop. A client whose request comes later must find another broker by itself."""

DATA_APIS: Final = (
    "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup",
    "Heartbeat", "ConsumerGroupHeartbeat",
)  # fmt: skip


class DrainableMember(Protocol):
    """The part of ``Membership`` that draining needs."""

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
    """Drains this broker on request: keep ``run`` in a task, and call ``drain_before_stop``.

    ``hand_over`` hands groups to the brokers that should coordinate them. ``groups_held`` is the
    number of group shards that this broker still coordinates.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        members: DrainableMember,
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
        self._requested = False
        self._changed = asyncio.Event()
        self._mirror = Mirror(meta, keys.DRAINS, self._read_requests)

    async def run(self) -> None:
        """Follow the drain requests in the metadata store, until cancelled."""
        await self._delete_old_request()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._follow_requests())

    async def drain_before_stop(self, seconds: float) -> None:
        """Send clients elsewhere. Returns when none is left, or after ``seconds``.

        Returns at once if no other broker serves, for example when all brokers stop together.
        """
        if self._members.alone or not seconds:
            return
        try:
            async with asyncio.timeout(seconds):
                if self._members.state == SERVING:
                    await self._members.announce(DRAINING)
                await self._hand_over()
                await self._wait_until_quiet(STOP_QUIET_SECONDS)
        except TimeoutError:
            logger.warning(
                "Stopping before all clients have moved to other brokers",
                extra={"waited_seconds": seconds},
            )
        except StoreError as error:
            logger.warning("Stopping without draining", extra={"error": str(error)})

    def _read_requests(self, values: Mapping[str, bytes]) -> None:
        value = values.get(keys.drain(self._members.node_id).removeprefix(keys.DRAINS))
        # A request with an older epoch was for an earlier process of this broker.
        requested = (
            value is not None and decode(DrainRequest, value).epoch >= self._members.joined_epoch
        )
        if requested != self._requested:
            self._requested = requested
            self._changed.set()

    async def _follow_requests(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                if self._requested:
                    logger.info("Draining: clients are sent to other brokers")
                    await self._drain()
                elif self._members.state != SERVING:
                    logger.info("Serving again: the drain request was cancelled")
                    await self._members.announce(SERVING)
            except StoreError as error:
                logger.warning("Draining failed; retrying", extra={"error": str(error)})
                await asyncio.sleep(POLL_SECONDS)
                self._changed.set()

    async def _drain(self) -> None:
        """Drain, and publish the progress, until the request is cancelled."""
        loop = asyncio.get_running_loop()
        count, since = self._data_requests(), loop.time()
        await self._members.announce(DRAINING, active=True)
        while self._requested:
            if not self._members.alone:
                await self._hand_over()
            if (now := self._data_requests()) != count:
                count, since = now, loop.time()
            groups = self._groups_held()
            active = loop.time() - since < self._quiet_seconds
            done = not groups and not active and not self._members.alone
            state = DRAINED if done else DRAINING
            await self._members.announce(state, groups=groups, active=active)
            await asyncio.sleep(POLL_SECONDS)

    def _data_requests(self) -> int:
        """The number of data requests so far."""
        return sum(self._metrics.requests[api].value for api in DATA_APIS)

    async def _wait_until_quiet(self, seconds: float) -> None:
        """Return when no data request has arrived for ``seconds``."""
        count = -1
        while (now := self._data_requests()) != count and not self._members.alone:
            count = now
            await asyncio.sleep(seconds)

    async def _delete_old_request(self) -> None:
        """Delete a request that was for an earlier process of this broker."""
        key, joined = keys.drain(self._members.node_id), self._members.joined_epoch

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), values[key]
            if there is not None and decode(DrainRequest, there.value).epoch < joined:
                writes.delete(key)
            return writes, None

        try:
            await self._meta.transact(0, [key], decide)
        except StoreError as error:
            logger.warning("Could not remove the old drain request", extra={"error": str(error)})
