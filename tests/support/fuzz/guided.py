"""A coverage-guided fuzzer over whole sessions.

``python -m tests.support.fuzz.guided SECONDS FOLDER``

The broker runs in this process, on memory stores and behind a real socket, with its modules
instrumented. An input is a session: requests, each behind two bytes with its length. The fuzzer
begins with lifelike requests of every API and keeps in FOLDER what reaches new code. It ends with
a status other than 0 at the first input that makes the broker log an error, takes ten seconds, or
makes the process grow past two gigabytes; the input is kept as ``FOLDER/failed-*``.
"""

import asyncio
import logging
import struct
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import atheris

with atheris.instrument_imports(include=["headwater"]):
    from headwater.wire.messages.api_versions import ADVERTISED, LOWEST_SERVED_PRODUCE
    from tests.support.broker.serving import create_topic, port_of, serving

from tests.support.fuzz.requests import TOPIC_CONFIGS, FuzzedRequest, Mutation, frames_in, input_of

QUIET_SECONDS = 0.02
SEEDS_PER_API = 12
LONGEST_INPUT = 8_192


class BrokerFailed(Exception):
    """The broker logged an error: a request met a fault of the broker."""


class Fuzzer:
    """One broker, and a session with it for every input."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._errors: list[str] = []
        logging.getLogger("headwater").addHandler(_Collect(self._errors))
        self._stack = AsyncExitStack()
        self._port = self._loop.run_until_complete(self._start())

    async def _start(self) -> int:
        stores: dict[str, Any] = {"metadata": "memory://", "objects": "memory://"}
        address = await self._stack.enter_async_context(serving(Path("unused"), **stores))
        for name, configs in TOPIC_CONFIGS.items():
            await create_topic(address, name, configs=configs)
        return port_of(address)

    def run(self, data: bytes) -> None:
        """Raises ``BrokerFailed`` if the session made the broker log an error."""
        self._loop.run_until_complete(self._session(frames_in(data)))
        if self._errors:
            raise BrokerFailed("\n".join(self._errors))

    async def _session(self, frames: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with suppress(ConnectionError, TimeoutError):
            writer.writelines(struct.pack(">i", len(frame)) + frame for frame in frames)
            while await asyncio.wait_for(reader.read(2**16), QUIET_SECONDS):
                pass
        writer.transport.abort()


class _Collect(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._errors.append(logging.Formatter().format(record))


def write_seeds(folder: Path) -> None:
    """Lifelike sessions of one API each."""
    for api, (lowest, highest) in ADVERTISED.items():
        chance = Random(api)
        served = range(max(lowest, LOWEST_SERVED_PRODUCE if api == 0 else 0), highest + 1)
        for number in range(SEEDS_PER_API):
            step = FuzzedRequest(api, chance.choice(served), chance.randrange(2**32), Mutation.NONE)
            frame = step.frame()[4:]
            if len(frame) < LONGEST_INPUT // 2:
                (folder / f"{api.name}-{number}").write_bytes(input_of([frame]))


def main(seconds: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_seeds(folder)
    fuzzer: list[Any] = []

    def one_input(data: bytes) -> None:
        if not fuzzer:
            fuzzer.append(Fuzzer())  # after libFuzzer has set its signal handlers
        fuzzer[0].run(data)

    options = [
        *(f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048"),
        *(f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={folder}/failed-"),
    ]
    atheris.Setup([sys.argv[0], *options, str(folder)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
