"""All work on records stays within one memory bound."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from headwater.errors import MessageTooLarge
from headwater.extras import install_command
from headwater.log import record_work
from headwater.log.record_work import AT_ONCE, FIRST_LIMIT, RecordWork


class Jobs:
    """An offload whose jobs end when the test says so."""

    def __init__(self) -> None:
        self.running: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def __call__(self, function: Callable[[], Any]) -> Awaitable[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.running.append((function, done))
        return done

    async def end(self) -> None:
        function, done = self.running.pop(0)
        done.set_result(function())
        for _ in range(5):
            await asyncio.sleep(0)


def starts(work: RecordWork, count: int, **more: Any) -> list[asyncio.Task[int]]:
    return [
        asyncio.ensure_future(work.run(lambda room: room, 0, FIRST_LIMIT, **more))
        for _ in range(count)
    ]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_jobs_wait_for_their_turn_and_for_memory() -> None:
    jobs = Jobs()
    work = RecordWork(jobs, limit=3 * FIRST_LIMIT)
    tasks = starts(work, 5, copies=2)
    await turns()
    assert (len(jobs.running), work.used) == (1, 2 * FIRST_LIMIT)
    tasks += starts(work, 1)
    await turns()
    assert len(jobs.running) == 1  # the small one came last and waits for the others
    for _ in range(5):
        await jobs.end()
    assert (len(jobs.running), work.used) == (1, FIRST_LIMIT)
    await jobs.end()
    assert await asyncio.gather(*tasks) == [FIRST_LIMIT] * 6
    assert work.used == 0


async def test_few_jobs_run_at_once() -> None:
    jobs = Jobs()
    tasks = starts(RecordWork(jobs), AT_ONCE + 3)
    await turns()
    assert len(jobs.running) == AT_ONCE
    while jobs.running:
        assert len(jobs.running) <= AT_ONCE
        await jobs.end()
    await asyncio.gather(*tasks)


async def test_a_job_gets_more_room_until_there_is_no_more() -> None:
    rooms: list[int] = []

    def job(enough: int) -> Callable[[int], int | None]:
        def run(room: int) -> int | None:
            rooms.append(room)
            return room if room >= enough else None

        return run

    work = RecordWork()
    assert await work.run(job(300_000), 10_000, 10**6) == 10**6
    assert rooms == [FIRST_LIMIT, 4 * FIRST_LIMIT, 10**6]
    with pytest.raises(MessageTooLarge):
        await work.run(job(300_000), 10_000, 200_000)
    assert work.used == 0


async def test_a_job_whose_caller_left_is_counted_until_it_ends() -> None:
    jobs = Jobs()
    work = RecordWork(jobs, limit=FIRST_LIMIT)
    begun, waiting, last = starts(work, 3)
    await turns()
    begun.cancel()
    waiting.cancel()
    await turns()
    assert (len(jobs.running), work.used) == (1, FIRST_LIMIT)
    await jobs.end()
    assert (len(jobs.running), work.used) == (1, FIRST_LIMIT)
    await jobs.end()
    assert await last == FIRST_LIMIT
    assert work.used == 0


async def test_a_job_that_fails_gives_its_memory_back() -> None:
    def fail(_room: int) -> int:
        raise ValueError("no records")

    work = RecordWork()
    with pytest.raises(ValueError, match="no records"):
        await work.run(fail, 0, 10)
    assert work.used == 0


async def test_the_compiled_walk_is_loaded_off_the_loop() -> None:
    work = RecordWork()
    assert not work.walks_all
    await work.warm_up()
    assert work.walks_all


async def test_a_broker_that_cannot_load_the_compiled_walk_names_what_adds_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> ModuleType:
        raise ImportError("No module named 'numba'")

    monkeypatch.setattr(record_work, "_load_kernel", missing)
    work = RecordWork()
    with caplog.at_level(logging.INFO):
        await work.warm_up()
    assert not work.walks_all
    (record,) = caplog.records
    assert "the extra `table` checks all" in record.message
    assert vars(record)["install"] == install_command("table")
