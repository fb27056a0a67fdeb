"""The writer: order, bounds, time limits and failures, on simulated time."""

import asyncio
from functools import partial
from random import Random

import pytest

from headwater.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageFull,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.log.append.write_buffer import APPEND_BYTES
from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits
from tests.support.log.writing import TroubledLogWriter, outcomes, simulate


def test_commits_keep_the_order_of_appends_though_uploads_overlap() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1))  # the first upload hangs
        first = bench.append(b"1" * 50)
        await asyncio.sleep(0.1)
        second = [bench.append(b"2" * 100) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert bench.objects.traffic.puts == 1
        assert not bench.commits
        bench.object_faults.stop()
        assert await outcomes([first, *second]) == [0, 1, 2, 3]
        assert bench.commits == [(1, 0, 1), (1, 1, 4)]

    simulate(work, LogSettings(inline_bytes=0, flush_bytes=200))


def test_appends_of_any_number_of_streams_land_in_order_in_parts() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        rng = Random(3)
        sent = [rng.randrange(9) for _ in range(200)]
        futures = []
        for number, stream in enumerate(sent):
            futures.append(bench.append(b"%d" % number, stream))
            if not rng.randrange(10):
                await asyncio.sleep(0)
        expected, counts = [], dict.fromkeys(range(9), 0)
        for stream in sent:
            expected.append(counts[stream])
            counts[stream] += 1
        assert await outcomes(futures) == expected

    simulate(work, store=MemoryStore(Limits(operations=7)))


def test_a_lost_answer_appends_nothing_twice() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        for number in range(4):
            bench.meta_faults.strike(range(2), UnknownOutcome("lost"), after=True)
            assert await outcomes([bench.append(), bench.append()]) == [2 * number, 2 * number + 1]

    simulate(work)
    simulate(work, LogSettings())


def test_a_failed_upload_fails_its_own_batches_and_no_others() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1, 2), StoreUnavailable("down"))
        first = bench.append()
        await asyncio.sleep(0.1)
        failing = [bench.append(), bench.append(stream=2)]
        await asyncio.sleep(0.1)
        later = bench.append()
        assert await outcomes([first, *failing, later]) == [
            0,
            "KafkaStorageError",
            "KafkaStorageError",
            1,
        ]

    simulate(work)


def test_a_full_store_is_a_storage_error() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1), StorageFull("no space left"))
        with pytest.raises(KafkaStorageError, match="no space left"):
            await bench.append()
        bench.meta_faults.strike(range(1), StorageFull("no space left"))
        with pytest.raises(KafkaStorageError, match="no space left"):
            await bench.append()
        assert await outcomes([bench.append()]) == [0]

    simulate(work)


def test_a_fenced_writer_refuses_everything_at_once() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        await fence(bench.store, "a")
        bench.object_faults.strike(range(1))
        first = bench.append()
        await asyncio.sleep(0.1)
        waiting = bench.append(stream=2)
        bench.object_faults.stop()
        for future in (first, waiting, bench.append()):
            with pytest.raises(NotLeaderOrFollower):
                await future
        assert bench.writer.failed.is_set()
        assert bench.writer.buffer_limit.has_room
        with pytest.raises(NotLeaderOrFollower):
            await bench.append()

    simulate(work)


@pytest.mark.parametrize("objects", [True, False])
def test_appends_time_out_while_a_store_hangs_whenever_they_came(objects: bool) -> None:
    async def work(bench: TroubledLogWriter) -> None:
        faults = bench.object_faults if objects else bench.meta_faults
        faults.strike(range(10**6))
        ended: dict[int, float] = {}

        def note(number: int, _future: object) -> None:
            ended[number] = bench.loop.time()

        pending = []
        for number in range(20):
            future = bench.append(b"%d" % number)
            future.add_done_callback(partial(note, number))
            pending.append(future)
            await asyncio.sleep(0.5)
        assert set(await outcomes(pending)) == {"RequestTimedOut"}
        assert all(ended[number] <= number * 0.5 + 2.001 for number in range(20))
        faults.stop()
        offset = (await bench.append()).base_offset
        # What waited for a flush when its time ran out is never written.
        assert offset == 1 if objects else offset <= 20

    simulate(work, LogSettings(inline_bytes=0, append_timeout_ms=2_000))


def test_buffered_bytes_are_bounded_by_closing_the_room() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(10**6), StoreUnavailable("down"))
        futures = []
        while bench.writer.buffer_limit.has_room:
            futures.append(bench.append(b"x" * 100))
        assert 30_000 <= bench.writer.buffer_limit.bytes < 30_000 + 161 + APPEND_BYTES
        assert len(futures) == 1 + 30_000 // APPEND_BYTES
        waiting = asyncio.create_task(bench.writer.buffer_limit.wait_for_room())
        await asyncio.sleep(1)
        assert not waiting.done()
        bench.meta_faults.stop()
        await waiting
        assert await outcomes(futures) == list(range(len(futures)))

    simulate(work, LogSettings(inline_bytes=0, buffer_bytes=30_000))


def test_a_client_that_disconnects_does_not_disturb_others() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1))
        futures = [bench.append() for _ in range(4)]
        await asyncio.sleep(0.1)
        futures[1].cancel()
        futures[2].cancel()
        bench.object_faults.stop()
        assert await outcomes(futures) == [0, "CancelledError", "CancelledError", 3]

    simulate(work)


def test_closing_flushes_what_is_buffered_even_before_the_next_flush_is_due() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append()]) == [0]
        pending = [bench.append(stream=stream) for stream in range(3)]
        await bench.writer.close()
        assert bench.loop.time() < 1
        assert await outcomes(pending) == [0, 1, 0]
        with pytest.raises(RequestTimedOut):
            await bench.append()

    simulate(work, LogSettings(inline_bytes=0, flush_interval_ms=60_000))


def test_flushes_keep_their_interval_on_a_paid_store() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        futures = []
        for _ in range(100):
            futures.append(bench.append())
            await asyncio.sleep(0.01)
        await outcomes(futures)
        assert bench.objects.traffic.puts <= 6

    simulate(work, LogSettings(inline_bytes=0, flush_interval_ms=250))


def test_a_slow_upload_does_not_hold_up_the_next_flush_on_a_paid_store() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1))  # the first upload hangs
        first = bench.append()
        await asyncio.sleep(0.1)
        second = bench.append()
        await asyncio.sleep(0.2)
        assert bench.objects.traffic.puts == 1
        assert not bench.commits
        bench.object_faults.stop()
        assert await outcomes([first, second]) == [0, 1]

    simulate(work, LogSettings(inline_bytes=0, flush_interval_ms=250))


def test_small_flushes_travel_without_an_object() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append(b"x" * 30)]) == [0]
        assert bench.objects.traffic.puts == 0
        assert await outcomes([bench.append(b"x" * 100)]) == [1]
        assert bench.objects.traffic.puts == 1

    simulate(work, LogSettings(inline_bytes=100))


def test_small_flushes_go_to_objects_while_the_metadata_store_is_crowded() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        for _ in range(20):
            await bench.append(b"x" * 39)  # a hundred bytes
        assert bench.objects.traffic.puts == 0
        bench.writer._budget.added(9, 1_500)
        await bench.append(b"x" * 39)
        assert bench.objects.traffic.puts == 1
        bench.writer._budget.measured(9, 0)
        await bench.append(b"x" * 39)
        assert bench.objects.traffic.puts == 1

    simulate(work, LogSettings(inline_bytes=1_000), MemoryStore(Limits(inline_bytes=1_500)))
