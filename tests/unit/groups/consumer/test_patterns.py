"""Patterns that clients choose: bounded, matched in a thread, and only to what is new."""

import asyncio
import threading
import time

import pytest

from headwater.groups.bounds import MAX_PATTERN_CHARS, MAX_PATTERNS
from headwater.groups.consumer import patterns
from headwater.groups.consumer.patterns import PatternMatch, TopicPatterns, match
from headwater.groups.requests import ClientIdentity, ConsumerHeartbeatRequest
from headwater.wire.error_codes import Code
from tests.support.groups.cluster import SharedTopics, one_node
from tests.support.groups.consumer_world import ConsumerGroupWorld

LONG_NAMES = frozenset(f"topic-{'ab' * 60}-{n:04d}" for n in range(2_000))


def joining(member: str, pattern: str | None, epoch: int = 0) -> ConsumerHeartbeatRequest:
    return ConsumerHeartbeatRequest(
        client=ClientIdentity("app", "/127.0.0.1"),
        member_id=member,
        epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        topic_regex=pattern,
        owned={} if epoch == 0 else None,
    )


@pytest.mark.parametrize(
    "pattern",
    ["a" * (MAX_PATTERN_CHARS + 1), r"\p{L}" * 800, "(", "(a{0,1000}){0,1000}"],
    ids=["length", "memory", "syntax", "repetition"],
)
def test_pattern_beyond_the_bounds_is_refused(pattern: str) -> None:
    world = ConsumerGroupWorld(t=1)
    reply = world.join("a", None, regex=pattern)
    assert reply.error == Code.INVALID_REGULAR_EXPRESSION
    assert len(reply.message or "") < 500
    assert world.records == {}


def test_pattern_that_takes_too_long_is_refused() -> None:
    started = time.thread_time()
    matched = match("(?:.*[ab].{0,20}){40}", LONG_NAMES)
    assert matched.fault == "it takes too long to match"
    assert time.thread_time() - started < 3 * patterns.MATCH_SECONDS


def test_groups_in_a_pattern_cost_nothing() -> None:
    assert match("(a|b|.)*" * 200, LONG_NAMES).topics == LONG_NAMES


def test_pattern_means_what_it_means_in_kafka() -> None:
    names = frozenset({"logs.a", "logs.b", "Logs.a", "my.logs.a", "logs.ü"})
    assert match(r"logs\.[a-z]", names).topics == {"logs.a", "logs.b"}
    assert match(r"(?i)logs\.(a)", names).topics == {"logs.a", "Logs.a"}
    assert match(r"logs\..", names).topics == {"logs.a", "logs.b", "logs.ü"}


async def test_only_new_topics_are_matched_and_never_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, int]] = []

    def counted(
        pattern: str, names: frozenset[str], before: PatternMatch = patterns.NOTHING_MATCHED
    ) -> PatternMatch:
        assert threading.current_thread() is not threading.main_thread()
        seen.append((pattern, len(names - before.seen)))
        return match(pattern, names, before)

    monkeypatch.setattr(patterns, "match", counted)
    topics = SharedTopics(**{f"logs{n}": 1 for n in range(50)})
    async with one_node(topics) as node:

        async def beat(group: str, member: str, pattern: str | None, epoch: int = 0) -> int:
            reply = await node.groups.consumer_heartbeat(group, joining(member, pattern, epoch))
            assert reply.error == 0
            return len(reply.assignment or ())

        assert await beat("g", "a", "logs.*") == 50
        assert await beat("g", "b", "logs.*") == 0, "the first member has them all"
        assert await beat("h", "a", "logs.*") == 50
        assert await beat("h", "a", "other.*") == 0
        assert seen == [("logs.*", 50), ("other.*", 50)]
        topics.make("logs-new", 1)
        topics.drop("logs0")
        seen.clear()
        assert await beat("i", "a", "logs.*") == 50
        assert await beat("j", "a", "logs.*") == 50
        assert seen == [("logs.*", 1)]


async def test_topics_that_are_created_during_matching_are_matched_too() -> None:
    topics = SharedTopics(a1=1)
    image = TopicPatterns(topics)
    preparing = asyncio.create_task(image.prepare(["a.*"]))
    await asyncio.sleep(0)
    topics.make("a2", 1)
    await preparing
    assert not image.ready(["a.*"])
    await image.prepare(["a.*"])
    assert image.ready(["a.*"])
    assert image.matched("a.*").topics == {"a1", "a2"}


async def test_no_more_patterns_are_remembered_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "MAX_REMEMBERED", 3)
    image = TopicPatterns(SharedTopics(a=1, b=1))
    for pattern in ("a", "b", "a|b", "b|a"):
        await image.prepare([pattern])
    assert [image.ready([pattern]) for pattern in ("a", "b", "a|b", "b|a")] == [
        False,
        True,
        True,
        True,
    ]
    assert image.matched("a|b").topics is image.matched("b|a").topics


def test_a_group_has_a_bounded_number_of_patterns() -> None:
    world = ConsumerGroupWorld(t=1)
    for number in range(MAX_PATTERNS):
        assert world.join(f"m{number}", None, regex=f"t{number}").error == 0
    assert world.join("more", None, regex="another").error == Code.UNKNOWN_SERVER_ERROR
    assert world.join("more", None, regex="t0").error == 0
