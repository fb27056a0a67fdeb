from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headwater.clock import SystemClock
from headwater.engine import StorageEngine
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.objects.memory import MemoryObjects
from tests.support.engine.conformance import OpenEngine, StorageEngineConformance
from tests.support.log.harness import WholeObjects, running_engine


def on_memory(objects: MemoryObjects, settings: LogSettings) -> OpenEngine:
    """Engines of the log, one after another on the same stores."""
    database = MemoryDatabase()

    @asynccontextmanager
    async def open_engine() -> AsyncIterator[StorageEngine]:
        meta = MemoryStore(database=database)
        async with running_engine(meta, objects, settings=settings) as engine:
            yield engine
        await meta.close()

    return open_engine


class TestInlineRecords(StorageEngineConformance):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return on_memory(MemoryObjects(clock=SystemClock()), LogSettings())


class TestObjectsThatGrow(StorageEngineConformance):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return on_memory(MemoryObjects(clock=SystemClock()), LogSettings(inline_bytes=0))


class TestPaidObjects(StorageEngineConformance):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        settings = LogSettings(inline_bytes=0, flush_interval_ms=10)
        return on_memory(WholeObjects(clock=SystemClock()), settings)
