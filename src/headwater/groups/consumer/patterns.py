"""Which topics the patterns of consumer groups match; matching happens in a thread.

A client chooses its pattern and everybody shares the event loop, so a pattern is bounded in its
length, in the memory of its automaton and in the time that it takes. ``TopicPatterns`` is the
image of the topics that machines are given: it answers at once, and its owner awaits ``prepare``
before it calls a machine. A pattern is matched to all topics once, and after that to new ones.

Patterns are RE2's, as Kafka's are (RE2/J), and match a topic's whole name.
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

__all__ = ("NOTHING", "Matched", "TopicPatterns", "fault_in", "match")

MATCH_SECONDS: Final = 0.5
"""Processor time that one pattern may take; 100,000 topics take an ordinary one 0.15 s."""
MAX_KNOWN: Final = 1_000
"""Patterns whose topics are remembered; more of them are matched again when they are asked for."""
_NAMES_BETWEEN_LOOKS: Final = 64


class _Options:
    """RE2 writes faulty patterns to standard error; capturing costs a thousand times the time."""

    value = re2.Options()
    value.log_errors = False
    value.never_capture = True
    value.max_mem = 1 << 20


@dataclass(frozen=True, slots=True)
class Matched:
    """The topics that a pattern matches among ``seen``, or why it cannot be matched."""

    seen: frozenset[str]
    topics: frozenset[str] = frozenset()
    fault: str | None = None


NOTHING: Final = Matched(frozenset())


def match(pattern: str, names: frozenset[str], before: Matched = NOTHING) -> Matched:
    """Match what ``before`` has not seen. If that takes too long, nothing more is matched."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return Matched(names, fault=f"it has more than {MAX_PATTERN_CHARS} characters")
    started = time.thread_time()
    try:
        matches = re2.compile(pattern.encode(), _Options.value).fullmatch
    except re2.error as error:
        text = error.args[0] if error.args else "malformed"
        fault = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        return Matched(names, fault=fault)
    found = set(before.topics & names)
    for number, name in enumerate(names - before.seen):
        if number % _NAMES_BETWEEN_LOOKS == 0 and time.thread_time() - started > MATCH_SECONDS:
            return Matched(names, frozenset(found), "it takes too long to match")
        if matches(name.encode()):
            found.add(name)
    return Matched(names, before.topics if found == before.topics else frozenset(found))


def fault_in(pattern: str) -> str | None:
    """Why a pattern is not accepted, None if it is. Compiling takes time: call it in a thread."""
    fault = match(pattern, frozenset()).fault
    _forget_compiled()
    return fault


class TopicPatterns:
    """The topics as machines see them (``TopicsImage``), with the matches of patterns."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: OrderedDict[str, Matched] = OrderedDict()
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

    def matched(self, pattern: str) -> Matched:
        """As ``prepare`` found it; it must have been called before."""
        self._known.move_to_end(pattern)
        return self._known[pattern]

    def ready(self, patterns: Collection[str]) -> bool:
        """All of them are matched to the topics that exist at this moment."""
        return self._version == self._topics.version and all(map(self._is_current, patterns))

    async def prepare(self, patterns: Collection[str]) -> None:
        """Match patterns to the topics; ``ready`` says whether other topics came meanwhile."""
        async with self._matching:
            if self._version != self._topics.version:
                names = frozenset(self._topics.names())
                self._version = self._topics.version
                # The same object as long as the names are the same: see ``_is_current``.
                self._names = self._names if names == self._names else names
            missing = {
                pattern: self._known.get(pattern, NOTHING)
                for pattern in patterns
                if not self._is_current(pattern)
            }
            if missing:
                found = await asyncio.to_thread(_match_all, missing, self._names)
                self._remember(found)

    def _is_current(self, pattern: str) -> bool:
        matched = self._known.get(pattern)
        return matched is not None and matched.seen is self._names

    def _remember(self, found: Mapping[str, Matched]) -> None:
        # Patterns that match the same topics share one set of them.
        shared = {matched.topics: matched.topics for matched in self._known.values()}
        for pattern, matched in found.items():
            topics = shared.setdefault(matched.topics, matched.topics)
            self._known[pattern] = Matched(matched.seen, topics, matched.fault)
            self._known.move_to_end(pattern)
        while len(self._known) > max(MAX_KNOWN, len(found)):
            self._known.popitem(last=False)


def _match_all(patterns: Mapping[str, Matched], names: frozenset[str]) -> dict[str, Matched]:
    found = {pattern: match(pattern, names, before) for pattern, before in patterns.items()}
    _forget_compiled()
    return found


def _forget_compiled() -> None:
    re2.purge()  # it keeps 128 compiled patterns, of up to max_mem each
