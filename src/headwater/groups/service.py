"""What the broker's handlers ask of the groups; ``coordinator.Coordinator`` is it.

Methods that name one group raise ``NotCoordinator`` where another broker has it or this one's
lease has run out, and ``CoordinatorNotAvailable`` where the metadata store does not answer.
Errors of the protocol itself are in the replies.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from headwater.coordination.leases import CoordinatorLookup
from headwater.groups.requests import (
    ClassicDescription,
    CommitRequest,
    CommittedOffset,
    ConsumerDescription,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    Listed,
    Partition,
    SyncReply,
    SyncRequest,
)


class GroupService(CoordinatorLookup, Protocol):
    """All groups whose coordinator this broker is, or may become."""

    async def join(self, group: str, request: JoinRequest) -> JoinReply: ...

    async def sync(self, group: str, request: SyncRequest) -> SyncReply: ...

    async def heartbeat(self, group: str, request: HeartbeatRequest) -> int: ...

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveReply: ...

    async def consumer_heartbeat(
        self, group: str, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeatReply: ...

    async def commit(self, request: CommitRequest) -> Mapping[Partition, int]:
        """The error code of each partition; 0 means durable."""
        ...

    async def fetch(
        self,
        group: str,
        partitions: Collection[Partition] | None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[int, Mapping[Partition, CommittedOffset]]:
        """The group's error code and offsets; ``partitions`` None gives all that were committed."""
        ...

    async def delete_offsets(
        self, group: str, partitions: Collection[Partition]
    ) -> tuple[int, Mapping[Partition, int]]: ...

    async def list(self) -> Sequence[Listed]:
        """The groups of all shards that this broker holds, by name."""
        ...

    async def describe_classic(self, group: str) -> ClassicDescription:
        """Of a consumer group too, as Kafka describes it to old clients."""
        ...

    async def describe_consumer(self, group: str) -> ConsumerDescription: ...

    async def delete(self, group: str) -> int:
        """Delete an empty group with its offsets."""
        ...
