from collections.abc import AsyncIterator
from concurrent.futures import Executor
from pathlib import Path
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.objects.store import DeletableObjects
from headwater.objects.urls import open_objects
from tests.support.objects.conformance import ObjectStoreConformance
from tests.support.objects.faulty import FaultyObjects


def opened(url: str, executor: Executor) -> DeletableObjects:
    return open_objects(url, clock=SystemClock(), random=Random(0), executor=executor)


class TestLocalDirectory(ObjectStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path, executor: Executor) -> AsyncIterator[DeletableObjects]:
        store = opened(f"file://{tmp_path}/objects", executor)
        yield store
        await store.close()


class TestMemoryObjects(ObjectStoreConformance):
    @pytest.fixture
    def store(self, executor: Executor) -> DeletableObjects:
        return opened("memory://", executor)


class TestFaultyObjectsWithoutFaults(ObjectStoreConformance):
    @pytest.fixture
    def store(self, executor: Executor) -> DeletableObjects:
        return FaultyObjects(opened("memory://", executor), random=Random(0))


class TestS3(ObjectStoreConformance):
    @pytest.fixture
    async def store(self, s3_url: str, executor: Executor) -> AsyncIterator[DeletableObjects]:
        store = opened(s3_url, executor)
        yield store
        await store.close()
