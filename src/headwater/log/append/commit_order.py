"""Flushes run concurrently, and commit in the order in which their buffers were closed.

Each flush has a turn: a future that is done when the flush and all flushes before it have ended.
"""

import asyncio


def end_of_turn(before: asyncio.Future[None]) -> asyncio.Future[None]:
    """A copy of another flush's turn, which can be cancelled without cancelling that turn."""
    own: asyncio.Future[None] = before.get_loop().create_future()

    def ended(_: asyncio.Future[None]) -> None:
        if not own.done():
            own.set_result(None)

    before.add_done_callback(ended)
    return own


def end_turn(before: asyncio.Future[None] | None, turn: asyncio.Future[None]) -> None:
    """End a flush's turn as soon as the turn before it has ended, even if the flush failed."""
    if before is None or before.done():
        turn.set_result(None)
    else:
        before.add_done_callback(lambda _: turn.set_result(None))
