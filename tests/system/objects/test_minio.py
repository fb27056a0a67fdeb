"""The same on MinIO."""

import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from random import Random
from urllib.parse import urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from headwater.clock import SystemClock
from headwater.errors import StoreUnavailable
from headwater.objects.compatibility import check_compatibility
from headwater.objects.remote.s3 import open_s3
from headwater.objects.store import DeletableObjects
from headwater.objects.urls import open_objects
from peers.minio import start_minio
from peers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from tests.support.objects.conformance import ObjectStoreConformance
from tests.system.objects.changed_bytes import refuses_what_changed

pytestmark = [pytest.mark.minio, pytest.mark.usefixtures("s3_credentials")]


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = start_minio(tmp_path_factory.mktemp("minio") / "data")
    yield server
    server.stop()


class TestMinio(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, minio: S3Server, bucket: str, executor: Executor
    ) -> AsyncIterator[DeletableObjects]:
        minio.create_bucket(bucket)
        url = minio.url(bucket, "some/prefix")
        store = open_objects(url, clock=SystemClock(), random=Random(0), executor=executor)
        yield store
        await store.close()


@pytest.mark.parametrize("checksum", ["", "CRC64NVME", "SHA256", "none"])
async def test_bytes_that_change_on_their_way_are_refused(
    minio: S3Server, bucket: str, checksum: str
) -> None:
    minio.create_bucket(bucket)
    await refuses_what_changed(minio, bucket, checksum)


def assumed_role(server: S3Server) -> dict[str, str]:
    """Temporary credentials from MinIO's own token service."""
    request = botocore.awsrequest.AWSRequest(
        "POST",
        f"{server.endpoint}/",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        data="Action=AssumeRole&Version=2011-06-15&DurationSeconds=900",
    )
    credentials = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
    botocore.auth.SigV4Auth(credentials, "sts", REGION).add_auth(request)
    sent = urllib.request.Request(
        request.url, data=request.data.encode(), headers=dict(request.headers), method="POST"
    )
    answer = urllib.request.urlopen(sent, timeout=10).read().decode()
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    found = {name: re.search(f"<{name}>(.*?)</{name}>", answer) for name in names}
    return {name: match[1] for name, match in found.items() if match}


async def test_temporary_credentials_open_the_bucket_with_their_token_alone(
    minio: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    minio.create_bucket(bucket)
    temporary = assumed_role(minio)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", temporary["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", temporary["SecretAccessKey"])
    store = open_s3(urlsplit(minio.url(bucket)))
    with pytest.raises(StoreUnavailable, match="access is denied"):
        await store.put("a", [b"1"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", temporary["SessionToken"])
    store = open_s3(urlsplit(minio.url(bucket)))
    await check_compatibility(store, "here", random=Random(1))
    await store.put("a", [b"1"])
    assert await store.get("a") == b"1"


@pytest.mark.parametrize("checksum", ["SHA256", "CRC64NVME"])
async def test_checksums_are_taken(minio: S3Server, bucket: str, checksum: str) -> None:
    minio.create_bucket(bucket)
    store = open_s3(urlsplit(f"{minio.url(bucket)}&checksum={checksum}"))
    await check_compatibility(store, "here", random=Random(1))


async def test_encryption_without_a_key_service_is_refused_in_one_line(
    minio: S3Server, bucket: str
) -> None:
    """That MinIO refuses shows that it was asked: it has no key service here."""
    minio.create_bucket(bucket)
    for encryption in ("AES256", "aws:kms"):
        store = open_s3(urlsplit(f"{minio.url(bucket)}&encryption={encryption}"))
        with pytest.raises(StoreUnavailable, match=r"refused it \(\d+ \w+\)") as caught:
            await store.put("a", [b"1"])
        assert "\n" not in str(caught.value)
