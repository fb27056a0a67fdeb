"""The state of a consumer group, and its changes.

Every change collects the changed records; ``take_records`` returns them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from headwater.groups.bounds import (
    GROUP_MAX_BYTES,
    MAX_ASSIGNMENT_WORK,
    MAX_PATTERNS,
    MAX_TOPICS,
    RECORD_MAX_BYTES,
)
from headwater.groups.consumer import records as stored
from headwater.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Partitions, Subscriber
from headwater.groups.consumer.members import ConsumerFacts, ConsumerMember, CurrentAssignment
from headwater.groups.consumer.reconcile import reconcile
from headwater.groups.consumer.subscriptions import (
    Subscriptions,
    TopicsImage,
    decrement,
    fingerprint,
)
from headwater.groups.group import TORN_MARK
from headwater.groups.requests import Assignment

__all__ = ("NO_PARTITIONS", "ConsumerGroupState")

NO_PARTITIONS: Partitions = {}


class ConsumerGroupState:
    """The members with their targets and current assignments, and the group's epochs."""

    def __init__(self) -> None:
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_ids: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        self.empty_since_ms: int | None = None
        self.size = 0
        """Estimated bytes of the members' records."""
        self._assignors: Counter[str] = Counter()
        self._holders: dict[UUID, dict[int, str]] = {}
        self._fingerprint: int | None = None
        self._records: dict[str, bytes | None] = {}
        self._written = b""
        self._unmatched_patterns: dict[str, bytes] = {}
        """Stored patterns without topics, until they are matched again."""
        self._unknown: Mapping[str, Any] = {}
        """Fields of the group that a newer release stored."""

    # Records.

    @classmethod
    def restore(cls, records: Mapping[str, bytes]) -> "ConsumerGroupState":
        state = cls()
        state._written = records[stored.GROUP]
        group = stored.decode_group(state._written)
        state.epoch = group.epoch
        state.assignment_epoch = group.assignment_epoch
        state.empty_since_ms = group.empty_since_ms
        state._fingerprint = group.fingerprint
        state._unknown = group.unknown
        for data in stored.regexes_of(records):
            pattern, topics = stored.decode_regex(data)
            if topics is None:
                state._unmatched_patterns[pattern] = data
            else:
                state.subscriptions.resolved[pattern] = topics
        for member_id in stored.members_of(records):
            facts = stored.decode_facts(records[stored.member_name(member_id)])
            current_data = records.get(stored.current_name(member_id))
            current = stored.decode_current(current_data) if current_data else CurrentAssignment()
            state.members[member_id] = ConsumerMember(member_id, facts, current)
            state._count(member_id, facts)
            state._update_holders(member_id, CurrentAssignment(), current)
            if target := records.get(stored.target_name(member_id)):
                state.targets[member_id] = stored.decode_target(target)
        if TORN_MARK in records:
            # The stored targets may be of two epochs: the next heartbeat computes them again.
            state.bump()
            state._records[TORN_MARK] = None
        return state

    def take_records(self) -> dict[str, bytes | None]:
        """The records that have changed since the last call."""
        group = stored.encode_group(
            stored.GroupRecord(
                epoch=self.epoch,
                assignment_epoch=self.assignment_epoch,
                fingerprint=self._fingerprint,
                empty_since_ms=self.empty_since_ms,
            ),
            self._unknown,
        )
        if self.epoch and group != self._written:
            self._written = self._records[stored.GROUP] = group
        records, self._records = self._records, {}
        return records

    @property
    def unwritten(self) -> bool:
        return not self._written

    def tombstones(self) -> dict[str, bytes | None]:
        """Changes that delete every record of this group."""
        names = [stored.GROUP, *map(stored.regex_name, self.subscriptions.resolved)]
        for member_id in self.members:
            names += (stored.member_name(member_id), stored.current_name(member_id))
        names += map(stored.target_name, self.targets)
        names += (name for name, value in self._records.items() if value is None)
        return dict.fromkeys(names)

    # Members.

    def add(self, member: ConsumerMember) -> None:
        """Add a member."""
        self.members[member.id] = member
        self._count(member.id, member.facts)
        self._update_holders(member.id, CurrentAssignment(), member.current)
        self._records[stored.member_name(member.id)] = stored.encode_facts(member.id, member.facts)
        self._records[stored.current_name(member.id)] = stored.encode_current(member.current)
        self.empty_since_ms = None

    def remove(self, member_id: str) -> None:
        self._remove_member(member_id)
        self._forget_patterns()

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.targets.pop(member_id, None)
        self._uncount(member_id, member.facts)
        self._update_holders(member_id, member.current, CurrentAssignment())
        for name in (stored.member_name, stored.target_name, stored.current_name):
            self._records[name(member_id)] = None

    def fence(self, member_ids: Iterable[str], now_ms: int) -> None:
        """Remove members; frees their partitions and starts a new epoch."""
        for member_id in member_ids:
            self.remove(member_id)
        self.bump()
        # The next heartbeat computes the fingerprint of the remaining topics.
        self._fingerprint = None
        if not self.members:
            self.empty_since_ms = now_ms

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member by a new one, which takes over its target and assignment."""
        member = old.as_replacement(member_id)
        if member_id == old.id:
            return self.set_current(old, member.current)
        target = self.targets.get(old.id, NO_PARTITIONS)
        self._remove_member(old.id)
        self.add(member)
        self.set_target(member_id, target)
        return member

    def set_facts(self, member: ConsumerMember, facts: ConsumerFacts) -> ConsumerMember:
        if facts == member.facts:
            return member
        self._uncount(member.id, member.facts)
        self._count(member.id, facts)
        self._records[stored.member_name(member.id)] = stored.encode_facts(member.id, facts)
        self._forget_patterns()
        updated = replace(member, facts=facts)
        self.members[member.id] = updated
        return updated

    def set_current(self, member: ConsumerMember, current: CurrentAssignment) -> ConsumerMember:
        if current is member.current:
            return member
        self._update_holders(member.id, member.current, current)
        self._records[stored.current_name(member.id)] = stored.encode_current(current)
        updated = replace(member, current=current)
        self.members[member.id] = updated
        return updated

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def has_room_for(
        self, member: ConsumerMember, facts: ConsumerFacts, topics: TopicsImage
    ) -> bool:
        """Whether the group stays within its bounds with these facts of a new or known member."""
        size = facts.size(member.id)
        known = self.members.get(member.id)
        before = 0 if known is None else known.facts.size(member.id)
        return (
            size <= RECORD_MAX_BYTES
            and self.size - before + size <= GROUP_MAX_BYTES
            and self.subscriptions.names_with(facts.topic_names) <= MAX_TOPICS
            and self.subscriptions.patterns_with(facts.topic_regex) <= MAX_PATTERNS
            and (
                (known is not None and known.facts.subscribes_as(facts))
                or self.can_assign(topics, facts)
            )
        )

    def _count(self, member_id: str, facts: ConsumerFacts) -> None:
        self.size += facts.size(member_id)
        self.subscriptions.add(facts.topic_names, facts.topic_regex)
        if facts.instance_id is not None:
            self.static_ids[facts.instance_id] = member_id
        if facts.assignor is not None:
            self._assignors[facts.assignor] += 1
        if facts.classic is not None:
            self.classic_members += 1
            self.classic_protocols.update(name for name, _ in facts.classic.protocols)

    def _uncount(self, member_id: str, facts: ConsumerFacts) -> None:
        self.size -= facts.size(member_id)
        self.subscriptions.remove(facts.topic_names, facts.topic_regex)
        if facts.instance_id is not None and self.static_ids.get(facts.instance_id) == member_id:
            del self.static_ids[facts.instance_id]
        if facts.assignor is not None:
            decrement(self._assignors, facts.assignor)
        if facts.classic is not None:
            self.classic_members -= 1
            for name, _ in facts.classic.protocols:
                decrement(self.classic_protocols, name)

    def _update_holders(
        self, member_id: str, before: CurrentAssignment, after: CurrentAssignment
    ) -> None:
        for held in (before.assigned, before.revoking):
            for topic, numbers in held.items():
                for number in numbers:
                    del self._holders[topic][number]
                if not self._holders[topic]:
                    del self._holders[topic]
        for held in (after.assigned, after.revoking):
            for topic, numbers in held.items():
                holders = self._holders.setdefault(topic, {})
                for number in numbers:
                    assert number not in holders, "a partition never has two holders"
                    holders[number] = member_id

    def _forget_patterns(self) -> None:
        for pattern in self.subscriptions.resolved.keys() - self.subscriptions.patterns.keys():
            del self.subscriptions.resolved[pattern]
            self._records[stored.regex_name(pattern)] = None

    # Steps.

    def bump(self) -> None:
        self.epoch += 1

    def follow(self, topics: TopicsImage) -> bool:
        """Update the matches of patterns; returns whether the subscribed topics have changed."""
        for pattern in self.subscriptions.patterns:
            names = topics.matched(pattern).topics
            if self.subscriptions.resolved.get(pattern) != names:
                self.subscriptions.resolved[pattern] = names
                data = stored.encode_regex(pattern, names)
                if data != self._unmatched_patterns.pop(pattern, None):
                    self._records[stored.regex_name(pattern)] = data
        before = self._fingerprint
        self._fingerprint = fingerprint(self.subscriptions.all_topics(), topics)
        return before is not None and before != self._fingerprint

    @property
    def assignor(self) -> str:
        """The assignor that most members request; the default if none requests one."""
        wanted = [name for name in ASSIGNORS if self._assignors[name]]
        return max(wanted, key=self._assignors.__getitem__, default=DEFAULT_ASSIGNOR)

    def can_assign(self, topics: TopicsImage, more: ConsumerFacts | None = None) -> bool:
        """Whether an assignment stays within its bound; ``more`` is a joining member."""
        others = [name for name in ASSIGNORS if name != DEFAULT_ASSIGNOR]
        pairwise = any(self._assignors[name] for name in others)
        joining = None
        if more is not None:
            pairwise = pairwise or more.assignor in others
            joining = (more.topic_names, more.topic_regex)
        work = self.subscriptions.assignment_work(topics, pairwise=pairwise, more=joining)
        return work <= MAX_ASSIGNMENT_WORK

    def assign(self, topics: TopicsImage) -> None:
        """Compute the target of this epoch."""
        subscribed = _SubscribedTopics(self.subscriptions, topics)
        subscribers = {
            member.id: Subscriber(
                member.facts.instance_id,
                subscribed.of(member.facts),
                self.targets.get(member.id, NO_PARTITIONS),
            )
            for member in self.members.values()
        }
        for member_id, target in ASSIGNORS[self.assignor](subscribers, subscribed.counts).items():
            self.set_target(member_id, target)
        self.assignment_epoch = self.epoch

    def set_target(self, member_id: str, target: Partitions) -> None:
        if target is self.targets.get(member_id, NO_PARTITIONS):
            return
        if target:
            self.targets[member_id] = target
            self._records[stored.target_name(member_id)] = stored.encode_target(target)
        elif self.targets.pop(member_id, None) is not None:
            self._records[stored.target_name(member_id)] = None

    def reconcile(
        self,
        member: ConsumerMember,
        topics: TopicsImage,
        owned: Assignment | None,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """Move a member one step towards its target."""
        if not subscription_changed and member.current.reconciled_to(self.assignment_epoch):
            return member
        current = reconcile(
            member.current,
            target=self.targets.get(member.id, NO_PARTITIONS),
            target_epoch=self.assignment_epoch,
            topics=_SubscribedTopics(self.subscriptions, topics).of(member.facts),
            subscription_changed=subscription_changed,
            owned=owned,
            taken=self.taken,
        )
        return self.set_current(member, current)

    def waits(self, member: ConsumerMember) -> bool:
        """Whether other members still have partitions of the member's target."""
        return any(
            number not in member.current.assigned.get(topic, ()) and self.taken(topic, number)
            for topic, numbers in self.targets.get(member.id, NO_PARTITIONS).items()
            for number in numbers
        )

    def taken(self, topic: UUID, number: int) -> bool:
        """Whether a member has the partition or has not confirmed its revocation."""
        return number in self._holders.get(topic, ())


class _SubscribedTopics:
    """The topic ids of subscriptions; each is computed once."""

    def __init__(self, subscriptions: Subscriptions, topics: TopicsImage) -> None:
        self.counts: dict[UUID, int] = {}
        self._subscriptions = subscriptions
        self._topics = topics
        self._known: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}

    def of(self, facts: ConsumerFacts) -> frozenset[UUID]:
        key = (facts.topic_names, facts.topic_regex)
        if key not in self._known:
            found = set()
            for name in self._subscriptions.topics(*key):
                topic = self._topics.get(name)
                if topic is not None:
                    found.add(topic.id)
                    self.counts[topic.id] = len(topic.streams)
            self._known[key] = frozenset(found)
        return self._known[key]
