"""Where objects are paid for, small flushes of streams that are not busy wait for no PUT."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine import Appended
from headwater.log.append.write_buffer import WriteBuffer
from headwater.log.settings import LogSettings
from tests.support.log.harness import make_batch
from tests.support.log.writing import SlowCommits, TroubledLogWriter, outcomes, simulate

PAID = LogSettings(inline_bytes=1_000, flush_interval_ms=250, flush_bytes=100_000)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50), st.booleans())))
def test_a_buffer_knows_what_of_it_is_cheap(appends: list[tuple[int, int, bool]]) -> None:
    loop = asyncio.new_event_loop()
    buffer = WriteBuffer()
    for stream, size, cheap in appends:
        done: asyncio.Future[Appended] = loop.create_future()
        buffer.add(stream, [make_batch()], size, done, inline_eligible=not cheap)
    loop.close()
    cheap_streams = {stream for stream, _, cheap in appends if cheap}
    low = sum(size for stream, size, _ in appends if stream not in cheap_streams)
    assert (buffer.size, buffer.inline_eligible_bytes) == (sum(size for _, size, _ in appends), low)
    taken = buffer.take_inline_eligible()
    assert (taken.size, buffer.inline_eligible_bytes) == (low, 0)
    for part in (taken, buffer):
        assert part.size == sum(part.sizes.values())
        assert part.count == sum(map(len, part.pending.values()))
    assert buffer.sizes.keys() == cheap_streams


def test_on_a_paid_store_small_flushes_wait_for_no_interval_and_no_upload() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1))  # the upload of a large flush hangs
        large = bench.append(b"x" * 2_000, stream=2)
        await asyncio.sleep(0.3)
        for number in range(5):
            assert await outcomes([bench.append(b"x", stream=1)]) == [number]
        assert bench.loop.time() < 0.31
        assert not large.done()
        bench.object_faults.stop()
        assert await outcomes([large]) == [0]
        assert bench.objects.traffic.puts == 1

    simulate(work, PAID)


def test_an_append_waits_for_an_earlier_large_flush_of_its_stream() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.object_faults.strike(range(1))
        large = bench.append(b"x" * 2_000)
        await asyncio.sleep(0.3)
        small = [bench.append(), bench.append(stream=2)]
        await asyncio.sleep(1)
        assert not any(one.done() for one in (large, small[0]))
        bench.object_faults.stop()
        assert await outcomes([large, *small]) == [0, 1, 0]

    simulate(work, PAID)


def test_a_cheap_topic_waits_for_an_object_and_holds_no_other_back() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append(stream=1)]) == [0]
        bench.object_faults.strike(range(1))  # the object's upload hangs
        cheap = [bench.writer.append(2, [make_batch()], cheap=True) for _ in range(3)]
        low = bench.append(stream=1)
        assert await outcomes([low]) == [1]
        assert not any(one.done() for one in cheap)
        bench.object_faults.stop()
        assert await outcomes(cheap) == [0, 1, 2]
        more = [bench.writer.append(2, [make_batch()], cheap=True)]
        assert await outcomes(more) == [3]
        assert bench.objects.traffic.puts == 2
        assert 0.25 <= bench.loop.time() < 0.3

    simulate(work, PAID)


def test_what_is_produced_fast_goes_to_objects_on_a_paid_store() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        futures = []
        for _ in range(1_000):
            futures.append(bench.append(b"x" * 100))
            await asyncio.sleep(0.001)
        assert await outcomes(futures) == list(range(1_000))
        assert 3 <= bench.objects.traffic.puts <= 6

    simulate(work, PAID)


def test_a_busy_stream_goes_to_objects_alone_and_takes_nothing_from_a_quiet_one() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        busy = []
        for number in range(1_000):
            busy.append(bench.append(b"x" * 100))
            if number >= 500 and number % 100 == 0:
                asked = bench.loop.time()
                assert await outcomes([bench.append(stream=2)]) == [number // 100 - 5]
                assert bench.loop.time() - asked < 0.01
            await asyncio.sleep(0.001)
        assert await outcomes(busy) == list(range(1_000))
        # Once it is known to be busy, each of its commits is an object's.
        later = [start for stream, start, _ in bench.commits if stream == 1 and start > 300]
        assert len(later) < bench.objects.traffic.puts

    simulate(work, PAID)


@pytest.mark.parametrize("pause", [0.01, 3.0])
def test_a_stream_that_was_busy_is_not_for_long(pause: float) -> None:
    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append(b"x" * 2_000)]) == [0]
        sent = 1
        while bench.loop.time() < 3:  # a tenth of an inline flush each time
            await asyncio.sleep(pause)
            assert await outcomes([bench.append(b"x" * 40)]) == [sent]
            sent += 1
        puts = bench.objects.traffic.puts
        for _ in range(3):
            await asyncio.sleep(0.1)
            await bench.append(b"x" * 40)
        assert bench.objects.traffic.puts == puts

    simulate(work, PAID)


def test_what_is_busy_is_flushed_though_small_flushes_never_cease() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        await bench.append(b"x" * 70_000, stream=1)
        quiet = []
        busy = bench.append(b"x", stream=1)
        for number in range(500):
            quiet.append(bench.append(stream=2 + number % 50))
            await asyncio.sleep(0.001)
        assert busy.done()
        await outcomes(quiet)

    simulate(work, LogSettings(flush_interval_ms=250), SlowCommits(0.01))


def test_quiet_streams_do_not_wait_for_the_upload_of_what_is_cut_beside_them() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        await bench.append(b"x" * 2_000, stream=1)
        bench.object_faults.strike(range(2))  # from here on uploads hang
        busy, quiet = [], []
        for number in range(300):
            busy.append(bench.append(b"x" * 100, stream=1))
            if 230 <= number < 240:  # around the cut: one is under way, and the next one waits
                quiet.append(bench.append(stream=2))
            await asyncio.sleep(0.001)
        assert [one.result().base_offset for one in quiet] == list(range(10))
        assert not busy[0].done()
        bench.object_faults.stop()
        assert await outcomes(busy) == list(range(1, 301))

    simulate(work, PAID, SlowCommits(0.01))
