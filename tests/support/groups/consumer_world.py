"""Topics and requests for the tests of consumer groups."""

from collections.abc import Iterable, Sequence
from random import Random
from uuid import UUID

from headwater.engine import Topic
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.consumer.patterns import PatternMatch, match
from headwater.groups.machine import Effects
from headwater.groups.requests import (
    Assignment,
    ClientIdentity,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from headwater.groups.settings import GroupSettings

CLIENT = ClientIdentity("client", "/127.0.0.1")
GROUP = "g"


class ChangeableTopics:
    """An image of the cluster's topics that tests may change."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self._ids = 0
        self._by_name: dict[str, Topic] = {}
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int) -> Topic:
        """Create a topic, or add partitions to one."""
        self.version += 1
        before = self._by_name.get(name)
        if before is None:
            self._ids += 1
        topic_id = UUID(int=self._ids) if before is None else before.id
        topic = Topic(name, topic_id, tuple(range(partitions)), {})
        self._by_name[name] = topic
        return topic

    def delete(self, name: str) -> None:
        self.version += 1
        del self._by_name[name]

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: UUID) -> Topic | None:
        return next((t for t in self._by_name.values() if t.id == topic_id), None)

    def names(self) -> Iterable[str]:
        return list(self._by_name)

    def matched(self, pattern: str) -> PatternMatch:
        return match(pattern, frozenset(self._by_name))

    def of(self, name: str) -> Topic:
        return self._by_name[name]


class ConsumerGroupWorld:
    """A group with its topics, a clock, and the records that a store would have."""

    def __init__(self, settings: GroupSettings | None = None, **partitions: int) -> None:
        self.topics = ChangeableTopics(**partitions)
        self.settings = settings or GroupSettings()
        self.now = 1000.0
        self.rng = Random(1)
        self.group = ConsumerGroup(GROUP, self.settings, self.rng)
        self.records: dict[str, bytes] = {}
        self.last: Effects = Effects()

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    def store(self, effects: Effects) -> None:
        self.last = effects
        for name, value in effects.records.items():
            if value is None:
                self.records.pop(name, None)
            else:
                assert self.records.get(name) != value, f"{name} was written unchanged"
                self.records[name] = value

    def survives(self, effects: Effects, outcome: str) -> bool:
        """Whether a call's answer arrives: a ``crash`` loses what was not written with it."""
        if outcome == "crash":
            self.restart()
            return False
        self.store(effects)
        return outcome != "lost"

    def send(self, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        reply, effects = self.group.heartbeat(request, self.topics, self.now, self.now_ms)
        self.store(effects)
        return reply

    def join(
        self,
        member_id: str,
        names: Sequence[str] | None = ("t",),
        *,
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 60_000,
    ) -> ConsumerHeartbeatReply:
        return self.send(
            ConsumerHeartbeatRequest(
                client=CLIENT,
                member_id=member_id,
                epoch=0,
                instance_id=instance,
                rebalance_timeout_ms=rebalance_timeout_ms,
                topic_names=None if names is None else tuple(names),
                topic_regex=regex,
                assignor=assignor,
                owned={},
            )
        )

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Assignment | None = None,
        *,
        instance: str | None = None,
        names: Sequence[str] | None = None,
        regex: str | None = None,
    ) -> ConsumerHeartbeatReply:
        return self.send(
            ConsumerHeartbeatRequest(
                client=CLIENT,
                member_id=member_id,
                epoch=epoch,
                instance_id=instance,
                topic_names=None if names is None else tuple(names),
                topic_regex=regex,
                owned=owned,
            )
        )

    def leave(self, member_id: str, *, instance: str | None = None, epoch: int = -1) -> int:
        return self.beat(member_id, epoch, instance=instance).error

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.group.deadline
        if deadline is not None and deadline <= self.now:
            self.store(self.group.expire(self.now, self.now_ms))

    def restart(self) -> None:
        """The coordinator dies and another takes over from the records, if there are any."""
        if self.records:
            self.group = ConsumerGroup.restore(
                GROUP, self.records, self.settings, self.rng, self.now
            )
        else:
            self.group = ConsumerGroup(GROUP, self.settings, self.rng)

    def partitions(self, name: str, *numbers: int) -> Assignment:
        return {self.topics.of(name).id: numbers} if numbers else {}


def settle(world: ConsumerGroupWorld, *member_ids: str) -> dict[str, Assignment]:
    """Send heartbeats of members that follow each reply at once, until the group is stable."""
    for _ in range(10):
        for member in world.group.describe(world.topics).members:
            if not member_ids or member.member_id in member_ids:
                instance = member.instance_id
                world.beat(member.member_id, member.epoch, member.assigned, instance=instance)
        if world.group.state == "Stable":
            break
    return {m.member_id: m.assigned for m in world.group.describe(world.topics).members}
