"""The interface of groups for the broker's handlers; ``GroupCoordinator`` implements it.

Methods for one group raise ``NotCoordinator`` if another broker coordinates it or this broker's
lease has expired, and ``CoordinatorNotAvailable`` if the metadata store does not answer. Errors of
the group protocols are in the replies.
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
    ListedGroup,
    Partition,
    SyncReply,
    SyncRequest,
)


class GroupService(CoordinatorLookup, Protocol):
    """The groups that this broker coordinates, or may coordinate."""

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
        """The group's error code and offsets; with ``partitions`` None, all committed offsets."""
        ...

    async def delete_offsets(
        self, group: str, partitions: Collection[Partition]
    ) -> tuple[int, Mapping[Partition, int]]: ...

    async def list(self) -> Sequence[ListedGroup]:
        """The groups of all shards that this broker owns, sorted by name."""
        ...

    async def describe_classic(self, group: str) -> ClassicDescription:
        """Also describes consumer groups, as Kafka does for old clients."""
        ...

    async def describe_consumer(self, group: str) -> ConsumerDescription: ...

    async def delete(self, group: str) -> int:
        """Delete an empty group with its offsets."""
        ...
