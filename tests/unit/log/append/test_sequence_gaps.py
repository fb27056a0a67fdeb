"""Batches that leave a gap: neither taken for the first, nor at once reason for a new epoch.

A client has several batches in flight, and sends failed ones again in their order. Like librdkafka,
it takes an answer for one batch as proof that all earlier ones arrived. After error 45 it begins a
new epoch, and sends all unanswered batches again.
"""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.engine import Appended
from headwater.errors import NotLeaderOrFollower, StoreUnavailable
from headwater.log.append import sequence_gaps
from headwater.log.append.sequence_gaps import BEGIN_SECONDS, SequenceGaps, _Gap
from headwater.log.formats.wal_object import join_batches
from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.wire.batches.batch import MAX_SEQUENCE, Batch
from tests.support.log.harness import make_batch
from tests.support.log.writing import TroubledLogWriter, outcomes, simulate

OVERLAPPING = LogSettings(inline_bytes=0, flush_bytes=1, uploads=4)
DOWN = StoreUnavailable("down")


def send(
    bench: TroubledLogWriter, sequence: int, producer: int = 7, stream: int = 1, epoch: int = 0
) -> asyncio.Future[Appended]:
    batch = make_batch(b"%d" % sequence, producer_id=producer, epoch=epoch, sequence=sequence)
    return bench.writer.append(stream, [batch])


async def another(bench: TroubledLogWriter) -> TroubledLogWriter:
    """A second broker on the same metadata."""
    other = TroubledLogWriter(bench.loop, OVERLAPPING, bench.store, name="b")
    await other.start()
    return other


def test_batches_behind_one_that_failed_may_be_retried() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0), send(bench, 0, producer=8)]) == [0, 1]
        bench.object_faults.strike(range(1), DOWN)
        first = send(bench, 1)
        await asyncio.sleep(0.1)
        behind = [send(bench, 2), send(bench, 2, producer=8)]
        assert await outcomes([first, *behind]) == [
            "KafkaStorageError",
            "KafkaStorageError",
            "KafkaStorageError",
        ]
        assert await outcomes([send(bench, 1), send(bench, 2)]) == [2, 3]

    simulate(work)


def test_a_batch_behind_a_producers_first_is_not_taken_for_it() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1), DOWN)
        first = send(bench, 0)
        await asyncio.sleep(0.1)
        assert await outcomes([first, send(bench, 1)]) == ["KafkaStorageError"] * 2
        assert await outcomes([send(bench, 0), send(bench, 1)]) == [0, 1]

    simulate(work)


def test_a_producer_that_was_forgotten_goes_on_where_it_was() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 17)]) == ["KafkaStorageError"]
        await asyncio.sleep(BEGIN_SECONDS * 0.8)
        assert await outcomes([send(bench, 17)]) == ["KafkaStorageError"]
        await asyncio.sleep(BEGIN_SECONDS * 0.3)
        assert await outcomes([send(bench, 17), send(bench, 18)]) == [0, 1]

    simulate(work)


def test_a_producer_that_was_forgotten_does_not_go_on_behind_its_foremost_batch() -> None:
    """Its client would take the answer for one that all before it arrived."""

    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 18)]) == ["KafkaStorageError"]
        assert await outcomes([send(bench, 17)]) == ["KafkaStorageError"]
        await asyncio.sleep(BEGIN_SECONDS * 2)
        assert await outcomes([send(bench, 18)]) == ["KafkaStorageError"]
        assert await outcomes([send(bench, 17), send(bench, 18)]) == [0, 1]

    simulate(work)


def test_a_producer_that_was_forgotten_goes_on_with_the_batch_that_failed() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1), DOWN)
        assert await outcomes([send(bench, 17)]) == ["KafkaStorageError"]
        assert await outcomes([send(bench, 17)]) == ["KafkaStorageError"]
        await asyncio.sleep(BEGIN_SECONDS)
        assert await outcomes([send(bench, 17)]) == [0]

    simulate(work)


def test_a_gap_is_another_one_where_another_sequence_is_missing() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        other = await another(bench)
        assert await outcomes([send(bench, 0)]) == [0]
        assert await outcomes([send(bench, 2)]) == ["KafkaStorageError"]
        await asyncio.sleep(50)
        assert await outcomes([send(other, 1), send(other, 2)]) == [1, 2]
        for _ in range(6):
            assert await outcomes([send(bench, 4)]) == ["KafkaStorageError"]
            await asyncio.sleep(10)
        assert await outcomes([send(bench, 4)]) == ["OutOfOrderSequence"]
        await other.writer.close()

    simulate(work)


