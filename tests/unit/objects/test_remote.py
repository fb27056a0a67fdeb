"""What a bucket's refusals become: canned answers where a real server gives none."""

import asyncio
from urllib.parse import urlsplit

import pytest

from headwater.errors import ObjectNotFound, ObjectStoreUnavailable, StorageFull, StoreError
from headwater.objects.health import HealthState, HealthThresholds, StoreHealth, StoreSuspended
from headwater.objects.remote.s3 import open_s3
from headwater.objects.remote.store import RemoteObjects
from headwater.objects.retrying import TransientFailure
from tests.support.objects.canned import canned

pytestmark = pytest.mark.usefixtures("s3_credentials")


def bucket(url: str) -> RemoteObjects:
    """One that does not ask first what the server checks."""
    return open_s3(urlsplit(f"{url}&checksum=none"))


@pytest.mark.parametrize(
    ("status", "code", "error", "text"),
    [
        (503, "SlowDown", TransientFailure, "503 SlowDown"),
        (500, "InternalError", TransientFailure, "500 InternalError"),
        (429, "", TransientFailure, "429"),
        (400, "RequestTimeout", TransientFailure, "400 RequestTimeout"),
        (400, "BadDigest", TransientFailure, "corrupted in transit"),
        (403, "AccessDenied", ObjectStoreUnavailable, "AWS_ACCESS_KEY_ID.*403 AccessDenied"),
        (401, "", ObjectStoreUnavailable, "AWS_ACCESS_KEY_ID"),
        (404, "NoSuchBucket", ObjectStoreUnavailable, "the bucket does not exist; create it"),
        (404, "ContainerNotFound", ObjectStoreUnavailable, "the bucket does not exist; create it"),
        (404, "XAdminUserNotFound", ObjectStoreUnavailable, "access is denied"),
        (403, "InvalidAccessKeyId", ObjectStoreUnavailable, "access is denied"),
        (301, "PermanentRedirect", ObjectStoreUnavailable, "another region"),
        (400, "ExpiredToken", ObjectStoreUnavailable, "have expired; .*400 ExpiredToken"),
        (507, "XMinioStorageFull", StorageFull, "no space left"),
    ],
)
async def test_an_error_says_what_is_wrong_and_whether_a_retry_helps(
    status: int, code: str, error: type[StoreError], text: str
) -> None:
    async with canned() as (server, url):
        store = bucket(url)
        server.answers = [(status, code)]
        for request in (store.put("a", [b"1"]), store.get("a"), store.get_range("a", 0, 1)):
            with pytest.raises(error, match=text) as caught:
                await request
            assert type(caught.value) is error
            assert "s3://bucket" in str(caught.value)
            assert "\n" not in str(caught.value)
        assert len(server.requests) == 3, "obstore itself repeats nothing"
        assert store.traffic.errors == 3


async def test_a_refused_connection_is_a_transient_failure() -> None:
    store = bucket("s3://bucket?endpoint=http://127.0.0.1:1")
    with pytest.raises(TransientFailure, match="check that the object store answers"):
        await store.put("a", [b"1"])


async def test_a_missing_bucket_is_not_a_missing_object(s3_url: str) -> None:
    store = bucket(s3_url.replace("headwater", "elsewhere"))
    for request in (store.put("a", [b"1"]), store.get("a"), store.delete("a")):
        with pytest.raises(ObjectStoreUnavailable, match="bucket does not exist"):
            await request
    with pytest.raises(ObjectStoreUnavailable, match="bucket does not exist"):
        await anext(store.list(""))


async def test_a_conflict_counts_as_written_only_when_the_object_is_there() -> None:
    async with canned() as (server, url):
        store = bucket(url)
        server.answers = [(412, "PreconditionFailed"), (200, "")]
        await store.put("a", [b"1"])
        server.answers = [(409, "ConditionalRequestConflict"), (404, "")]
        with pytest.raises(TransientFailure, match="another write"):
            await store.put("a", [b"1"])
        assert server.requests == ["PUT", "HEAD"] * 2


async def test_conditional_puts_cannot_be_switched_off(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    with pytest.raises(ObjectStoreUnavailable, match="unset it"):
        await bucket(s3_url).put("a", [b"1"])


async def test_requests_in_flight_are_bounded() -> None:
    async with canned() as (server, url):
        store = open_s3(urlsplit(url), concurrency=3)
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(store.put(f"{number}", [b"1"]))
        assert server.most_under_way == 3


async def test_a_throttled_store_gets_only_probes_until_it_answers_again() -> None:
    async with canned() as (server, url):
        health = StoreHealth(HealthThresholds(probe_interval_seconds=0.2))
        store = open_s3(urlsplit(url), health=health)
        server.answers = [(503, "SlowDown")]
        for _ in range(HealthThresholds().min_failures + 1):  # the last of them is the first probe
            with pytest.raises(TransientFailure, match="503 SlowDown"):
                await store.put("a", [b"1"])
        sent = len(server.requests)
        for _ in range(20):
            with pytest.raises(StoreSuspended, match="9 of 9 requests failed"):
                await store.put("a", [b"1"])
        assert len(server.requests) == sent
        server.answers = [(200, "")]
        await asyncio.sleep(0.25)
        for _ in range(20):
            await store.put("a", [b"1"])
        assert health.state(asyncio.get_running_loop().time()) is HealthState.HEALTHY


async def test_a_cancelled_request_frees_its_slot() -> None:
    async with canned() as (server, url):
        store = open_s3(urlsplit(url), concurrency=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.put("a", [b"1"]), 0.001)
        await store.put("a", [b"1"])
        assert "PUT" in server.requests


async def test_a_prefix_keeps_two_stores_in_one_bucket_apart(s3_url: str) -> None:
    first, second = bucket(s3_url), bucket(s3_url.replace("some/prefix", "some/other"))
    await first.put("a", [b"1"])
    assert [info.key async for info in second.list("")] == []
    with pytest.raises(ObjectNotFound):
        await second.get("a")
