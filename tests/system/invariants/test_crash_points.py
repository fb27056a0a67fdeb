"""Crashes and pauses at the lines that matter, on real processes (I3 and I4).

Broker 1 ends or stops itself where the test says; broker 2 is well.
"""

from pathlib import Path

from tests.support.waiting import eventually
from tests.system.invariants.checker import violations
from tests.system.invariants.cluster import LocalCluster, running_cluster
from tests.system.invariants.history import History, Produced
from tests.system.invariants.producers.clients import BrokerConnection, Lost, encode, now
from tests.system.invariants.schedule import read_finals

FILLER = b"." * 3_000
"""Enough for an object of its own."""
STRIKE = (b"STRIKE one" + FILLER, b"STRIKE two" + FILLER)
NOT_LEADER = 6


async def produce(
    history: History,
    cluster: LocalCluster,
    broker: int,
    values: tuple[bytes, ...],
    *,
    producer_id: int = -1,
    number: int = 0,
    sequence: int = 0,
) -> Produced:
    """One batch through one broker; ``offset`` is None where the answer was lost or an error."""
    invoked, error, offset = now(), 0, None
    try:
        async with await BrokerConnection.open(cluster.brokers[broker]) as connection:
            data = encode(values, producer_id=producer_id, sequence=sequence)
            await connection.send_batch(0, data)
            error, offset = await connection.receive_offset()
    except Lost:
        pass
    done = Produced(
        f"producer {producer_id}", producer_id >= 0, number, 0, broker, values,
        None if error else offset, error, invoked, now(),
    )  # fmt: skip
    history.produced.append(done)
    return done


async def prepare(cluster: LocalCluster) -> int:
    """Create the topic; returns a producer id."""
    async with await BrokerConnection.open(cluster.brokers[2]) as connection:
        await connection.create_topic(1)
        return await connection.producer_id()


async def assert_kept(cluster: LocalCluster, history: History) -> None:
    await read_finals(cluster, history, 1)
    assert violations(history) == []
    assert cluster.crashes() == []


async def test_a_crash_between_object_and_commit_shows_nothing_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, 2, faults={1: "before-commit=kill"}) as cluster:
        history = History()
        producer_id = await prepare(cluster)
        lost = await produce(history, cluster, 1, STRIKE, producer_id=producer_id)
        assert lost.offset is None
        assert await cluster.brokers[1].ended() == -9
        assert len(cluster.objects()) == 1
        assert cluster.named_objects() == set()
        assert cluster.high_watermarks() == []
        after = await produce(
            history, cluster, 2, (b"after",), producer_id=producer_id, number=0, sequence=0
        )
        assert after.offset == 0
        history.produced.remove(lost)  # it must not be there
        await cluster.wait_until_only_named_objects_are_left()
        await cluster.brokers[1].start()
        await assert_kept(cluster, history)


async def test_a_crash_between_commit_and_answer_repeats_a_batch_only_of_a_plain_producer(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, 2, faults={1: "after-commit=kill"}) as cluster:
        history = History()
        producer_id = await prepare(cluster)
        end = 0
        for values, producer in [
            (STRIKE, producer_id),
            ((b"STRIKE inline",), producer_id),
            ((b"STRIKE plain",), -1),
        ]:
            idempotent = producer >= 0
            order = {"producer_id": producer, "number": int(end > 0), "sequence": end}
            lost = await produce(history, cluster, 1, values, **order)
            assert lost.offset is None
            assert await cluster.brokers[1].ended() == -9
            assert cluster.high_watermarks() == [end + len(values)]
            again = await produce(history, cluster, 2, values, **order)
            assert again.offset == (end if idempotent else end + len(values))
            end += len(values)
            await cluster.brokers[1].start()
        await assert_kept(cluster, history)


async def test_a_broker_stopped_before_its_commit_and_fenced_commits_nothing_when_it_wakes(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, 2, faults={1: "before-commit=stop"}) as cluster:
        history = History()
        producer_id = await prepare(cluster)
        (old,) = cluster.incarnations(1)
        async with await BrokerConnection.open(cluster.brokers[1]) as connection:
            await connection.send_batch(0, encode(STRIKE, producer_id=producer_id, sequence=0))
            await eventually(lambda: len(cluster.objects()) == 1)
            await eventually(lambda: old not in cluster.incarnations(1))
            await eventually(lambda: not cluster.objects())
            cluster.brokers[1].resume()
            assert await connection.receive_offset() == (NOT_LEADER, -1)
        assert cluster.high_watermarks() == []
        first = await produce(history, cluster, 2, (b"first",), producer_id=producer_id)
        assert first.offset == 0
        await eventually(lambda: bool(cluster.incarnations(1)))
        second = await produce(
            history, cluster, 1, (b"second",), producer_id=producer_id, number=1, sequence=1
        )
        assert second.offset == 1
        await assert_kept(cluster, history)


async def test_a_crash_around_a_merge_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    faults = {1: "before-swap=kill", 2: "after-swap=kill"}
    async with running_cluster(
        tmp_path, 2, faults=faults, inline_bytes=0, merge_fan_in=4, sweep_interval_ms=60_000
    ) as cluster:
        history = History()
        producer_id = await prepare(cluster)
        number = 0

        async def produce_next(broker: int) -> bool:
            """The next batch, or the last again where its answer was lost; True with an answer."""
            nonlocal number
            done = await produce(
                history, cluster, broker, (b"%d" % number,),
                producer_id=producer_id, number=number, sequence=number,
            )  # fmt: skip
            assert done.offset in {None, number}
            number += done.offset is not None
            return done.offset is not None

        for broker in cluster.brokers.values():
            while await produce_next(broker.id):
                pass  # until a merge is worth while, and fatal
            assert await broker.ended() == -9
        for broker in cluster.brokers.values():
            broker.environment["FAULTS"] = ""
            await broker.start()
        assert await produce_next(1)
        await cluster.wait_until_only_named_objects_are_left()
        await assert_kept(cluster, history)
