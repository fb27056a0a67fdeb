"""The state of a consumer group and the steps that it goes by; requests are in ``consumer``.

Every step notes the records that it changed; ``take_records`` hands them out.
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
from headwater.groups.consumer.members import Facts, Holding, Member
from headwater.groups.consumer.reconcile import reconcile
from headwater.groups.consumer.subscriptions import (
    Subscriptions,
    TopicsImage,
    decrement,
    fingerprint,
)
from headwater.groups.group import TORN_MARK
from headwater.groups.requests import Assignment

__all__ = ("NOTHING", "GroupState")

NOTHING: Partitions = {}


class GroupState:
    """Members with their targets and holdings, and the epochs between which they move."""

    def __init__(self) -> None:
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_ids: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        self.empty_since_ms: int | None = None
        self.size = 0
        """About how many bytes the members' facts have in the store."""
        self._assignors: Counter[str] = Counter()
        self._holders: dict[UUID, dict[int, str]] = {}
        self._fingerprint: int | None = None
        self._records: dict[str, bytes | None] = {}
        self._written = b""
        self._unlisted: dict[str, bytes] = {}
        """Stored patterns without their topics, until they are looked up again."""
        self._unknown: Mapping[str, Any] = {}
        """Fields of the group that a newer release stored."""

    # Records.

    @classmethod
    def restore(cls, records: Mapping[str, bytes]) -> "GroupState":
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
                state._unlisted[pattern] = data
            else:
                state.subscriptions.resolved[pattern] = topics
        for member_id in stored.members_of(records):
            facts = stored.decode_facts(records[stored.member_name(member_id)])
            current = records.get(stored.current_name(member_id))
            holding = stored.decode_holding(current) if current else Holding()
            state.members[member_id] = Member(member_id, facts, holding)
            state._count(member_id, facts)
            state._hold(member_id, Holding(), holding)
            if target := records.get(stored.target_name(member_id)):
                state.targets[member_id] = stored.decode_target(target)
        if TORN_MARK in records:
            # Members' targets may be of two epochs: the next heartbeat makes them anew.
            state.bump()
            state._records[TORN_MARK] = None
        return state

    def take_records(self) -> dict[str, bytes | None]:
        """What changed since the last call; a value that stayed as it was is not in it."""
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
        """What deletes every record that this group may have."""
        names = [stored.GROUP, *map(stored.regex_name, self.subscriptions.resolved)]
        for member_id in self.members:
            names += (stored.member_name(member_id), stored.current_name(member_id))
        names += map(stored.target_name, self.targets)
        names += (name for name, value in self._records.items() if value is None)
        return dict.fromkeys(names)

    # Members.

    def add(self, member: Member) -> None:
        """A member comes, or comes back as another."""
        self.members[member.id] = member
        self._count(member.id, member.facts)
        self._hold(member.id, Holding(), member.holding)
        self._records[stored.member_name(member.id)] = stored.encode_facts(member.id, member.facts)
        self._records[stored.current_name(member.id)] = stored.encode_holding(member.holding)
        self.empty_since_ms = None

    def remove(self, member_id: str) -> None:
        self._take_out(member_id)
        self._forget_patterns()

    def _take_out(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.targets.pop(member_id, None)
        self._uncount(member_id, member.facts)
        self._hold(member_id, member.holding, Holding())
        for name in (stored.member_name, stored.target_name, stored.current_name):
            self._records[name(member_id)] = None

    def fence(self, member_ids: Iterable[str], now_ms: int) -> None:
        """Members are gone for good; their partitions are free and a new target is due."""
        for member_id in member_ids:
            self.remove(member_id)
        self.bump()
        # Which topics are left is looked at with the next heartbeat, which makes a target anyway.
        self._fingerprint = None
        if not self.members:
            self.empty_since_ms = now_ms

    def replace_static(self, old: Member, member_id: str) -> Member:
        """Another takes a static member's place, with its target and what it held."""
        member = old.as_replacement(member_id)
        if member_id == old.id:
            return self.set_holding(old, member.holding)
        target = self.targets.get(old.id, NOTHING)
        self._take_out(old.id)
        self.add(member)
        self.set_target(member_id, target)
        return member

    def set_facts(self, member: Member, facts: Facts) -> Member:
        if facts == member.facts:
            return member
        self._uncount(member.id, member.facts)
        self._count(member.id, facts)
        self._records[stored.member_name(member.id)] = stored.encode_facts(member.id, facts)
        self._forget_patterns()
        updated = replace(member, facts=facts)
        self.members[member.id] = updated
        return updated

    def set_holding(self, member: Member, holding: Holding) -> Member:
        if holding is member.holding:
            return member
        self._hold(member.id, member.holding, holding)
        self._records[stored.current_name(member.id)] = stored.encode_holding(holding)
        updated = replace(member, holding=holding)
        self.members[member.id] = updated
        return updated

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def has_room_for(self, member: Member, facts: Facts, topics: TopicsImage) -> bool:
        """The group keeps its bounds if ``member`` says this, which may be new in the group."""
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

    def _count(self, member_id: str, facts: Facts) -> None:
        self.size += facts.size(member_id)
        self.subscriptions.add(facts.topic_names, facts.topic_regex)
        if facts.instance_id is not None:
            self.static_ids[facts.instance_id] = member_id
        if facts.assignor is not None:
            self._assignors[facts.assignor] += 1
        if facts.classic is not None:
            self.classic_members += 1
            self.classic_protocols.update(name for name, _ in facts.classic.protocols)

    def _uncount(self, member_id: str, facts: Facts) -> None:
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

    def _hold(self, member_id: str, before: Holding, after: Holding) -> None:
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
        """Resolve the patterns again; whether a subscribed topic came, went or grew."""
        for pattern in self.subscriptions.patterns:
            names = topics.matched(pattern).topics
            if self.subscriptions.resolved.get(pattern) != names:
                self.subscriptions.resolved[pattern] = names
                data = stored.encode_regex(pattern, names)
                if data != self._unlisted.pop(pattern, None):
                    self._records[stored.regex_name(pattern)] = data
        before = self._fingerprint
        self._fingerprint = fingerprint(self.subscriptions.all_topics(), topics)
        return before is not None and before != self._fingerprint

    @property
    def assignor(self) -> str:
        """The one that most members want; the default where none has a wish."""
        wanted = [name for name in ASSIGNORS if self._assignors[name]]
        return max(wanted, key=self._assignors.__getitem__, default=DEFAULT_ASSIGNOR)

    def can_assign(self, topics: TopicsImage, more: Facts | None = None) -> bool:
        """Whether making a target is little enough work; ``more`` are a member's to come."""
        others = [name for name in ASSIGNORS if name != DEFAULT_ASSIGNOR]
        pairwise = any(self._assignors[name] for name in others)
        coming = None
        if more is not None:
            pairwise = pairwise or more.assignor in others
            coming = (more.topic_names, more.topic_regex)
        work = self.subscriptions.assignment_work(topics, pairwise=pairwise, more=coming)
        return work <= MAX_ASSIGNMENT_WORK

    def assign(self, topics: TopicsImage) -> None:
        """Make the target of this epoch."""
        wants = _Wants(self.subscriptions, topics)
        subscribers = {
            member.id: Subscriber(
                member.facts.instance_id,
                wants.of(member.facts),
                self.targets.get(member.id, NOTHING),
            )
            for member in self.members.values()
        }
        for member_id, target in ASSIGNORS[self.assignor](subscribers, wants.counts).items():
            self.set_target(member_id, target)
        self.assignment_epoch = self.epoch

    def set_target(self, member_id: str, target: Partitions) -> None:
        if target is self.targets.get(member_id, NOTHING):
            return
        if target:
            self.targets[member_id] = target
            self._records[stored.target_name(member_id)] = stored.encode_target(target)
        elif self.targets.pop(member_id, None) is not None:
            self._records[stored.target_name(member_id)] = None

    def reconcile(
        self,
        member: Member,
        topics: TopicsImage,
        owned: Assignment | None,
        *,
        subscription_changed: bool,
    ) -> Member:
        """Take a member one step further to its target."""
        if not subscription_changed and member.holding.reconciled_to(self.assignment_epoch):
            return member
        holding = reconcile(
            member.holding,
            target=self.targets.get(member.id, NOTHING),
            target_epoch=self.assignment_epoch,
            topics=_Wants(self.subscriptions, topics).of(member.facts),
            subscription_changed=subscription_changed,
            owned=owned,
            taken=self.taken,
        )
        return self.set_holding(member, holding)

    def waits(self, member: Member) -> bool:
        """Others still hold something of the member's target."""
        return any(
            number not in member.holding.assigned.get(topic, ()) and self.taken(topic, number)
            for topic, numbers in self.targets.get(member.id, NOTHING).items()
            for number in numbers
        )

    def taken(self, topic: UUID, number: int) -> bool:
        """A member holds that partition, or did not give it up yet."""
        return number in self._holders.get(topic, ())


class _Wants:
    """Topic ids of subscriptions, each worked out once."""

    def __init__(self, subscriptions: Subscriptions, topics: TopicsImage) -> None:
        self.counts: dict[UUID, int] = {}
        self._subscriptions = subscriptions
        self._topics = topics
        self._known: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}

    def of(self, facts: Facts) -> frozenset[UUID]:
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
