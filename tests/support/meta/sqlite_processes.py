"""What the other processes of the SQLite tests do; each talks to the test through a pipe."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - not readable any more once privileges are dropped
import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path

from headwater.clock import SystemClock
from headwater.errors import HeadwaterError, SessionLost
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Writes
from tests.support.meta.conformance import bind, increment, put, puts

GROUP = [f"group/{number:02d}" for number in range(20)]


def count(path: Path, times: int) -> None:
    async def main() -> None:
        store = await SqliteStore.open(path, SystemClock())
        for _ in range(times):
            await store.transact(0, ["n"], increment("n"))
        await store.close()

    asyncio.run(main())


def write_groups(path: Path, first: int, pipe: Connection) -> None:
    """Write a whole group of keys over and over, reporting each number that is committed."""

    async def main() -> None:
        store = await SqliteStore.open(path, SystemClock())
        number = first
        while True:
            await store.transact(0, [], puts(dict.fromkeys(GROUP, b"%d" % number)))
            pipe.send(number)
            number += 1

    asyncio.run(main())


def hold_session(path: Path, pipe: Connection) -> None:
    """Bind a key to a session; when told to, say how the session does."""

    async def main() -> None:
        store = await SqliteStore.open(path, SystemClock())
        session = await store.session(ttl=1)
        await bind(store, session, "e/held")
        pipe.send("bound")
        pipe.recv()
        seen_at_once = session.lost
        await session.wait_lost()
        try:
            await bind(store, session, "e/held")
        except SessionLost:
            pipe.send(("lost", seen_at_once, session.lost))
        await store.close()

    asyncio.run(main())


def fill_the_disk(path: Path, pipe: Connection) -> None:
    """Write past a limit on file sizes, then once more without it."""

    async def main() -> None:
        store = await SqliteStore.open(path, SystemClock())
        await put(store, small=b"before")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
        try:
            await store.transact(
                0, [], lambda values: (Writes(puts={"large": bytes(2**20), "small": b"no"}), None)
            )
        except HeadwaterError as error:
            pipe.send(type(error).__name__)
        pipe.send((await store.get("large"), (await store.scan("small", "t")).entries[0].value))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await put(store, small=b"after")
        pipe.send((await store.scan("small", "t")).entries[0].value)
        await store.close()

    asyncio.run(main())


def open_unprivileged(path: Path, pipe: Connection) -> None:
    """Open the file as a user to whom permissions apply."""
    if os.geteuid() == 0:
        os.setuid(65534)

    async def main() -> None:
        try:
            await SqliteStore.open(path, SystemClock())
        except HeadwaterError as error:
            pipe.send((type(error).__name__, str(error)))

    asyncio.run(main())
