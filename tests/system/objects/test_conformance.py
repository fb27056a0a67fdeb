"""The object stores' conformance suite, unchanged, on real servers."""

from collections.abc import AsyncIterator
from concurrent.futures import Executor
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.objects.store import DeletableObjects
from headwater.objects.urls import open_objects
from peers.s3_server import S3Server
from tests.support.objects.conformance import ObjectStoreConformance

pytestmark = pytest.mark.usefixtures("s3_credentials")


class TestVersitygw(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, versitygw: S3Server, bucket: str, executor: Executor
    ) -> AsyncIterator[DeletableObjects]:
        versitygw.create_bucket(bucket)
        store = open_objects(
            versitygw.url(bucket, "some/prefix"),
            clock=SystemClock(),
            random=Random(0),
            executor=executor,
        )
        yield store
        await store.close()
