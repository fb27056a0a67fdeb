"""Flushes that run side by side and commit in the order in which they were cut.

Each has a future, its turn, that ends when it and all those ahead of it have ended.
"""

import asyncio


def end_of(before: asyncio.Future[None]) -> asyncio.Future[None]:
    """A future of one's own: to cancel it must not cancel another flush's turn."""
    own: asyncio.Future[None] = before.get_loop().create_future()

    def ended(_: asyncio.Future[None]) -> None:
        if not own.done():
            own.set_result(None)

    before.add_done_callback(ended)
    return own


def pass_turn(before: asyncio.Future[None] | None, turn: asyncio.Future[None]) -> None:
    """Let the next flush commit, after those ahead of this one even where this one failed."""
    if before is None or before.done():
        turn.set_result(None)
    else:
        before.add_done_callback(lambda _: turn.set_result(None))
