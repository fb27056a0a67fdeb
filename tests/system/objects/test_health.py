"""What a broker's process learns of a real store behind a network that misbehaves."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from urllib.parse import urlsplit

import pytest

from headwater.errors import StoreUnavailable
from headwater.objects.health import HealthState, HealthThresholds, StoreHealth, StoreSuspended
from headwater.objects.remote.s3 import open_s3
from headwater.objects.remote.store import RemoteObjects
from headwater.objects.retrying import BACKOFF, RetryingObjects, TransientFailure
from peers.s3_server import S3Server
from peers.toxiproxy import Proxy, Toxiproxy

pytestmark = pytest.mark.usefixtures("s3_credentials")


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, versitygw: S3Server) -> Iterator[Proxy]:
    proxy = toxiproxy.proxy(versitygw.address)
    yield proxy
    proxy.close()


@pytest.fixture
def health() -> StoreHealth:
    """Of a short memory, so that the tests need none of patience."""
    return StoreHealth(HealthThresholds(window_seconds=1.0, probe_interval_seconds=0.1))


@pytest.fixture
def store(proxy: Proxy, versitygw: S3Server, bucket: str, health: StoreHealth) -> RemoteObjects:
    versitygw.create_bucket(bucket)
    url = versitygw.url(bucket).replace(versitygw.address, proxy.address)
    return open_s3(urlsplit(url), health=health)


def state(health: StoreHealth) -> HealthState:
    return health.state(asyncio.get_running_loop().time())


async def test_delays_degrade_the_store_and_pass(
    store: RemoteObjects, proxy: Proxy, health: StoreHealth
) -> None:
    await store.put("first", [b"1"])
    assert state(health) is HealthState.HEALTHY
    proxy.delay(700)
    await asyncio.gather(*(store.put(f"slow/{number}", [b"1"]) for number in range(5)))
    assert state(health) is HealthState.DEGRADED
    proxy.heal()
    await asyncio.sleep(1.1)
    await store.put("last", [b"1"])
    assert state(health) is HealthState.HEALTHY


async def test_a_cut_suspends_requests_until_it_heals(
    store: RemoteObjects, proxy: Proxy, health: StoreHealth
) -> None:
    await store.put("first", [b"1"])
    proxy.cut()
    sent = await until_suspended(store)
    assert sent >= health.limits.min_failures
    assert state(health) is HealthState.UNAVAILABLE
    proxy.heal()
    await until_stored(store, "last")
    assert state(health) is HealthState.HEALTHY


async def test_resets_are_outlasted_by_retries(store: RemoteObjects, proxy: Proxy) -> None:
    patient = RetryingObjects(store, random=Random(1), backoff=replace(BACKOFF, attempts=100))
    proxy.add("reset_peer", share=0.3, timeout=0)
    for number in range(20):
        # As a broker's callers do, where the share of failures suspends requests for a moment.
        await until_stored(patient, f"wal/{number}")
    proxy.heal()
    await asyncio.sleep(0.2)
    assert [info.size async for info in patient.list("wal/")] == [1] * 20


async def until_suspended(store: RemoteObjects) -> int:
    """How many requests failed before the store was given up for the moment."""
    for number in range(1_000):
        try:
            await store.put("during", [b"1"])
        except StoreSuspended:
            return number
        except TransientFailure:
            continue
    raise AssertionError("nothing was ever suspended")


async def until_stored(store: RemoteObjects | RetryingObjects, key: str) -> None:
    while True:
        try:
            return await store.put(key, [b"1"])
        except StoreUnavailable:
            await asyncio.sleep(0.05)
