"""What the members of a group want to read: names, patterns, and the topics behind them."""

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Protocol, TypeVar
from uuid import UUID

from headwater.engine import Topic
from headwater.groups.bounds import MAX_ASSIGNMENT_WORK
from headwater.groups.consumer.patterns import Matched

__all__ = (
    "Subscriptions",
    "TopicsImage",
    "decrement",
    "fingerprint",
)


K = TypeVar("K")

Subscription = tuple[frozenset[str], str]
"""The names and the pattern of one member."""


class TopicsImage(Protocol):
    """The topics of the cluster as far as this broker knows them."""

    @property
    def version(self) -> int:
        """Changes whenever any topic changes."""
        ...

    def get(self, name: str) -> Topic | None: ...

    def get_by_id(self, topic_id: UUID) -> Topic | None: ...

    def matched(self, pattern: str) -> Matched:
        """The topics of a pattern, or what is wrong with it."""
        ...


def fingerprint(names: Collection[str], topics: TopicsImage) -> int:
    """One number for what exists of those topics: their ids and numbers of partitions.

    It is the same in every process, so that a coordinator that takes over can tell whether
    topics changed in between.
    """
    digest = blake2b(digest_size=7)
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            digest.update(topic.id.bytes + len(topic.streams).to_bytes(4))
    return int.from_bytes(digest.digest())


class Subscriptions:
    """Counts of the names and patterns that members subscribe to."""

    __slots__ = ("_members", "_names", "_patterns", "resolved")

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._members: Counter[Subscription] = Counter()
        self.resolved: dict[str, frozenset[str]] = {}
        """The topics of each pattern, once it was looked at."""

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
        """A pattern was not looked at yet."""
        return not self._patterns.keys() <= self.resolved.keys()

    def topics(self, names: frozenset[str], pattern: str) -> frozenset[str]:
        """The names of topics behind one member's subscription."""
        return names | self.resolved.get(pattern, frozenset()) if pattern else names

    def all_topics(self) -> set[str]:
        found = set(self._names)
        for pattern in self._patterns:
            found |= self.resolved.get(pattern, frozenset())
        return found

    def names_with(self, names: Collection[str]) -> int:
        """How many different names there would be with these."""
        return len(self._names) + sum(name not in self._names for name in names)

    def patterns_with(self, pattern: str) -> int:
        """How many different patterns there would be with that one."""
        return len(self._patterns) + bool(pattern and pattern not in self._patterns)

    def assignment_work(
        self, topics: TopicsImage, *, pairwise: bool, more: Subscription | None = None
    ) -> int:
        """How many topics of members and partitions an assignment looks at.

        ``more`` is that of a member to come. ``pairwise`` says that the assignor looks at every
        topic of every member even if all subscribe alike. Partitions are not counted above
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
        """A pattern that was not looked at yet may match any topic."""
        return name in self._names or any(
            pattern not in self.resolved or name in self.resolved[pattern]
            for pattern in self._patterns
        )


def decrement(counter: Counter[K], key: K) -> None:
    """One less; a key that nobody has any more is gone."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
