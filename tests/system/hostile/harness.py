"""A broker in its own process, an attacker's connections, and a probe that watches from another.

``Target.watched`` states what no request may do: it fails if a call on another connection took
longer than ``CALL_LIMIT``, if the broker's memory grew by more than ``GROWTH_LIMIT``, or if the
broker died. ``Target.attack`` fails if a request is neither answered nor its connection closed
within ``ANSWER_LIMIT``. Requests are encoded before the watch begins: the encoder's work must not
be counted as the broker's.
"""

import asyncio
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader

from headwater.wire.messages.api_versions import ApiKey
from peers.headwater import start_headwater
from peers.process import Server, free_port
from tests.support.broker.running import WireClient

CALL_LIMIT = 0.25
"""Seconds that a call on another connection may take during an attack."""

GROWTH_LIMIT = 200 * 2**20
"""Bytes of resident memory that an attack may add at its peak."""

ANSWER_LIMIT = 10.0
"""Seconds after which a request is answered or its connection closed."""

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Target:
    """The broker under attack."""

    server: Server
    metrics_port: int

    @property
    def port(self) -> int:
        return int(self.server.bootstrap.rpartition(":")[2])

    @property
    def alive(self) -> bool:
        return self.server.process.poll() is None

    @property
    def log(self) -> str:
        return self.server.log.read_text(errors="replace")

    async def connect(self) -> WireClient:
        return WireClient(*await asyncio.open_connection("127.0.0.1", self.port))

    async def call(self, api: int, version: int, **fields: Any) -> Any:
        """One honest request on a connection of its own."""
        client = await self.connect()
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                return await client.call(api, version, **fields)
        finally:
            await client.close()

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        given = [{"name": name, "value": value} for name, value in (configs or {}).items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": given,
        }
        reply = await self.call(
            ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000, validate_only=False
        )
        assert reply.topics[0].error_code == 0, reply.topics[0].error_message

    async def attack(self, frame: bytes) -> bytes | None:
        """Send one frame with its length; the reply's frame, or None if the connection closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                writer.write(frame)
                await writer.drain()
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                return await reader.readexactly(length)
        except (ConnectionError, asyncio.IncompleteReadError):
            return None
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def watched(
        self, *, call_limit: float = CALL_LIMIT, growth_limit: int = GROWTH_LIMIT
    ) -> AsyncIterator[None]:
        """Check that the block does not delay other clients, and that the broker survives."""
        before = self.start_of_growth()
        with probe_of(self) as probe:
            yield
            slowest = await asyncio.to_thread(probe.slowest)
        assert self.alive, self.log[-2000:]
        growth = self.peak_memory() - before
        assert slowest <= call_limit, f"a call of another client took {slowest:.3f} s"
        assert growth <= growth_limit, f"the broker grew by {growth / 2**20:.0f} MiB"

    def start_of_growth(self) -> int:
        """Reset the peak of resident memory; returns the resident bytes."""
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak_memory(self) -> int:
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        (line,) = (each for each in status.splitlines() if each.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024


def read_reply(frame: bytes, api: int, version: int) -> Any:
    """The message in a reply's frame."""
    schema: Any = load_response_schema(api, version)
    _, size = entity_reader(schema.__header_schema__)(frame, 0)
    return entity_reader(schema)(frame, size)[0]


@contextmanager
def target(data: Path, *, environment: dict[str, str] | None = None) -> Iterator[Target]:
    """A broker with ``headwater serve``, on SQLite and a directory; it stops with the block."""
    metrics_port = free_port()
    server = start_headwater(data, metrics_port=metrics_port, environment=environment)
    try:
        yield Target(server, metrics_port)
    finally:
        server.stop()


class Probe:
    """Pings a broker from a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def slowest(self) -> float:
        """The seconds of the slowest ping since the last call; waits for a ping in flight."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._process.stdout.readline()
        assert answer, self._process.communicate()[1]
        return float(answer)


@contextmanager
def probe_of(broker: Target) -> Iterator[Probe]:
    """A probe that has had its first reply."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.system.hostile.probe", str(broker.port)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate(timeout=10)[1]
        yield Probe(process)
    finally:
        process.kill()
        process.communicate()
