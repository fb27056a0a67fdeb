"""The parts of a consumer group that all requests share: sessions, timers and reconciliation."""

import base64
import logging
from collections.abc import Collection, Mapping
from random import Random
from typing import Final, Self
from uuid import UUID

from headwater.coordination.deadlines import Deadlines
from headwater.groups.consumer.describe import describe, state_name
from headwater.groups.consumer.members import ConsumerFacts, ConsumerMember, MemberState
from headwater.groups.consumer.migration import may_downgrade, to_classic
from headwater.groups.consumer.state import ConsumerGroupState
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.machine import Effects
from headwater.groups.requests import Assignment, ClassicDescription, ConsumerDescription
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code

logger = logging.getLogger(__name__)

__all__ = ("JOIN", "REBALANCE", "SESSION", "SYNC", "ConsumerGroupCore")

SESSION: Final = "session/"
"""Timer: fences a member that sends no heartbeats."""
REBALANCE: Final = "rebalance/"
"""Timer: fences a member that does not confirm a revocation."""
JOIN: Final = "join/"
"""Timer: fences a classic member that does not join again."""
SYNC: Final = "sync/"
"""Timer: fences a classic member that does not fetch its assignment."""


class ConsumerGroupCore:
    """A machine (``groups.machine``) without its requests.

    ``settings`` may be replaced at any time; the new ones apply to later calls.
    """

    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str, settings: GroupSettings, rng: Random) -> None:
        self.group_id = group_id
        self.settings = settings
        self._rng = rng
        self._state = ConsumerGroupState()
        self._timers = Deadlines()
        self._topics_version: int | None = None
        self._resolve_after = 0.0
        self._topics: TopicsImage | None = None
        """The topics of the last request; None directly after a restart."""
        self._can_assign = True
        self._awaiting_join: set[str] = set()
        """Classic members with a running ``JOIN`` timer."""
        self._converted: Effects | None = None
        """Set when the group is converted to a classic one; this machine is then no longer used."""

    @classmethod
    def restore(
        cls,
        group_id: str,
        records: Mapping[str, bytes],
        settings: GroupSettings,
        rng: Random,
        now: float,
    ) -> Self:
        """Restore a group from its records; its members' sessions begin now."""
        group = cls(group_id, settings, rng)
        group._state = ConsumerGroupState.restore(records)
        for member in group._state.members.values():
            group._start_session(member, now)
            group._watch_revocation(member, now)
        return group

    # State for the coordinator

    @property
    def state(self) -> str:
        return state_name(self._state)

    @property
    def empty(self) -> bool:
        return not self._state.members

    @property
    def empty_since_ms(self) -> int | None:
        return self._state.empty_since_ms

    @property
    def unwritten(self) -> bool:
        """True if nothing was ever stored: the machine was made for a request that it refused."""
        return self._state.unwritten

    @property
    def deadline(self) -> float | None:
        return self._timers.next()

    def subscribed_to(self, topic: str) -> bool:
        return self._state.subscriptions.has_topic(topic)

    @property
    def patterns(self) -> Collection[str]:
        """The patterns of the members' subscriptions; a request may need the matches of all."""
        return self._state.subscriptions.patterns.keys()

    def describe(self, topics: TopicsImage) -> ConsumerDescription:
        """The answer to ConsumerGroupDescribe."""
        return describe(self._state, topics)

    def describe_classic(self) -> ClassicDescription:
        """The answer to DescribeGroups, which supports only classic groups."""
        return ClassicDescription(
            error=Code.GROUP_ID_NOT_FOUND,
            message=f"Group {self.group_id} is not a classic group.",
        )

    def is_modern(self, member_id: str) -> bool:
        member = self._state.members.get(member_id)
        return member is not None and not member.classic

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> int:
        if epoch < 0 and self.empty:
            return Code.NONE
        code = self._check_epoch(member_id, epoch)
        if not code:
            self._start_session(self._state.members[member_id], now)
        return code

    def check_late_commit(self, member_id: str, epoch: int, topic: UUID, partition: int) -> int:
        """The error code for one partition of a commit that ``check_commit`` refused by its epoch.

        A commit with an earlier epoch is allowed if the partition was assigned by that epoch and
        still is (KIP-1251): no other member can have read it in between.
        """
        member = self._state.members.get(member_id)
        if member is not None and epoch < member.current.epoch:
            for held in (member.current.assigned, member.current.revoking):
                given = held.get(topic, {}).get(partition)
                if given is not None and given <= epoch:
                    return Code.NONE
        return self._check_epoch(member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        if member_id is None and epoch < 0:
            return Code.NONE
        return self._check_epoch(member_id or "", epoch)

    def _check_epoch(self, member_id: str, epoch: int) -> int:
        member = self._state.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if member.current.epoch == epoch:
            return Code.NONE
        return Code.ILLEGAL_GENERATION if member.classic else Code.STALE_MEMBER_EPOCH

    def expire(self, now: float, now_ms: int) -> Effects:
        while (timer := self._timers.pop_due(now)) is not None:
            _, member_id = timer.split("/", 1)
            self._fence([member_id], now, now_ms)
            if self._converted is not None:
                break
        return self._effects()

    def _effects(self) -> Effects:
        return self._converted or Effects(records=self._state.take_records())

    # Joining and leaving

    def _fence(self, member_ids: Collection[str], now: float, now_ms: int) -> None:
        """Remove members; converts the group to a classic one if only classic members are left."""
        for member_id in member_ids:
            self._cancel_timers(member_id)
        if may_downgrade(self._state, member_ids, self.settings):
            for member_id in member_ids:
                self._state.remove(member_id)
            self._downgrade(now, now_ms, rebalance=True)
        else:
            self._state.fence(member_ids, now_ms)

    def _downgrade(self, now: float, now_ms: int, *, rebalance: bool) -> None:
        group, effects = to_classic(
            self.group_id, self._state, self._topics, self.settings, self._rng, now, now_ms
        )
        if rebalance:
            more = group.begin_rebalance(now, now_ms)
            effects.replies += more.replies
            effects.records |= more.records
        self._converted = effects

    def _start_session(self, member: ConsumerMember, now: float) -> None:
        classic = member.facts.classic
        timeout_ms = (
            self.settings.consumer_session_timeout_ms
            if classic is None
            else classic.session_timeout_ms
        )
        self._timers.set(SESSION + member.id, now + timeout_ms / 1000)

    def _watch_revocation(self, member: ConsumerMember, now: float) -> None:
        """Set a timer of the rebalance timeout while a member has partitions to revoke."""
        if member.current.state is MemberState.UNREVOKED and not member.classic:
            due = now + member.facts.rebalance_timeout_ms / 1000
            self._timers.set(REBALANCE + member.id, due)
        else:
            self._timers.cancel(REBALANCE + member.id)

    def _cancel_timers(self, member_id: str) -> None:
        for name in (SESSION, REBALANCE, JOIN, SYNC):
            self._timers.cancel(name + member_id)
        self._awaiting_join.discard(member_id)

    def _new_id(self) -> str:
        """A random UUID in Kafka's notation."""
        while True:
            text = base64.urlsafe_b64encode(self._rng.randbytes(16)).decode().rstrip("=")
            if not text.startswith("-"):  # it would look like an option on a command line
                return text

    # Reconciliation

    def _advance(
        self,
        member: ConsumerMember,
        facts: ConsumerFacts,
        topics: TopicsImage,
        owned: Assignment | None,
        now: float,
    ) -> ConsumerMember:
        """Update a member's facts, compute a new target if necessary, and reconcile the member."""
        state = self._state
        changed = (
            facts.topic_names != member.facts.topic_names
            or facts.topic_regex != member.facts.topic_regex
        )
        member = state.set_facts(member, facts)
        topics_changed = self._follow(topics, now, anyway=changed)
        if changed or topics_changed or state.epoch == 0:
            state.bump()
        if state.epoch > state.assignment_epoch and self._may_assign(topics):
            state.assign(topics)
        before = member
        member = state.reconcile(member, topics, owned, subscription_changed=changed)
        if member is not before:
            self._watch_revocation(member, now)
        return member

    def _follow(self, topics: TopicsImage, now: float, *, anyway: bool) -> bool:
        """Update the subscribed topics if topics or subscriptions have changed."""
        stale = topics.version != self._topics_version or self._state.subscriptions.unresolved
        if not (anyway or stale or self._patterns_due(now)) or not self._may_assign(topics):
            return False
        self._topics, self._topics_version = topics, topics.version
        self._resolve_after = now + self.settings.consumer_regex_refresh_interval_ms / 1000
        return self._state.follow(topics)

    def _may_assign(self, topics: TopicsImage) -> bool:
        """False if an assignment would process too many topics; the targets then stay the same."""
        may = self._state.can_assign(topics)
        if self._can_assign and not may:
            logger.warning(
                "A group subscribes to too many topics and partitions; keeping its assignment",
                extra={"group": self.group_id[:100]},
            )
        self._can_assign = may
        return may

    def _patterns_due(self, now: float) -> bool:
        return now >= self._resolve_after and bool(self._state.subscriptions.patterns)
