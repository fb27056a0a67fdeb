"""Broker processes on one SQLite file and one object directory, and what can be done to them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from headwater.log.formats import INLINE, IndexEntry, Layout, Tail
from headwater.meta import keys
from headwater.meta.values import decode
from peers.process import free_port

SESSION_SECONDS = 1.0
START_SECONDS = 30.0
ROOT = Path(__file__).parents[2]

SETTINGS: Mapping[str, Any] = {
    "inline_bytes": 2_000,
    "merge_interval_ms": 200,
    "merge_fan_in": 4,
    "sweep_interval_ms": 1_000,
    "gc_interval_ms": 500,
    "gc_grace_ms": 1_000,
    "orphan_grace_ms": 1_000,
    "append_timeout_ms": 5_000,
}
"""Everything that happens once in minutes or hours, many times within a test."""


@dataclass(slots=True)
class BrokerProcess:
    """One broker id; its process may come and go, its port stays.

    Clients find their way back by the addresses that they were given, so a broker that is started
    again must listen where it did. The port is below those that the system gives to connections,
    or one of them might take it in between.
    """

    id: int
    command: list[str]
    log: Path
    environment: dict[str, str]
    port: int = 0
    process: subprocess.Popen[str] | None = None
    paused: bool = False

    @property
    def up(self) -> bool:
        return self.process is not None and not self.paused and self.process.poll() is None

    async def start(self, *extra: str) -> None:
        """Start it and wait until it listens."""
        self.port = self.port or free_port()
        command = [*self.command, "--listen", f"127.0.0.1:{self.port}", *extra]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - a fork is short
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
                cwd=ROOT,
            )
        self.paused = False
        async with asyncio.timeout(START_SECONDS):
            assert self.process.stdout is not None
            welcome = await asyncio.to_thread(self.process.stdout.readline)
        if not welcome:
            raise AssertionError(f"broker {self.id} did not start:\n{self.log.read_text()}")

    async def kill(self) -> None:
        """Kill -9, paused or not."""
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            await asyncio.to_thread(process.communicate)
        self.paused = False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused = False

    async def ended(self) -> int:
        """Wait until its process has ended by itself; its exit code."""
        assert self.process is not None
        process = self.process
        async with asyncio.timeout(START_SECONDS):
            await asyncio.to_thread(process.communicate)
        self.process = None
        return process.returncode

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


@dataclass(slots=True)
class Cluster:
    """Brokers 1 to N, by id."""

    directory: Path
    settings: Mapping[str, Any]
    brokers: dict[int, BrokerProcess] = field(default_factory=dict)

    def add(self, broker_id: int, *, faults: str = "") -> BrokerProcess:
        """A broker that is not started; ``faults`` are those of ``faulty_serve``."""
        config = self.directory / "headwater.json"
        config.write_text(
            json.dumps(
                {
                    "broker": {"session_timeout_s": SESSION_SECONDS, "stop_timeout_s": 1},
                    "log": dict(self.settings),
                }
            )
        )
        module = "tests.invariants.faulty_serve" if faults else "headwater.cli"
        environment = {key: value for key, value in os.environ.items() if "HEADWATER" not in key}
        environment["FAULTS"] = faults
        broker = BrokerProcess(
            broker_id,
            [
                *(sys.executable, "-m", module, "serve", "--config", str(config)),
                *("--metadata", f"sqlite:///{self.directory}/metadata.db"),
                *("--objects", f"file://{self.directory}/objects"),
                *("--broker-id", str(broker_id)),
            ],
            self.directory / f"broker-{broker_id}.log",
            environment,
        )
        self.brokers[broker_id] = broker
        return broker

    async def kill_all(self) -> None:
        for broker in self.brokers.values():
            await broker.kill()

    def logs(self) -> str:
        """The end of what the brokers wrote to stderr."""
        return "\n".join(
            f"--- broker {broker.id}\n{broker.log.read_text()[-3000:]}"
            for broker in self.brokers.values()
            if broker.log.exists()
        )

    def crashes(self) -> list[str]:
        """Tracebacks and errors that brokers logged: a fault is no reason for any."""
        return [
            f"broker {broker.id}: {line[:2000]}"
            for broker in self.brokers.values()
            if broker.log.exists()
            for line in broker.log.read_text().splitlines()
            if "Traceback" in line or '"level": "error"' in line
        ]

    def objects(self) -> set[str]:
        """The keys of all objects in the directory."""
        root = self.directory / "objects"
        return {str(file.relative_to(root)) for file in root.rglob("*.wo")}

    def named_objects(self) -> set[str]:
        """The objects that the offset index names."""
        entries = (decode(IndexEntry, value) for _, value in self._read("d/0000/index/"))
        return {entry.key for entry in entries if entry.kind != INLINE}

    async def wait_until_only_named_objects_are_left(self) -> None:
        """Garbage goes, also that of the dead; what the index names is never missing."""
        while True:
            named = self.named_objects()
            there = self.objects()
            assert named <= there, f"objects are gone: {named - there}"
            living = {name for broker in self.brokers for name in self.incarnations(broker)}
            if not {key for key in there - named if key.split("/")[1] not in living}:
                return
            await asyncio.sleep(0.05)

    def merges(self) -> int:
        """How often entries of the offset index were swapped or removed, of all streams."""
        prefix = keys.layouts(0)
        return sum(decode(Layout, value).generation for _, value in self._read(prefix))

    def incarnations(self, broker_id: int) -> list[str]:
        """The names under which a broker may commit."""
        prefix = keys.incarnations(0)
        names = [key.removeprefix(prefix) for key, _ in self._read(prefix)]
        return [name for name in names if name.startswith(f"{broker_id}-")]

    def high_watermarks(self) -> list[int]:
        """The committed ends of all streams, in the order of their ids."""
        return [decode(Tail, value).high_watermark for _, value in self._read("d/0000/tail/")]

    def _read(self, prefix: str) -> list[tuple[str, bytes]]:
        connection = apsw.Connection(str(self.directory / "metadata.db"))
        try:
            connection.set_busy_timeout(5_000)
            rows = connection.execute(
                "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key",
                (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)),
            )
            return [(str(key), bytes(value)) for key, value in rows]
        finally:
            connection.close()


@asynccontextmanager
async def running_cluster(
    directory: Path, brokers: int, *, faults: Mapping[int, str] | None = None, **settings: Any
) -> AsyncIterator[Cluster]:
    """Brokers that listen; each ends with the block, whatever its state.

    ``faults`` says by broker what it does to itself; see ``faulty_serve``.
    """
    cluster = Cluster(directory, {**SETTINGS, **settings})
    try:
        for number in range(1, brokers + 1):
            cluster.add(number, faults=(faults or {}).get(number, ""))
        await asyncio.gather(*(broker.start() for broker in cluster.brokers.values()))
        yield cluster
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
    finally:
        await cluster.kill_all()
