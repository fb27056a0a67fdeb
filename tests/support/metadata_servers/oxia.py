"""Oxia under test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.meta.oxia import OxiaStore
from headwater.meta.oxia.address import parse_oxia_address
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import MetadataStore, Session
from peers.oxia import Oxia, start_oxia


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[OxiaStore]:
    """The store that a URL names, until it is left."""
    store = await OxiaStore.open(parse_oxia_address(url))
    try:
        yield store
    finally:
        await store.close()


class OxiaBackend:
    """Keys of a prefix of their own."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def open(self) -> MetadataStore:
        return await OxiaStore.open(parse_oxia_address(self.url))

    async def forget_changes(self) -> None:
        address = parse_oxia_address(self.url)
        store = await OxiaStore.open(address)
        shard, layout = store._shard, OxiaKeyspace(address.prefix)
        gone = pb.DeleteRangeRequest(
            start_inclusive=layout.logs,
            end_exclusive=layout.log(await OxiaReader(shard, layout).revision()),
        )
        await shard.write(pb.WriteRequest(delete_ranges=[gone]))
        await store.close()

    async def abandon(self, session: Session) -> None:
        assert isinstance(session, RenewedSession)
        await session.abandon()


class OxiaServers:
    """One server; ``server`` may be stopped and started by a test."""

    def __init__(self, directory: Path) -> None:
        self.server: Oxia = start_oxia(directory / "oxia")

    def backend(self, name: str) -> OxiaBackend:
        return OxiaBackend(f"{self.server.url()}/{name}")

    def stop(self) -> None:
        self.server.stop()
