from pathlib import Path
from random import Random

import apsw
import pytest

from headwater.clock import SystemClock
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.sessions import RenewedSession
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Limits, MetadataStore, Session
from tests.support.meta.conformance import MetadataStoreConformance
from tests.support.meta.conformance_sessions import SessionConformance, SharedSessionConformance
from tests.support.meta.faulty import FaultyStore


class Abandoning:
    async def abandon(self, session: Session) -> None:
        assert isinstance(session, RenewedSession)
        await session.abandon()


class Memory(Abandoning):
    def __init__(self) -> None:
        self.database = MemoryDatabase()

    async def open(self) -> MetadataStore:
        return MemoryStore(Limits(operations=100, value_bytes=2**20), database=self.database)

    async def forget_changes(self) -> None:
        self.database.forget_changes()


class Faulty(Memory):
    async def open(self) -> MetadataStore:
        return FaultyStore(await super().open(), Random(0))


class Sqlite(Abandoning):
    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self) -> MetadataStore:
        return await SqliteStore.open(self.path, SystemClock())

    async def forget_changes(self) -> None:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(5_000)
        connection.execute("DELETE FROM change WHERE revision < (SELECT max(revision) FROM change)")
        connection.close()


class TestMemoryStore(MetadataStoreConformance, SessionConformance):
    @pytest.fixture
    def backend(self) -> Memory:
        return Memory()


class TestFaultyStoreWithoutFaults(MetadataStoreConformance, SessionConformance):
    @pytest.fixture
    def backend(self) -> Faulty:
        return Faulty()


class TestSqliteOpenedTwice(MetadataStoreConformance, SharedSessionConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Sqlite:
        return Sqlite(tmp_path / "meta.db")


class TestSqliteOpenedOnce(MetadataStoreConformance, SharedSessionConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Sqlite:
        return Sqlite(tmp_path / "meta.db")

    @pytest.fixture
    async def other(self, store: MetadataStore) -> MetadataStore:
        return store
