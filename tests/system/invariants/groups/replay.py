"""Members that do not know that others have replaced them, in their purest form.

librdkafka notices by itself that it slept past its session and gives up before it commits. So
commits that members did are done again, word for word, after another member was given the
partition: through any broker, also one that coordinated the group until a moment ago.
"""

import asyncio
import contextlib
from dataclasses import replace
from random import Random

from tests.system.invariants.brokers import ServeProcesses
from tests.system.invariants.groups.fleet import Fleet
from tests.system.invariants.groups.history import UNKNOWN, AcknowledgedCommit, GroupHistory
from tests.system.invariants.producers.clients import TOPIC, BrokerConnection, Lost, now

OFFSET_COMMIT = 8
AT_ONCE = 10


async def replay_late_commits(
    cluster: ServeProcesses, fleet: Fleet, history: GroupHistory, rng: Random, stop: asyncio.Event
) -> None:
    """Until ``stop``; what a broker accepts goes into the history, for the checker to judge."""
    while not stop.is_set():
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        late = late_commits(fleet)
        for commit in rng.sample(late, min(AT_ONCE, len(late))):
            with contextlib.suppress(Lost):
                broker = rng.choice(list(cluster.brokers.values()))
                async with await BrokerConnection.open(broker) as connection:
                    await _replay(connection, commit, history)


def late_commits(fleet: Fleet) -> list[AcknowledgedCommit]:
    """Commits for partitions that another member has been given in a later generation.

    Of members with ids of their own: a static one's is taken over by its next process.
    """
    seen = GroupHistory()
    fleet.tell(seen)
    given = {
        (claim.group, partition, claim.owner, claim.generation)
        for claim in seen.claims
        for partition in claim.partitions
    }
    latest: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for group, partition, owner, generation in given:
        latest.setdefault((group, partition), []).append((owner, generation))
    return [
        commit
        for commit in seen.committed
        if commit.generation != UNKNOWN
        and commit.owner not in fleet.static
        and any(
            owner != commit.owner and generation > commit.generation
            for owner, generation in latest.get((commit.group, commit.partition), ())
        )
    ]


async def _replay(
    connection: BrokerConnection, commit: AcknowledgedCommit, history: GroupHistory
) -> None:
    invoked = now()
    answer = await connection.call(
        OFFSET_COMMIT, 9, group_id=commit.group, member_id=commit.owner,
        generation_id_or_member_epoch=commit.generation, group_instance_id=None,
        topics=[{"name": TOPIC, "partitions": [
            {"partition_index": commit.partition, "committed_offset": commit.offset,
             "committed_leader_epoch": -1, "committed_metadata": ""}]}],
    )  # fmt: skip
    (partition,) = answer.topics[0].partitions
    if partition.error_code:
        history.refused += 1
        return
    accepted = replace(commit, invoked=invoked, completed=now())
    history.committed.append(accepted)
