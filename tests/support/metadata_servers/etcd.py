"""etcd under test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.clock import SystemClock
from headwater.meta.etcd import EtcdStore
from headwater.meta.etcd.address import parse_etcd_address
from headwater.meta.etcd.members import EtcdMembers
from headwater.meta.etcd.methods import COMPACT, RANGE
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import MetadataStore, Session
from headwater.meta.urls import open_store
from peers.etcd import Etcd, start_etcd


class EtcdBackend:
    """Keys below a prefix of their own."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def open(self) -> MetadataStore:
        return await EtcdStore.open(parse_etcd_address(self.url))

    async def forget_changes(self) -> None:
        members = EtcdMembers(parse_etcd_address(self.url))
        revision = (await members.read(RANGE, pb.RangeRequest(key=b"any"))).header.revision
        await members.write(COMPACT, pb.CompactionRequest(revision=revision))
        await members.close()

    async def abandon(self, session: Session) -> None:
        assert isinstance(session, RenewedSession)
        await session.abandon()


class EtcdServers:
    """One member; ``server`` may be stopped and started by a test."""

    def __init__(self, directory: Path) -> None:
        self.server: Etcd = start_etcd(directory / "etcd")

    def backend(self, name: str) -> EtcdBackend:
        return EtcdBackend(self.server.url(name))

    def stop(self) -> None:
        self.server.stop()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[MetadataStore]:
    store = await open_store(url, SystemClock())
    try:
        yield store
    finally:
        await store.close()
