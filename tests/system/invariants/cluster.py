"""Broker processes on one SQLite file and one object directory, and what can be done to them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from headwater.log.formats.metadata_values import INLINE, IndexEntry, Layout, Tail
from headwater.meta import keys
from headwater.meta.values import decode
from tests.system.invariants.brokers import ServeProcess, ServeProcesses
from tests.system.invariants.leftovers import only_named_are_left

SESSION_SECONDS = 1.0

SETTINGS: Mapping[str, Any] = {
    "inline_bytes": 2_000,
    "merge_interval_ms": 200,
    "merge_age_ms": 0,
    "merge_fan_in": 4,
    "sweep_interval_ms": 1_000,
    "gc_interval_ms": 500,
    "gc_grace_ms": 1_000,
    "orphan_grace_ms": 1_000,
    "snapshot_interval_ms": 1_000,
    "snapshots_kept": 1,
    "append_timeout_ms": 5_000,
}
"""Everything that happens once in minutes or hours, many times within a test."""


@dataclass(slots=True)
class LocalCluster(ServeProcesses):
    """Brokers 1 to N on one database and one directory."""

    directory: Path
    settings: Mapping[str, Any]

    def add(self, broker_id: int, *, faults: str = "") -> ServeProcess:
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
        module = "tests.system.invariants.faulty_serve" if faults else "headwater.cli"
        environment = {key: value for key, value in os.environ.items() if "HEADWATER" not in key}
        environment |= {"FAULTS": faults, "DATABASE": f"{self.directory}/metadata.db"}
        broker = ServeProcess(
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
        while not only_named_are_left(
            named=self.named_objects(),
            there=self.objects(),
            living={name for broker in self.brokers for name in self.incarnations(broker)},
        ):
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
) -> AsyncIterator[LocalCluster]:
    """Brokers that listen; each ends with the block, whatever its state.

    ``faults`` says by broker what it does to itself; see ``faulty_serve``.
    """
    cluster = LocalCluster(directory, {**SETTINGS, **settings})
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
