"""Groups that answer what a test told them to, and keep what they were asked."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

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


class FakeGroups:
    """A ``GroupService``: ``answers`` maps methods to replies, errors to be raised, or functions
    of the arguments; what is not in it gets a reply without error. ``asked`` has every call.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []

    def coordinator(self, key: str) -> int:
        return int(self._answer("coordinator", 1, key))

    async def join(self, group: str, request: JoinRequest) -> JoinReply:
        reply: JoinReply = self._answer("join", JoinReply(), group, request)
        return reply

    async def sync(self, group: str, request: SyncRequest) -> SyncReply:
        reply: SyncReply = self._answer("sync", SyncReply(), group, request)
        return reply

    async def heartbeat(self, group: str, request: HeartbeatRequest) -> int:
        return int(self._answer("heartbeat", 0, group, request))

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveReply:
        left = tuple((one.member_id, one.instance_id, 0) for one in members)
        reply: LeaveReply = self._answer("leave", LeaveReply(members=left), group, *members)
        return reply

    async def consumer_heartbeat(
        self, group: str, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeatReply:
        reply: ConsumerHeartbeatReply = self._answer(
            "consumer_heartbeat", ConsumerHeartbeatReply(), group, request
        )
        return reply

    async def commit(self, request: CommitRequest) -> Mapping[Partition, int]:
        codes: Mapping[Partition, int] = self._answer(
            "commit", dict.fromkeys(request.offsets, 0), request
        )
        return codes

    async def fetch(
        self,
        group: str,
        partitions: Collection[Partition] | None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[int, Mapping[Partition, CommittedOffset]]:
        asked = None if partitions is None else list(partitions)
        reply: tuple[int, Mapping[Partition, CommittedOffset]] = self._answer(
            "fetch", (0, {}), group, asked, member_id, epoch
        )
        return reply

    async def delete_offsets(
        self, group: str, partitions: Collection[Partition]
    ) -> tuple[int, Mapping[Partition, int]]:
        reply: tuple[int, Mapping[Partition, int]] = self._answer(
            "delete_offsets", (0, dict.fromkeys(partitions, 0)), group, list(partitions)
        )
        return reply

    async def list(self) -> Sequence[ListedGroup]:
        listed: Sequence[ListedGroup] = self._answer("list", ())
        return listed

    async def describe_classic(self, group: str) -> ClassicDescription:
        reply: ClassicDescription = self._answer("describe_classic", ClassicDescription(), group)
        return reply

    async def describe_consumer(self, group: str) -> ConsumerDescription:
        reply: ConsumerDescription = self._answer("describe_consumer", ConsumerDescription(), group)
        return reply

    async def delete(self, group: str) -> int:
        return int(self._answer("delete", 0, group))

    def _answer(self, name: str, otherwise: Any, *arguments: Any) -> Any:
        self.asked.append((name, *arguments))
        answer = self.answers.get(name, otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer(*arguments) if callable(answer) else answer
