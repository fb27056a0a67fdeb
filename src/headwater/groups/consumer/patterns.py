"""Matches the topic patterns of consumer groups, in a thread.

Clients choose their patterns, so a pattern is bounded in its length, in the memory of its
automaton and in its matching time. Machines read topics and matches from ``TopicPatterns`` without
waiting; the coordinator awaits ``prepare`` before it calls a machine. A pattern is matched against
all topics once, and afterwards only against new ones.

Patterns use RE2's syntax, as in Kafka (RE2/J), and must match a topic's whole name.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import re2

from headwater.engine import Topic, Topics
from headwater.groups.bounds import MAX_PATTERN_CHARS

__all__ = ("NOTHING_MATCHED", "PatternMatch", "TopicPatterns", "match", "pattern_fault")

MATCH_SECONDS: Final = 0.5
"""CPU time limit of one pattern; a simple pattern takes 0.15 s for 100,000 topics."""
MAX_REMEMBERED: Final = 1_000
"""Patterns whose matches are remembered."""
_NAMES_PER_TIME_CHECK: Final = 64


class _Options:
    """Options of RE2: no messages on stderr, and no captures, which are 1,000 times slower."""

    value = re2.Options()
    value.log_errors = False
    value.never_capture = True
    value.max_mem = 1 << 20


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The topics among ``seen`` that a pattern matches, or why it cannot be matched."""

    seen: frozenset[str]
    topics: frozenset[str] = frozenset()
    fault: str | None = None


NOTHING_MATCHED: Final = PatternMatch(frozenset())


def match(
    pattern: str, names: frozenset[str], before: PatternMatch = NOTHING_MATCHED
) -> PatternMatch:
    """Match the names that ``before`` has not seen; stops with a fault if it takes too long."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return PatternMatch(names, fault=f"it has more than {MAX_PATTERN_CHARS} characters")
    started = time.thread_time()
    try:
        matches = re2.compile(pattern.encode(), _Options.value).fullmatch
    except re2.error as error:
        text = error.args[0] if error.args else "malformed"
        fault = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        return PatternMatch(names, fault=fault)
    found = set(before.topics & names)
    for number, name in enumerate(names - before.seen):
        if number % _NAMES_PER_TIME_CHECK == 0 and time.thread_time() - started > MATCH_SECONDS:
            return PatternMatch(names, frozenset(found), "it takes too long to match")
        if matches(name.encode()):
            found.add(name)
    return PatternMatch(names, before.topics if found == before.topics else frozenset(found))


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern is invalid, None if it is valid. Compiling is slow: call it in a thread."""
    fault = match(pattern, frozenset()).fault
    _forget_compiled()
    return fault


class TopicPatterns:
    """The ``TopicsImage`` of the machines: topics, and the matches of patterns."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: OrderedDict[str, PatternMatch] = OrderedDict()
        self._names: frozenset[str] = frozenset()
        self._version: int | None = None
        self._matching = asyncio.Lock()

    @property
    def version(self) -> int:
        return self._topics.version

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def get_by_id(self, topic_id: UUID) -> Topic | None:
        return self._topics.get_by_id(topic_id)

    def matched(self, pattern: str) -> PatternMatch:
        """The match of a pattern; ``prepare`` must have been called before."""
        self._known.move_to_end(pattern)
        return self._known[pattern]

    def ready(self, patterns: Collection[str]) -> bool:
        """Whether all patterns are matched against the topics that exist now."""
        return self._version == self._topics.version and all(map(self._is_current, patterns))

    async def prepare(self, patterns: Collection[str]) -> None:
        """Match patterns against all topics; ``ready`` says whether they have changed meanwhile."""
        async with self._matching:
            if self._version != self._topics.version:
                names = frozenset(self._topics.names())
                self._version = self._topics.version
                # The same object while the names are the same: see ``_is_current``.
                self._names = self._names if names == self._names else names
            missing = {
                pattern: self._known.get(pattern, NOTHING_MATCHED)
                for pattern in patterns
                if not self._is_current(pattern)
            }
            if missing:
                found = await asyncio.to_thread(_match_all, missing, self._names)
                self._remember(found)

    def _is_current(self, pattern: str) -> bool:
        matched = self._known.get(pattern)
        return matched is not None and matched.seen is self._names

    def _remember(self, found: Mapping[str, PatternMatch]) -> None:
        # Patterns that match the same topics share one set.
        shared = {matched.topics: matched.topics for matched in self._known.values()}
        for pattern, matched in found.items():
            topics = shared.setdefault(matched.topics, matched.topics)
            self._known[pattern] = PatternMatch(matched.seen, topics, matched.fault)
            self._known.move_to_end(pattern)
        while len(self._known) > max(MAX_REMEMBERED, len(found)):
            self._known.popitem(last=False)


def _match_all(
    patterns: Mapping[str, PatternMatch], names: frozenset[str]
) -> dict[str, PatternMatch]:
    found = {pattern: match(pattern, names, before) for pattern, before in patterns.items()}
    _forget_compiled()
    return found


def _forget_compiled() -> None:
    re2.purge()  # it keeps 128 compiled patterns, of up to max_mem each
