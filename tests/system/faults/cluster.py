"""Three brokers over real stores, with a proxy on every way that a broker's bytes take."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from headwater.clock import SystemClock
from headwater.log.formats.metadata_values import INLINE, IndexEntry
from headwater.meta import keys
from headwater.meta.store import prefix_end
from headwater.meta.urls import open_store
from headwater.meta.values import decode
from headwater.objects.urls import open_objects
from peers.process import free_port
from peers.toxiproxy import Proxy
from tests.system.faults.stores import FaultyStores, running_stores
from tests.system.invariants.brokers import ServeProcess, ServeProcesses
from tests.system.invariants.cluster import SETTINGS
from tests.system.invariants.leftovers import only_named_are_left

BROKERS = 3
SESSION_SECONDS = 3.0
RESTART_SECONDS = 60.0

FORGETFUL = "lost-answers=0.02"
"""What one of the brokers does to itself (``faulty_serve``): the network alone loses few answers
of commits that landed, and those are what might be done twice."""

HOUSEKEEPING: Mapping[str, int] = {
    "merge_interval_ms": 500,
    "merge_age_ms": 500,
    "sweep_interval_ms": 3_000,
    "gc_interval_ms": 1_500,
    "snapshot_interval_ms": 4_000,
    "snapshots_kept": 1,
}
"""Often, and yet leaving most of the metadata store's time to producers and groups."""

GROUPS: Mapping[str, int] = {
    "initial_rebalance_delay_ms": 200,
    "consumer_session_timeout_ms": 6_000,
    "consumer_heartbeat_interval_ms": 500,
}


class Way(Enum):
    """What lies between a broker and someone else."""

    OBJECTS = "object store"
    METADATA = "metadata"
    CLIENTS = "clients"


@dataclass(slots=True)
class FaultyCluster(ServeProcesses):
    """Brokers 1 to 3, whose ways to the stores and to clients can be harmed one by one."""

    directory: Path
    stores: FaultyStores
    proxies: dict[tuple[int, Way], Proxy] = field(default_factory=dict)

    def add(self, broker_id: int, config: Path) -> None:
        """A broker that is not started."""
        stores, listens = self.stores, free_port()
        for way, upstream in (
            (Way.OBJECTS, stores.objects.address),
            (Way.METADATA, stores.metadata.address),
            (Way.CLIENTS, f"127.0.0.1:{listens}"),
        ):
            name = f"{way.name.lower()}-{broker_id}"
            self.proxies[broker_id, way] = stores.toxiproxy.proxy(upstream, name=name)
        faults = FORGETFUL if broker_id == BROKERS else ""
        module = "tests.system.invariants.faulty_serve" if faults else "headwater.cli"
        inherited = {key: value for key, value in os.environ.items() if "HEADWATER" not in key}
        self.brokers[broker_id] = ServeProcess(
            broker_id,
            [
                *(sys.executable, "-m", module, "serve", "--config", str(config)),
                *("--metadata", self._by(broker_id, Way.METADATA, stores.metadata_url)),
                *("--objects", self._by(broker_id, Way.OBJECTS, stores.objects_url)),
                *("--broker-id", str(broker_id)),
            ],
            self.directory / f"broker-{broker_id}.log",
            {**inherited, **stores.environment, "FAULTS": faults},
            port=self.proxies[broker_id, Way.CLIENTS].port,
            listens=listens,
        )

    def _by(self, broker_id: int, way: Way, url: str) -> str:
        """The URL that leads through the proxy of one broker."""
        store = self.stores.objects if way == Way.OBJECTS else self.stores.metadata
        assert store.address in url
        return url.replace(store.address, self.proxies[broker_id, way].address)

    async def start(self, broker: ServeProcess) -> None:
        """Start a broker as a supervisor does: again and again while its stores are away."""
        async with asyncio.timeout(RESTART_SECONDS):
            while True:
                try:
                    await broker.start()
                except (AssertionError, TimeoutError):
                    await broker.kill()
                    await asyncio.sleep(0.3)
                else:
                    return

    async def wait_until_only_named_objects_are_left(self) -> None:
        """Garbage goes, also that of the dead; what the index names is never missing."""
        clock = SystemClock()
        meta = await open_store(self.stores.metadata_url, clock)
        with ThreadPoolExecutor(2) as executor, patch.dict(os.environ, self.stores.environment):
            objects = open_objects(
                self.stores.objects_url, clock=clock, random=Random(0), executor=executor
            )
            try:
                while True:
                    prefix = keys.incarnations(0)
                    living = await meta.scan(prefix, prefix_end(prefix))
                    index = await meta.scan("d/0000/index/", prefix_end("d/0000/index/"))
                    entries = [decode(IndexEntry, entry.value) for entry in index.entries]
                    if only_named_are_left(
                        named={entry.key for entry in entries if entry.kind != INLINE},
                        there={info.key async for info in objects.list("") if _is_data(info.key)},
                        living={entry.key.removeprefix(prefix) for entry in living.entries},
                    ):
                        return
                    await asyncio.sleep(0.2)
            finally:
                await objects.close()
                await meta.close()


def _is_data(key: str) -> bool:
    return key.endswith(".wo")


@asynccontextmanager
async def running_cluster(
    directory: Path, *, metadata: str, objects: str, settings: Mapping[str, Any]
) -> AsyncIterator[FaultyCluster]:
    """Brokers that listen, over servers of their own; all end with the block."""
    config = directory / "headwater.json"
    config.write_text(
        json.dumps(
            {
                "broker": {"session_timeout_s": SESSION_SECONDS, "stop_timeout_s": 1},
                "log": {**SETTINGS, **HOUSEKEEPING, **settings},
                "groups": dict(GROUPS),
            }
        )
    )
    with running_stores(directory, metadata, objects) as stores:
        cluster = FaultyCluster(directory, stores)
        try:
            for number in range(1, BROKERS + 1):
                cluster.add(number, config)
            await asyncio.gather(*(broker.start() for broker in cluster.brokers.values()))
            yield cluster
        except BaseException as error:
            error.add_note(cluster.logs())
            raise
        finally:
            await cluster.kill_all()
