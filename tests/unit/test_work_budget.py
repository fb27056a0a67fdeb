"""What a request may cost in one turn of the loop."""

import asyncio

from headwater.work_budget import (
    CONCURRENT,
    TURN_BYTES,
    TURN_ELEMENTS,
    Turn,
    gather_in_turns,
    in_turns,
    needs_thread,
)


def test_a_turn_is_used_up_after_its_elements_and_begins_again() -> None:
    turn = Turn()
    assert not turn.spend(TURN_ELEMENTS - 1)
    assert turn.spend()
    assert not turn.spend(TURN_ELEMENTS - 1)
    assert turn.spend(TURN_ELEMENTS * 10)
    assert not turn.spend()


def test_only_work_on_many_bytes_moves_to_a_thread() -> None:
    assert not needs_thread(TURN_BYTES)
    assert needs_thread(TURN_BYTES + 1)


async def test_items_in_turns_keep_their_order_and_let_others_run() -> None:
    seen: list[int] = []
    others: list[int] = []

    async def other() -> None:
        while True:
            others.append(len(seen))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for item in in_turns(range(10), elements=4):
        seen.append(item)
    task.cancel()
    assert seen == list(range(10))
    assert others == [4, 8]


async def test_parts_of_a_request_share_a_bounded_number_of_tasks() -> None:
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return -number

    numbers = list(range(3 * CONCURRENT + 1))
    assert await gather_in_turns(numbers, work) == [-number for number in numbers]
    assert most == CONCURRENT
