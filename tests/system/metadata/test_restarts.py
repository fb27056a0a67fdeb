"""A server that is killed and comes back, and a process that is: what each backend makes of it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.store import KeyChange, MetadataStore
from tests.support.meta.conformance import bind, put, take
from tests.support.metadata_servers.waiting import put_eventually
from tests.system.cluster.clients import produce, read
from tests.system.cluster.running import RunningCluster
from tests.system.metadata.conftest import BACKENDS, BackendServers, OpenedData


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BackendServers]:
    """One that no other test uses while it is down."""
    server = BACKENDS[request.param](tmp_path_factory.mktemp(request.param))
    yield server
    server.stop()


@pytest.fixture
def data(server: BackendServers, names: Iterator[int]) -> OpenedData:
    return server.backend(f"test-{next(names)}")


@pytest.fixture
async def store(data: OpenedData) -> AsyncIterator[MetadataStore]:
    store = await data.open()
    yield store
    await store.close()


async def test_a_restart_loses_no_change_and_every_outcome_is_true(
    server: BackendServers, store: MetadataStore
) -> None:
    start = (await store.scan("w/", "w0")).revision
    outcomes: dict[str, type[Exception] | int] = {}
    changes: list[KeyChange] = []
    stop = asyncio.Event()

    async def write(name: str) -> None:
        number = 0
        while not stop.is_set():
            key = f"w/{name}/{number:05d}"
            number += 1
            try:
                outcomes[key] = await put(store, **{key: b"x"})
            except (StoreUnavailable, UnknownOutcome) as error:
                outcomes[key] = type(error)
                await asyncio.sleep(0.01)

    async def follow() -> None:
        async for some in store.watch("w/", start):
            changes.extend(some)
            if changes[-1].key == "w/end":
                return

    following = asyncio.create_task(follow())
    writing = [asyncio.create_task(write(name)) for name in "abcd"]
    for _ in range(3):
        await asyncio.sleep(0.5)
        await asyncio.to_thread(server.server.restart)
    await asyncio.sleep(0.5)
    stop.set()
    await asyncio.gather(*writing)
    await put_eventually(store, **{"w/end": b""})
    async with asyncio.timeout(20):
        await following
    there = {entry.key: entry.revision for entry in (await store.scan("w/", "w0")).entries}
    done = {key: revision for key, revision in outcomes.items() if isinstance(revision, int)}
    refused = {key for key, outcome in outcomes.items() if outcome is StoreUnavailable}
    assert len(done) > 100
    assert done.items() <= there.items()
    assert not refused & there.keys()
    assert sorted((change.key, change.revision) for change in changes) == sorted(there.items())
    revisions = [change.revision for change in changes]
    assert revisions == sorted(revisions)


async def test_a_session_ends_when_its_process_is_killed(
    server: BackendServers, store: MetadataStore, data: OpenedData
) -> None:
    program = f"""
import asyncio
from headwater.clock import SystemClock
from headwater.meta.urls import open_store
from tests.support.meta.conformance import bind

async def main():
    store = await open_store({data.url!r}, SystemClock())
    session = await store.session(ttl=2)
    await bind(store, session, "e/a")
    await asyncio.sleep(3)
    print("alive", not session.lost, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"alive True\n"
    revision = (await store.scan("e/", "e0")).revision
    assert await store.get("e/a") is not None
    process.kill()
    assert [(c.key, c.value) for c in await take(store.watch("e/", revision), 1)] == [("e/a", None)]
    await process.wait()


async def test_a_session_outlives_a_restart_of_the_server(
    server: BackendServers, store: MetadataStore
) -> None:
    session = await store.session(ttl=5)
    await bind(store, session, "e/a")
    await asyncio.to_thread(server.server.restart)
    await asyncio.sleep(2.5)
    assert not session.lost
    assert await store.get("e/a") is not None
    await session.close()


async def test_a_broker_that_starts_waits_for_the_server(
    server: BackendServers, data: OpenedData, tmp_path: Path
) -> None:
    cluster = RunningCluster(
        directory=tmp_path, metadata=data.url, objects=f"file://{tmp_path}/objects"
    )
    broker = cluster.add(1)
    server.server.kill()
    starting = asyncio.create_task(broker.start())
    try:
        async with asyncio.timeout(30):
            while not (waits := _waits(broker.log)):
                assert not starting.done(), broker.log.read_text()
                await asyncio.sleep(0.1)
        assert server.server.address in waits[0]
        await asyncio.to_thread(server.server.start)
        await starting
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"one", b"two"])
        found = await asyncio.to_thread(read, cluster.bootstrap, "t", 1, 2)
        assert found == [(0, 0, b"one"), (0, 1, b"two")]
        assert not cluster.crashes()
    finally:
        await cluster.kill_all()


def _waits(log: Path) -> list[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "Waiting for the metadata store" in line]
