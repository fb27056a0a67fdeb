"""What a request may cost in one turn of the loop."""

import asyncio

from headwater.work_budget import TURN_BYTES, TURN_ELEMENTS, Turn, in_turns, needs_thread


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
