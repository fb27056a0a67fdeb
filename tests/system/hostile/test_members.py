"""A member's metadata does not harm other groups."""

import pytest

from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import request_frame
from tests.system.hostile.harness import Target, read_reply

METADATA = {
    "an array of 2^31-1 topics": b"\0\1\x7f\xff\xff\xff",
    "JSON": b'{"version": 1, "topics": ["orders"]}',
    "a negative count": b"\0\1\xff\xff\xff\xf0" + b"\0" * 20,
}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA.keys())
async def test_malformed_member_metadata_does_not_stop_the_broker(
    broker: Target, metadata: bytes
) -> None:
    frame = request_frame(
        ApiKey.JOIN_GROUP,
        3,
        1,
        group_id="strangers",
        session_timeout=6_000,
        rebalance_timeout=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )
    async with broker.watched():
        assert await broker.attack(frame) is not None


async def test_a_group_that_is_too_large_is_refused_and_other_groups_continue(
    broker: Target,
) -> None:
    def join(group: str, metadata: bytes) -> bytes:
        return request_frame(
            ApiKey.JOIN_GROUP,
            3,
            1,
            group_id=group,
            session_timeout=6_000,
            rebalance_timeout=6_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": metadata}],
        )

    many_topics = b"\0\0" + (300_000).to_bytes(4) + b"\0\1t" * 300_000 + b"\xff\xff\xff\xff"
    frames = [join("greedy", b"x" * 1_100_000), join("many", many_topics), join("g" * 30_000, b"")]
    async with broker.watched():
        for frame, code in zip(frames, (-1, 0, 24), strict=True):
            reply = await broker.attack(frame)
            assert reply is not None
            assert read_reply(reply, ApiKey.JOIN_GROUP, 3).error_code == code


async def test_patterns_do_not_delay_other_clients(broker: Target) -> None:
    topics = [
        {
            "name": f"{'ab' * 100}{number}",
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        for number in range(200)
    ]
    await broker.call(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=10_000, validate_only=False)
    slow = "(a|b|.)*" * 200, "((a*)*(b*)*.*)" * 150, "(?:.*[ab].{0,20}){40}", r"\p{L}" * 800
    patterns = [*slow, "(a|b)" * 6_000]
    frames = [
        request_frame(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            1,
            group_id="patterns",
            member_id=f"m{number}",
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=None,
            subscribed_topic_regex=pattern,
            server_assignor=None,
            topic_partitions=[],
        )
        for number, pattern in enumerate(patterns * 3)
    ]
    async with broker.watched():
        for frame in frames:
            assert await broker.attack(frame) is not None


async def test_a_group_with_very_many_partitions_does_not_delay_other_clients(
    broker: Target,
) -> None:
    names = [f"large-{number}" for number in range(21)]
    for name in names:
        await broker.create_topic(name, 10_000)
    frames = [
        request_frame(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            1,
            group_id=f"large-{assignor}",
            member_id=member,
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=names,
            subscribed_topic_regex=None,
            server_assignor=assignor,
            topic_partitions=[],
        )
        for assignor in ("uniform", "range")
        for member in ("a", "b")
    ]
    async with broker.watched():
        for frame in frames:
            reply = await broker.attack(frame)
            assert reply is not None
            assert (
                read_reply(reply, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).error_code
                == Code.UNKNOWN_SERVER_ERROR
            )
    for name in names:
        topics = [{"name": name, "topic_id": None}]
        await broker.call(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=10_000)
