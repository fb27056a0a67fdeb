"""Members of one group on the bare protocol, classic and of KIP-848, and when all are stable."""

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from bench.clients.wire import BenchConnection

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
CONSUMER_HEARTBEAT = 68
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER = 14, 15, 16, 25
REBALANCING, ILLEGAL_GENERATION, MEMBER_ID_REQUIRED = 27, 22, 79
TRY_AGAIN = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)

HEARTBEAT_SECONDS = 0.1
"""Shorter than clients' defaults, so that it is not what is measured."""
SESSION_MS = 60_000

Changed = Callable[[], None]


class MeasuredClassicMember:
    """Joins, and joins again whenever the group rebalances; the leader gives each its share."""

    def __init__(
        self, connection: BenchConnection, group: str, topic: str, partitions: int
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self.member_id = ""
        self.generation = -1
        self.size = 0
        """How many members the generation has, where this one is its leader."""

    async def run(self, changed: Changed) -> None:
        while True:
            await self.join()
            changed()
            await self._until_rebalance()

    async def join(self) -> None:
        """Join and sync until a generation has this member."""
        while True:
            joined = await self._connection.call(
                JOIN_GROUP, 9, group_id=self._group, session_timeout=SESSION_MS,
                rebalance_timeout=SESSION_MS, member_id=self.member_id, group_instance_id=None,
                protocol_type="consumer", reason=None,
                protocols=[{"name": "range", "metadata": subscription(self._topic)}],
            )  # fmt: skip
            error = int(joined.error_code)
            if error == MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
            elif error in TRY_AGAIN:
                await asyncio.sleep(HEARTBEAT_SECONDS)
            elif error:
                raise RuntimeError(f"JoinGroup was answered with error {error}")
            elif await self._sync(joined):
                return

    async def _sync(self, joined: Any) -> bool:
        self.member_id = joined.member_id
        members = [each.member_id for each in joined.members]
        synced = await self._connection.call(
            SYNC_GROUP, 5, group_id=self._group, generation_id=joined.generation_id,
            member_id=self.member_id, group_instance_id=None, protocol_type="consumer",
            protocol_name="range", assignments=self._shares(members),
        )  # fmt: skip
        error = int(synced.error_code)
        if error not in (0, REBALANCING, ILLEGAL_GENERATION, *TRY_AGAIN):
            raise RuntimeError(f"SyncGroup was answered with error {error}")
        if error == 0:
            self.generation, self.size = joined.generation_id, len(members)
        return error == 0

    def _shares(self, members: Sequence[str]) -> list[dict[str, object]]:
        return [
            {
                "member_id": member,
                "assignment": assignment(self._topic, range(place, self._partitions, len(members))),
            }
            for place, member in enumerate(members)
        ]

    async def _until_rebalance(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            answer = await self._connection.call(
                HEARTBEAT, 4, group_id=self._group, generation_id=self.generation,
                member_id=self.member_id, group_instance_id=None,
            )  # fmt: skip
            if int(answer.error_code) in (REBALANCING, ILLEGAL_GENERATION):
                return
            if int(answer.error_code) not in (0, *TRY_AGAIN):
                raise RuntimeError(f"Heartbeat was answered with error {answer.error_code}")

    async def leave(self) -> None:
        await self._connection.call(
            LEAVE_GROUP, 5, group_id=self._group,
            members=[{"member_id": self.member_id, "group_instance_id": None, "reason": None}],
        )  # fmt: skip


class MeasuredConsumerMember:
    """Takes and gives up what the coordinator says, and tells it so at once."""

    def __init__(
        self, connection: BenchConnection, group: str, topic: str, partitions: int
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._member_id = str(uuid4())
        self.epoch = 0
        self.owned: dict[UUID, tuple[int, ...]] = {}

    @property
    def places(self) -> set[tuple[UUID, int]]:
        return {(topic, each) for topic, some in self.owned.items() for each in some}

    async def run(self, changed: Changed) -> None:
        await self._heartbeat(
            self.epoch, rebalance_timeout=SESSION_MS, subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )  # fmt: skip
        changed()
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            while await self._heartbeat(self.epoch):
                await self._heartbeat(self.epoch, topic_partitions=self._owned())
                changed()
            changed()

    async def leave(self) -> None:
        await self._heartbeat(-1)

    def _owned(self) -> list[dict[str, object]]:
        return [
            {"topic_id": topic, "partitions": partitions}
            for topic, partitions in self.owned.items()
        ]

    async def _heartbeat(self, epoch: int, **fields: Any) -> bool:
        """Whether the answer changed what this member owns."""
        unchanged: dict[str, Any] = {
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "topic_partitions": None,
        }
        answer = await self._connection.call(
            CONSUMER_HEARTBEAT, 1, group_id=self._group, member_id=self._member_id,
            member_epoch=epoch, instance_id=None, rack_id=None, subscribed_topic_regex=None,
            server_assignor=None, **{**unchanged, **fields},
        )  # fmt: skip
        if int(answer.error_code) in TRY_AGAIN:
            return False
        if answer.error_code:
            raise RuntimeError(f"the heartbeat was answered with error {answer.error_code}")
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        given = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        changed = given != self.owned
        self.owned = given
        return changed


class MeasuredGroup:
    """Members of one kind in one group, and the time until all of them are stable."""

    def __init__(
        self, kind: type[MeasuredClassicMember] | type[MeasuredConsumerMember], partitions: int
    ) -> None:
        self._kind = kind
        self._partitions = partitions
        self._members: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stable = asyncio.Event()
        self._before: set[int] = set()

    async def join(self, connections: Sequence[BenchConnection], group: str, topic: str) -> float:
        """Seconds from the first request of all members at once until the group is stable."""
        self._members = [self._kind(each, group, topic, self._partitions) for each in connections]
        began = time.perf_counter()
        self._tasks = [asyncio.create_task(each.run(self._changed)) for each in self._members]
        return await self._settled(began)

    async def leave(self) -> float:
        """Seconds from one member's leaving until the others are stable without it."""
        task = self._tasks.pop()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._stable.clear()
        leaving = self._members.pop()
        if isinstance(leaving, MeasuredClassicMember):
            self._before = {leaving.generation}
        began = time.perf_counter()
        await leaving.leave()
        return await self._settled(began)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settled(self, began: float) -> float:
        stable = asyncio.create_task(self._stable.wait())
        await asyncio.wait([stable, *self._tasks], return_when="FIRST_COMPLETED", timeout=120)
        for task in self._tasks:
            if task.done():
                task.result()
        if not stable.done():
            stable.cancel()
            raise TimeoutError("the group is not stable after two minutes")
        return time.perf_counter() - began

    def _changed(self) -> None:
        settled = (
            self._same_generation()
            if self._kind is MeasuredClassicMember
            else self._all_is_owned_once()
        )
        if settled:
            self._stable.set()

    def _same_generation(self) -> bool:
        generations = {each.generation for each in self._members}
        return (
            len(generations) == 1
            and generations != self._before
            and max(each.size for each in self._members) == len(self._members)
        )

    def _all_is_owned_once(self) -> bool:
        owned = [place for each in self._members for place in each.places]
        return (
            len({each.epoch for each in self._members}) == 1
            and all(each.owned for each in self._members)
            and len(owned) == len(set(owned)) == self._partitions
        )


async def wait_for_coordinator(connection: BenchConnection, group: str) -> None:
    """Ask until there is one: Kafka makes its topic of offsets when it is first asked."""
    while True:
        answer = await connection.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
        if answer.coordinators[0].error_code == 0:
            return
        await asyncio.sleep(HEARTBEAT_SECONDS)


def subscription(topic: str) -> bytes:
    """Kafka's ConsumerProtocolSubscription of version 0."""
    return struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", -1)


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """Kafka's ConsumerProtocolAssignment of version 0."""
    return (
        struct.pack(">hi", 0, 1)
        + _string(topic)
        + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        + struct.pack(">i", -1)
    )


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
