"""What the tests of PostgreSQL run as processes of their own.

``python -m`` this module with ``pause URL`` stops itself inside the lock; with
``write URL NAME COUNT`` it commits one key after another.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from headwater.errors import StoreError
from headwater.meta.postgres import PostgresStore
from headwater.meta.store import Values, Writes


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def stop_when_locked() -> Callable[[Values], tuple[Writes, None]]:
    """Waits to be beaten first, so that the second run is under the lock, and stops there."""
    runs = 0

    def decide(values: Values) -> tuple[Writes, None]:
        nonlocal runs
        runs += 1
        if runs == 1:
            say("decided")
            sys.stdin.readline()
        else:
            say("locked")
            os.kill(os.getpid(), signal.SIGSTOP)
        return Writes(puts={"contended": b"paused"}), None

    return decide


async def pause(url: str) -> None:
    store = await PostgresStore.open(url)
    try:
        await store.transact(0, ["contended"], stop_when_locked())
    except StoreError as error:
        say(type(error).__name__)
    else:
        say("committed")
    await store.close()


async def write(url: str, name: str, count: int) -> None:
    store = await PostgresStore.open(url)
    for number in range(count):
        # Two at a time, so that batches form, and one key that all processes fight for.
        await asyncio.gather(
            store.transact(0, [], _put(f"w/{name}/{number:04d}", b"x")),
            store.transact(0, ["n"], _increment),
        )
    await store.close()


def _put(key: str, value: bytes) -> Callable[[Values], tuple[Writes, None]]:
    return lambda values: (Writes(puts={key: value}), None)


def _increment(values: Values) -> tuple[Writes, None]:
    entry = values["n"]
    return Writes(puts={"n": b"%d" % (int(entry.value) + 1 if entry else 1)}), None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pause", url]:
            asyncio.run(pause(url))
        case ["write", url, name, count]:
            asyncio.run(write(url, name, int(count)))
