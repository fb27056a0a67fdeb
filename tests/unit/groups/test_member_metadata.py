"""Whatever members put into their metadata, a group goes on: what does not parse says nothing."""

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.groups.classic.subscription import subscribed_topics
from headwater.groups.consumer.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import DrivenGroup
from tests.support.groups.consumer_mixed import MixedWorld

COUNTS = (-(2**31), -2, -1, 2**24, 2**31 - 1)
HEADS = [version.to_bytes(2, "big") for version in range(5)]


def with_count(count: int) -> list[bytes]:
    """Metadata in which an array claims ``count`` elements: topics, owned partitions, numbers."""
    claim = count.to_bytes(4, "big", signed=True)
    one = b"\0\0\0\1\0\1t"
    bodies = (claim, one + b"\xff\xff\xff\xff" + claim, one + claim, b"\0\0\0\1" + claim)
    return [head + body + b"\0" * 20 for head in HEADS for body in bodies]


def resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("count", COUNTS)
def test_counts_in_metadata_are_checked_against_its_size(count: int) -> None:
    before = resident_kib()
    for data in with_count(count):
        read_subscription(data)
        read_assignment(data)
        subscribed_topics([data])
    for head in HEADS:
        claim = head + count.to_bytes(4, "big", signed=True)
        assert read_subscription(claim) is None
        assert read_assignment(claim) is None
        assert subscribed_topics([claim]) is None
    assert resident_kib() - before < 10_240


READ_IN_LITTLE_MEMORY = """
import resource
from headwater.groups.classic.subscription import subscribed_topics
from headwater.groups.consumer.consumer_protocol import read_subscription
resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
for data in (b"\\0\\1\\x7f\\xff\\xff\\xff", b'{"topics": ["orders"]}'):
    print(read_subscription(data), subscribed_topics([data]))
"""


def test_process_survives_metadata_whose_counts_exceed_the_memory() -> None:
    child = subprocess.run(
        [sys.executable, "-c", READ_IN_LITTLE_MEMORY], capture_output=True, text=True, check=False
    )
    assert (child.returncode, child.stdout) == (0, "None None\n" * 2)


@given(data=st.binary(max_size=40), version=st.integers(-1, 4))
def test_arbitrary_metadata_reads_as_something_or_nothing(data: bytes, version: int) -> None:
    whole = version.to_bytes(2, "big", signed=True) + data
    read_subscription(whole)
    read_assignment(whole)
    subscribed_topics([whole])


@pytest.mark.parametrize("count", COUNTS)
def test_classic_group_rebalances_with_a_member_whose_metadata_cannot_be_read(count: int) -> None:
    broken = b"\0\0" + count.to_bytes(4, "big", signed=True)
    group = DrivenGroup()
    group.stable(2, protocols=(("range", broken),))
    assert group.machine.state == "Stable"
    assert group.machine.subscribed_to("any"), "its topics are unknown"
    group.restart()
    assert group.machine.state == "Stable"
    assert group.machine.subscribed_to("any")


@pytest.mark.parametrize("count", COUNTS)
def test_consumer_group_refuses_a_classic_member_whose_metadata_cannot_be_read(count: int) -> None:
    world = MixedWorld(t=1)
    world.join("new")
    broken = b"\0\1" + count.to_bytes(4, "big", signed=True)
    reply = world.joined(world.join_classic(metadata=broken))
    assert reply.error == Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.beat("new", 1).error == 0


def test_upgrade_ignores_partitions_that_do_not_exist() -> None:
    world = MixedWorld(t=2, u=1)
    ticket = world.join_classic(instance="a")
    world.pass_time(0)
    member = world.joined(ticket)
    given = write_assignment({"t": (-3, 1, 2, 2**31 - 1)}, b"\0\0")
    world.sync(member.member_id, member.generation, {member.member_id: given}, instance="a")
    # Members with different subscriptions, because that assignor counts by partition number.
    assert world.join("new", ("t", "u")).error == 0
    described = world.consumer.describe(world.topics)
    held = {m.member_id: dict(m.assigned) for m in described.members}
    assert held[member.member_id] == world.partitions("t", 1)
