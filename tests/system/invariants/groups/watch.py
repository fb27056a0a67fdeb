"""Groups as someone outside of them sees them: at work, drained, and what they have committed."""

import asyncio
import contextlib
import time
from random import Random

from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.system.invariants.brokers import ServeProcesses
from tests.system.invariants.groups.fleet import Fleet
from tests.system.invariants.groups.history import Fetched, GroupHistory
from tests.system.invariants.producers.clients import BrokerConnection, Lost, now

START_SECONDS = 150.0
"""For many clients that start at once on a busy machine."""
DRAIN_SECONDS = 90.0
NOT_HERE = (
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)


async def until_at_work(fleet: Fleet) -> None:
    """Wait until every member has a share and every group has committed.

    Faults before that show little. A time-out names the members and groups that are missing.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        await asyncio.sleep(0.2)
        idle, silent = [], set(fleet.groups)
        for member in fleet.members:
            history = GroupHistory()
            history.read(member.group, member.written())
            if not any(claim.partitions for claim in history.claims):
                idle.append(member.files.name)
            silent -= {commit.group for commit in history.committed}
        if not idle and not silent:
            return
        assert time.monotonic() < deadline, (
            f"after {START_SECONDS} s: no partitions for {idle}, no commits of {sorted(silent)}"
        )


async def until_drained(
    cluster: ServeProcesses, fleet: Fleet, history: GroupHistory, partitions: int
) -> None:
    """Every group has committed the end of every partition."""
    async with await BrokerConnection.open(cluster.brokers[1]) as connection:
        ends = {
            partition: end
            for partition in range(partitions)
            if (end := (await connection.bounds(partition))[1])
        }
    wanted = {(group, partition): end for group in fleet.groups for partition, end in ends.items()}
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        latest = {(one.group, one.partition): one.offset for one in history.fetched}
        behind = {
            key: (latest.get(key), end) for key, end in wanted.items() if latest.get(key) != end
        }
        if not behind:
            return
        assert time.monotonic() < deadline, f"after {DRAIN_SECONDS} s without faults: {behind}"
        await asyncio.sleep(0.2)


async def watch_offsets(
    cluster: ServeProcesses, group: str, history: GroupHistory, rng: Random, stop: asyncio.Event
) -> None:
    """Read a group's committed offsets on and on, through any broker; no answer is no news.

    A broker that does not coordinate the group must say so, even if it did a moment ago.
    """
    while not stop.is_set():
        with contextlib.suppress(Lost):
            broker = rng.choice(list(cluster.brokers.values()))
            async with await BrokerConnection.open(broker) as connection:
                for _ in range(rng.randint(1, 10)):
                    invoked = now()
                    found = await _committed(connection, group)
                    completed = now()
                    history.fetched += [
                        Fetched(group, partition, offset, invoked, completed, broker.id)
                        for partition, offset in found.items()
                    ]
                    await asyncio.sleep(rng.uniform(0.05, 0.2))


async def _committed(connection: BrokerConnection, group: str) -> dict[int, int]:
    """What a broker says is committed; nothing where it does not coordinate the group."""
    asked = [{"group_id": group, "topics": None}]
    answer = await connection.call(ApiKey.OFFSET_FETCH, 8, groups=asked, require_stable=False)
    (found,) = answer.groups
    assert found.error_code in (Code.NONE, *NOT_HERE), found.error_code
    return {
        int(each.partition_index): int(each.committed_offset)
        for topic in found.topics
        for each in topic.partitions
        if each.error_code == 0 and each.committed_offset >= 0
    }
