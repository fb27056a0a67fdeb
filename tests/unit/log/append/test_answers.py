"""The order in which producers hear of what became of their batches."""

import asyncio
from random import Random

import pytest

from headwater.engine import Appended
from headwater.errors import KafkaStorageError
from headwater.log.append.answers import AppendAnswer, give_answers
from headwater.work_budget import TURN_ELEMENTS


def made(count: int) -> list[AppendAnswer]:
    loop = asyncio.get_running_loop()
    answers = [
        AppendAnswer(number, loop.create_future(), Appended(number, -1, 0))
        for number in range(count)
    ]
    Random(count).shuffle(answers)
    return answers


@pytest.mark.parametrize("count", [0, 1, TURN_ELEMENTS, TURN_ELEMENTS + 1, 1000])
async def test_all_are_answered_and_the_oldest_first(count: int) -> None:
    answers, order = made(count), list[int]()
    for answer in answers:
        answer.done.add_done_callback(lambda done: order.append(done.result().base_offset))
    give_answers(answers)
    await asyncio.gather(*(answer.done for answer in answers))
    await asyncio.sleep(0)
    assert order == list(range(count))


async def test_others_have_a_turn_between_very_many_answers() -> None:
    answers = made(10 * TURN_ELEMENTS)
    give_answers(answers)
    for turn in range(1, 11):
        assert sum(answer.done.done() for answer in answers) == turn * TURN_ELEMENTS
        await asyncio.sleep(0)


async def test_who_gave_up_is_passed_over() -> None:
    answers = made(3)
    answers[0].done.cancel()
    failed = answers[1]._replace(outcome=KafkaStorageError("no"))
    give_answers([answers[0], failed, answers[2]])
    assert isinstance(failed.done.exception(), KafkaStorageError)
    assert answers[2].done.result().base_offset == answers[2].number