def test_a_batch_behind_the_expected_sequence_leaves_no_gap() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        sent = [send(bench, sequence) for sequence in range(8)]
        assert await outcomes(sent) == list(range(8))
        assert await outcomes([send(bench, 1)]) == ["OutOfOrderSequence"]
        assert await outcomes([send(bench, 9)]) == ["KafkaStorageError"]
        assert await outcomes([send(bench, 8), send(bench, 9)]) == [8, 9]

    simulate(work)


def test_only_producers_of_a_commit_are_asked_about() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        for producer in (7, 8):
            assert await outcomes([send(bench, 17, producer)]) == ["KafkaStorageError"]
        await asyncio.sleep(BEGIN_SECONDS)
        assert await outcomes([send(bench, 17, 8), send(bench, 17, 7)]) == [0, 1]

    simulate(work)


async def test_when_too_many_gaps_are_known_the_next_is_excused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequence_gaps, "MAX_REMEMBERED", 2)
    gaps = SequenceGaps()
    for producer in range(5):
        batch = make_batch(producer_id=producer, epoch=0, sequence=9)
        assert gaps.is_retriable(1, batch, 5)
        assert gaps.is_retriable(1, batch, -1)
    assert list(gaps._gaps) == list(gaps._new_producers) == [(1, 3), (1, 4)]


def test_a_new_producers_batch_waits_for_the_first_that_another_broker_holds() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        other = await another(bench)
        bench.object_faults.strike(range(1))  # an upload that takes its time
        held = send(bench, 0)
        await asyncio.sleep(0.1)
        assert await outcomes([send(other, 1)]) == ["KafkaStorageError"]
        assert await outcomes([send(other, 0), send(other, 1)]) == [0, 1]
        bench.object_faults.stop()
        assert await outcomes([held]) == [0]
        assert max(end for _, _, end in bench.commits + other.commits) == 2
        await other.writer.close()

    simulate(work, OVERLAPPING)


def test_a_batch_does_not_begin_an_epoch_while_another_broker_holds_the_one_in_front() -> None:
    """librdkafka may send a batch to the next broker before the one in front of it."""

    async def work(bench: TroubledLogWriter) -> None:
        other = await another(bench)
        assert await outcomes([send(bench, 0)]) == [0]
        bench.object_faults.strike(range(1))
        held = send(bench, 1)
        await asyncio.sleep(20)
        assert await outcomes([send(other, 2)]) == ["KafkaStorageError"]
        bench.object_faults.stop()
        assert await outcomes([held]) == [1]
        assert await outcomes([send(other, 1), send(other, 2)]) == [1, 2]
        await other.writer.close()

    simulate(work, OVERLAPPING)


def test_a_gap_that_stays_is_the_producers_own() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0)]) == [0]
        for _ in range(6):
            assert await outcomes([send(bench, 2)]) == ["KafkaStorageError"]
            await asyncio.sleep(10)
        assert await outcomes([send(bench, 2)]) == ["OutOfOrderSequence"]
        assert await outcomes([send(bench, 1), send(bench, 3)]) == [1, "KafkaStorageError"]

    simulate(work)


def test_a_gap_is_a_new_one_after_a_pause() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0)]) == [0]
        for _ in range(3):
            assert await outcomes([send(bench, 2)]) == ["KafkaStorageError"]
            await asyncio.sleep(61)

    simulate(work)


def test_an_earlier_batch_that_lands_late_does_not_explain_the_gap_away() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0)]) == [0]
        bench.meta_faults.strike(range(1))  # the commit of 1 hangs
        sent = [send(bench, 1)]
        await asyncio.sleep(0.1)
        bench.object_faults.strike(range(1), DOWN)  # and the upload of 2 fails
        sent.append(send(bench, 2))
        await asyncio.sleep(0.1)
        sent.append(send(bench, 3))
        await asyncio.sleep(0.1)
        bench.meta_faults.stop()
        assert await outcomes(sent) == [1, "KafkaStorageError", "KafkaStorageError"]
        assert await outcomes([send(bench, 2), send(bench, 3)]) == [2, 3]

    simulate(work, OVERLAPPING)


def test_what_expires_before_and_after_a_commit_began_is_remembered() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0)]) == [0]
        bench.meta_faults.strike(range(1))
        sent = [send(bench, 1)]
        await asyncio.sleep(0.1)
        sent.append(send(bench, 2))
        await asyncio.sleep(30.05)
        sent.append(send(bench, 3))
        await asyncio.sleep(0.1)
        bench.meta_faults.stop()
        timed_out = ["RequestTimedOut", "RequestTimedOut"]
        assert await outcomes(sent) == [*timed_out, "KafkaStorageError"]
        assert await outcomes([send(bench, n) for n in (1, 2, 3)]) == [1, 2, 3]

    simulate(work, LogSettings())


