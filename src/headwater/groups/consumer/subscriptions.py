"""The subscriptions of a group's members: topic names, patterns, and the matched topics."""

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Protocol, TypeVar
from uuid import UUID

from headwater.engine import Topic
from headwater.groups.bounds import MAX_ASSIGNMENT_WORK
from headwater.groups.consumer.patterns import PatternMatch

__all__ = (
    "Subscriptions",
    "TopicsImage",
    "decrement",
    "fingerprint",
)


K = TypeVar("K")

Subscription = tuple[frozenset[str], str]
"""The topic names and the pattern of one member."""


class TopicsImage(Protocol):
    """The topics of the cluster that this broker knows."""

    @property
    def version(self) -> int:
        """Changes whenever any topic changes."""
        ...

    def get(self, name: str) -> Topic | None: ...

    def get_by_id(self, topic_id: UUID) -> Topic | None: ...

    def matched(self, pattern: str) -> PatternMatch:
        """The topics that match a pattern, or why it is invalid."""
        ...


def fingerprint(names: Collection[str], topics: TopicsImage) -> int:
    """A hash of the ids and partition counts of the topics that exist.

    It is the same in every process, so that a coordinator that takes over can detect whether the
    topics have changed.
    """
    digest = blake2b(digest_size=7)
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            digest.update(topic.id.bytes + len(topic.streams).to_bytes(4))
    return int.from_bytes(digest.digest())


class Subscriptions:
    """Counts of the names and patterns to which the members subscribe."""

    __slots__ = ("_members", "_names", "_patterns", "resolved")

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._members: Counter[Subscription] = Counter()
        self.resolved: dict[str, frozenset[str]] = {}
        """The topics of each pattern that has been matched."""

    def add(self, names: frozenset[str], pattern: str) -> None:
        self._members[names, pattern] += 1
        self._names.update(names)
        if pattern:
            self._patterns[pattern] += 1

    def remove(self, names: frozenset[str], pattern: str) -> None:
        decrement(self._members, (names, pattern))
        for name in names:
            decrement(self._names, name)
        if pattern:
            decrement(self._patterns, pattern)

    @property
    def patterns(self) -> Mapping[str, int]:
        return self._patterns

    @property
    def unresolved(self) -> bool:
        """Whether a pattern has not been matched yet."""
        return not self._patterns.keys() <= self.resolved.keys()

    def topics(self, names: frozenset[str], pattern: str) -> frozenset[str]:
        """The topic names of one member's subscription, its pattern included."""
        return names | self.resolved.get(pattern, frozenset()) if pattern else names

    def all_topics(self) -> set[str]:
        found = set(self._names)
        for pattern in self._patterns:
            found |= self.resolved.get(pattern, frozenset())
        return found

    def names_with(self, names: Collection[str]) -> int:
        """Number of distinct names after adding these."""
        return len(self._names) + sum(name not in self._names for name in names)

    def patterns_with(self, pattern: str) -> int:
        """Number of distinct patterns after adding this one."""
        return len(self._patterns) + bool(pattern and pattern not in self._patterns)

    def assignment_work(
        self, topics: TopicsImage, *, pairwise: bool, more: Subscription | None = None
    ) -> int:
        """Number of members' topics and partitions that an assignment processes.

        ``more`` is the subscription of a joining member. With ``pairwise`` the assignor processes
        every topic of every member, even if all subscriptions are equal. Counting stops above
        ``MAX_ASSIGNMENT_WORK``.
        """
        members = dict(self._members)
        if more is not None:
            members[more] = members.get(more, 0) + 1
        pairwise = pairwise or len(members) > 1
        work = 0
        for (names, pattern), count in members.items():
            size = len(names) + (len(topics.matched(pattern).topics) if pattern else 0)
            work += size * (1 + count * pairwise)
        if work > MAX_ASSIGNMENT_WORK:
            return work
        found: set[str] = set()
        for names, pattern in members:
            found |= names
            if pattern:
                found |= topics.matched(pattern).topics
        return work + sum(len(topic.streams) for name in found if (topic := topics.get(name)))

    def has_topic(self, name: str) -> bool:
        """Whether a member may read the topic; an unmatched pattern may match any topic."""
        return name in self._names or any(
            pattern not in self.resolved or name in self.resolved[pattern]
            for pattern in self._patterns
        )


def decrement(counter: Counter[K], key: K) -> None:
    """Decrement a count; removes the key at 0."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
