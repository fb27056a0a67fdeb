"""``headwater serve`` in a process that fails on purpose; started as a module.

The environment variable ``FAULTS`` says how, as words separated by blanks:

- ``lost-answers=0.05``: that part of the metadata transactions land and say that nobody knows;
- ``before-commit=kill``, ``after-commit=kill``: the process ends itself at that line when a
  record holds ``STRIKE``; ``before-swap=kill``, ``after-swap=kill``: at its first merge. With
  ``stop`` in place of ``kill`` it stops (SIGSTOP) until someone wakes it.

``DATABASE`` is the file of the metadata.

The product has no hooks for this; names are replaced from outside.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import apsw

from headwater.app import assembly as compose
from headwater.cli import main
from headwater.clock import Clock
from headwater.log.append import committer, writer
from headwater.log.append.answers import answers_of_part
from headwater.log.append.commit import commit_part
from headwater.log.merge import merger
from headwater.meta import urls
from headwater.meta.store import MetadataStore
from tests.support.meta.faulty import FaultyStore, MetadataFaults

STRIKE = b"STRIKE"
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def strike(how: str, data: Iterable[bytes | bytearray | memoryview]) -> None:
    if any(STRIKE in bytes(one) for one in data):
        if how == "stop":
            await_quiet()
        os.kill(os.getpid(), SIGNALS[how])


def await_quiet() -> None:
    """Return when nobody is writing to the database.

    A process that is stopped inside a transaction keeps its lock and holds up everybody: that is
    so with SQLite, and not what these faults are about.
    """
    database = apsw.Connection(os.environ["DATABASE"])
    database.set_busy_timeout(10_000)
    database.execute("BEGIN IMMEDIATE; ROLLBACK")
    database.close()


def before(target: Any, name: str, how: str, data: Callable[..., list[Any]]) -> None:
    """Strike when ``target.name`` is called."""
    original = getattr(target, name)

    def replaced(*args: Any, **options: Any) -> Any:
        strike(how, data(*args))
        return original(*args, **options)

    setattr(target, name, replaced)


def lose_answers(rate: float) -> None:
    original = urls.open_store

    async def open_faulty(url: str, clock: Clock) -> MetadataStore:
        return FaultyStore(await original(url, clock), Random(), MetadataFaults(lost_answer=rate))

    vars(compose)[urls.open_store.__name__] = open_faulty


def after_swap(how: str) -> None:
    original = merger.Merger._swap

    async def swap(self: merger.Merger, *args: Any) -> list[int]:
        swapped = await original(self, *args)
        if swapped:
            os.kill(os.getpid(), SIGNALS[how])
            await asyncio.sleep(0)
        return swapped

    vars(merger)[merger.Merger.__name__]._swap = swap


def inject(faults: str) -> None:
    for fault in faults.split():
        name, _, how = fault.partition("=")
        match name:
            case "lost-answers":
                lose_answers(float(how))
            case "before-commit":
                before(
                    committer,
                    commit_part.__name__,
                    how,
                    lambda part, *_: [c.data for c in part.chunks],
                )
            case "after-commit":
                before(
                    writer,
                    answers_of_part.__name__,
                    how,
                    lambda landed, *_: [c.chunk.data for c in landed],
                )
            case "before-swap":
                before(merger.Merger, merger.Merger._swap.__name__, how, lambda *_: [STRIKE])
            case "after-swap":
                after_swap(how)
            case _:
                raise SystemExit(f"no fault is called {name!r}")


if __name__ == "__main__":
    inject(os.environ["FAULTS"])
    main()