def test_batches_behind_one_that_a_fenced_name_refused_may_be_retried() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([send(bench, 0)]) == [0]
        await fence(bench.store, "a")
        for sequence in (1, 2):
            with pytest.raises(NotLeaderOrFollower):
                await send(bench, sequence)
        await bench.start()
        bench.writer = bench.make_writer()  # the broker's next name
        assert await outcomes([send(bench, 3)]) == ["KafkaStorageError"]

    simulate(work)


@pytest.mark.parametrize("first", [0, 1], ids=["new producer", "known producer"])
def test_a_fenced_name_refuses_what_is_under_way_at_once(first: int) -> None:
    """What its producers send next goes to the broker's next name, and may be there sooner."""

    async def work(bench: TroubledLogWriter) -> None:
        for sequence in range(first):
            await send(bench, sequence)
        bench.meta_faults.strike(range(1))
        other = send(bench, 0, producer=8, stream=2)
        await asyncio.sleep(0.1)
        bench.object_faults.strike(range(1))  # an upload that takes its time
        slow = send(bench, first)
        await asyncio.sleep(0.1)
        await fence(bench.store, "a")
        bench.meta_faults.stop()
        assert await outcomes([other, slow]) == ["Fenced", "Fenced"]
        old = bench.writer
        await bench.start()
        bench.writer = bench.make_writer()
        assert await outcomes([send(bench, first + 1)]) == ["KafkaStorageError"]
        bench.object_faults.stop()
        await old.close()
        assert await outcomes([send(bench, first), send(bench, first + 1)]) == [first, first + 1]

    simulate(work, OVERLAPPING)


def test_a_new_producer_does_not_begin_behind_a_batch_that_failed() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1), DOWN)
        assert await outcomes([send(bench, 0)]) == ["KafkaStorageError"]
        for _ in range(59):
            assert await outcomes([send(bench, 1)]) == ["KafkaStorageError"]
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert await outcomes([send(bench, 1)]) == [0]

    simulate(work)


async def test_the_furthest_failure_counts_across_epochs_and_the_end_of_the_numbers() -> None:
    gaps = SequenceGaps()

    def batch(sequence: int, epoch: int = 0) -> Batch:
        return make_batch(producer_id=7, epoch=epoch, sequence=sequence)

    def failing() -> bool:
        """A failure keeps a producer without state from beginning, however often it comes."""
        now = asyncio.get_running_loop().time()
        gaps._new_producers[1, 7] = _Gap((0, 3), now - BEGIN_SECONDS, now)
        return gaps.accepted_starts([join_batches(1, [batch(3)])]) == {}

    gaps.failed(1, [batch(1)])
    gaps.failed(1, [batch(MAX_SEQUENCE)])
    assert failing()
    gaps.arrived(1, batch(MAX_SEQUENCE))
    assert failing()
    gaps.arrived(2, batch(1))
    gaps.arrived(1, make_batch(producer_id=8, epoch=0, sequence=1))
    assert failing()
    gaps.arrived(1, batch(1))
    assert not failing()
    gaps.failed(1, [batch(0, epoch=2)])
    gaps.failed(1, [batch(9, epoch=1)])
    gaps.arrived(1, batch(9, epoch=1))
    assert failing()
    gaps.arrived(1, batch(1, epoch=2))
    assert not failing()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_client_with_five_under_way_never_gets_45_and_loses_nothing(seed: int) -> None:
    """Stores hang and fail at random; the client sends again what failed, in its order."""
    count = 12

    async def work(bench: TroubledLogWriter) -> None:
        random = Random(seed)
        bench.meta_faults.stop()
        acknowledged = -1
        while acknowledged < count - 1:
            sent: dict[int, asyncio.Future[Appended]] = {}
            for sequence in range(acknowledged + 1, min(acknowledged + 6, count)):
                for faults in (bench.object_faults, bench.meta_faults):
                    choice = random.random()
                    if choice < 0.15:
                        faults.strike(range(1), DOWN)
                    elif choice < 0.3:
                        faults.released.clear()
                        faults.strike(range(1))
                    elif choice < 0.6:
                        faults.stop()
                sent[sequence] = send(bench, sequence)
                await asyncio.sleep(random.choice((0, 0.001, 0.1, 2)))
            bench.object_faults.stop()
            bench.meta_faults.stop()
            for sequence, outcome in zip(sent, await outcomes(list(sent.values())), strict=True):
                assert outcome != "OutOfOrderSequence"
                if not isinstance(outcome, str):
                    acknowledged = sequence  # and, to the client, all before it
        ends = [(start, end) for _, start, end in bench.commits if end > start]
        assert ends[0][0] == 0
        assert ends[-1][1] == count, "each once, and none is missing"

    simulate(work, LogSettings(inline_bytes=0, flush_bytes=1, uploads=4, append_timeout_ms=1_500))
