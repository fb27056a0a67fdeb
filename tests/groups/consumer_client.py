"""A client of the consumer protocol as Java's is, apart from any network."""

from collections.abc import Sequence
from uuid import UUID

from headwater.groups.requests import (
    Assignment,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from headwater.wire.error_codes import Code
from tests.groups.consumer_world import CLIENT

Partition = tuple[UUID, int]


class ConsumerClient:
    """It reads ``owned``; it gives up what it was told to before it takes anything new."""

    def __init__(self, member_id: str, instance_id: str | None = None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.names: tuple[str, ...] | None = ("t0",)
        self.regex: str | None = None
        self._told: set[Partition] = set()
        self._full = True
        self._subscription_is_new = True
        self._owned_is_new = True

    def subscribe(self, names: Sequence[str], regex: str = "") -> None:
        self.names, self.regex = tuple(names), regex
        self._subscription_is_new = True

    def request(self) -> ConsumerHeartbeatRequest:
        """The next heartbeat: everything after a loss, else only what is new."""
        full = self._full or self.epoch == 0
        says_names = full or self._subscription_is_new
        return ConsumerHeartbeatRequest(
            client=CLIENT,
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000 if full else -1,
            topic_names=self.names if says_names else None,
            topic_regex=self.regex if says_names else None,
            owned=self._assignment() if full or self._owned_is_new else None,
        )

    def leaving(self) -> ConsumerHeartbeatRequest:
        """It stops reading first."""
        epoch = -1 if self.instance_id is None else -2
        self.abandon()
        return ConsumerHeartbeatRequest(
            client=CLIENT, member_id=self.member_id, epoch=epoch, instance_id=self.instance_id
        )

    def lost(self) -> None:
        """No reply came; it cannot know what of its heartbeat was heard."""
        self._full = True

    def receive(self, reply: ConsumerHeartbeatReply) -> None:
        if reply.error:
            if reply.error != Code.UNRELEASED_INSTANCE_ID:
                self.abandon()
            self._full = True
            return
        assert reply.member_id == self.member_id
        self.epoch = reply.epoch
        self._full = self._subscription_is_new = self._owned_is_new = False
        if reply.assignment is not None:
            self._told = {(t, n) for t, numbers in reply.assignment.items() for n in numbers}

    def reconcile(self) -> None:
        """What the application's callbacks do when it polls: first give up, then take."""
        if self.owned - self._told:
            self.owned &= self._told
            self._owned_is_new = True
        elif self.owned != self._told:
            self.owned = set(self._told)
            self._owned_is_new = True

    def abandon(self) -> None:
        self.owned, self._told = set(), set()
        self.epoch, self._full = 0, True

    def _assignment(self) -> Assignment:
        if self.epoch == 0:
            return {}
        found: dict[UUID, list[int]] = {}
        for topic, number in sorted(self.owned):
            found.setdefault(topic, []).append(number)
        return {topic: tuple(numbers) for topic, numbers in found.items()}
