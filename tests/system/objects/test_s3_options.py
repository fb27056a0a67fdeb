"""The ways in which a bucket is reached, each against a real server.

versitygw leaves encryption to its file system and takes the headers that ask for it as they are,
so it can show nothing of them: that they are sent is in ``tests/unit/objects/test_options.py``, and
that a server heeds them in ``test_minio``.
"""

import asyncio
import base64
import hashlib
import urllib.request
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import obstore
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.objects.compatibility import check_compatibility
from headwater.objects.remote.s3 import open_bucket, open_s3
from headwater.objects.remote.store import RemoteObjects
from headwater.objects.retrying import TransientFailure
from peers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from peers.versitygw import start_versitygw
from tests.system.objects.certificates import issue
from tests.system.objects.changed_bytes import refuses_what_changed

pytestmark = pytest.mark.usefixtures("s3_credentials")


def opened(url: str) -> RemoteObjects:
    return open_s3(urlsplit(url))


async def use(url: str) -> None:
    """Everything that the log is built on, and bytes there and back."""
    store = opened(url)
    await check_compatibility(store, url, random=Random(1))
    data = Random(2).randbytes(100_000)
    await store.put("wal/1.wo", [data[:10], data[10:]])
    assert await store.get("wal/1.wo") == data
    assert store.traffic.errors == 0


async def test_path_style(versitygw: S3Server, bucket: str) -> None:
    versitygw.create_bucket(bucket)
    await use(versitygw.url(bucket, "some/prefix"))


async def test_virtual_hosts(
    versitygw: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versitygw.create_bucket(bucket)
    server = start_versitygw(data_of(versitygw), domain="s3.test")
    try:
        # The names below s3.test have no address: as a proxy, the server is asked for all of them.
        monkeypatch.setenv("http_proxy", server.endpoint)
        await use(f"s3://{bucket}/p?endpoint=http://s3.test&region=us-east-1&path_style=false")
        assert (data_of(versitygw) / bucket / "p" / "wal" / "1.wo").stat().st_size == 100_000
    finally:
        server.stop()


async def test_an_authority_of_ones_own(versitygw: S3Server, bucket: str, tmp_path: Path) -> None:
    versitygw.create_bucket(bucket)
    authority, certificate = issue(tmp_path)
    server = start_versitygw(data_of(versitygw), tls=certificate)
    try:
        with pytest.raises(TransientFailure, match="check that the object store answers"):
            await opened(server.url(bucket)).put("a", [b"1"])
        await use(f"{server.url(bucket)}&ca={authority}")
    finally:
        server.stop()


def test_an_authority_that_cannot_be_read_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ca=.*cannot be read: No such file"):
        opened(f"s3://bucket?ca={tmp_path}/none.pem")
    (tmp_path / "empty.pem").write_text("this is no certificate")
    with pytest.raises(ConfigurationError) as caught:
        opened(f"s3://bucket?ca={tmp_path}/empty.pem")
    assert "\n" not in str(caught.value)


async def test_a_checksum_is_sent_checked_and_kept(versitygw: S3Server, bucket: str) -> None:
    """By itself versitygw makes a CRC64NVME: a SHA256 is there only where a client sent it."""
    versitygw.create_bucket(bucket)
    await use(versitygw.url(bucket, "plain"))
    await use(f"{versitygw.url(bucket, 'checked')}&checksum=SHA256")
    await use(f"{versitygw.url(bucket, 'cyclic')}&checksum=CRC64NVME")  # refused were it wrong
    data = await opened(versitygw.url(bucket, "checked")).get("wal/1.wo")
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert kept_checksum(versitygw, f"{bucket}/plain/wal/1.wo") is None
    assert kept_checksum(versitygw, f"{bucket}/checked/wal/1.wo") == digest


@pytest.mark.parametrize("checksum", ["", "CRC64NVME", "SHA256", "none"])
async def test_bytes_that_change_on_their_way_are_refused(
    versitygw: S3Server, bucket: str, checksum: str
) -> None:
    versitygw.create_bucket(bucket)
    await refuses_what_changed(versitygw, bucket, checksum)


def kept_checksum(server: S3Server, path: str) -> str | None:
    """The SHA256 that the server has of an object."""
    asked = AWSRequest(
        "HEAD", f"{server.endpoint}/{path}", headers={"x-amz-checksum-mode": "ENABLED"}
    )
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(asked)
    request = urllib.request.Request(asked.url, headers=dict(asked.headers), method="HEAD")
    with urllib.request.urlopen(request, timeout=10) as answer:
        sha256: str | None = answer.headers.get("x-amz-checksum-sha256")
        return sha256


async def test_wrong_keys_are_a_one_line_error(
    versitygw: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versitygw.create_bucket(bucket)
    for name, value in (("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "nobody")):
        monkeypatch.setenv(name, value)
        with pytest.raises(StoreUnavailable, match="access is denied; check AWS_") as caught:
            await check_compatibility(opened(versitygw.url(bucket)), "here", random=Random(1))
        assert "\n" not in str(caught.value)
        with pytest.raises(StoreUnavailable, match="access is denied"):
            await opened(versitygw.url(bucket)).get("absent")


async def test_a_bucket_that_is_not_there_stops_the_start(versitygw: S3Server) -> None:
    with pytest.raises(StoreUnavailable, match="the bucket does not exist; create it"):
        await check_compatibility(opened(versitygw.url("absent")), "here", random=Random(1))


async def test_racing_writers_of_a_key_have_one_winner(versitygw: S3Server, bucket: str) -> None:
    versitygw.create_bucket(bucket)
    store = open_bucket(urlsplit(versitygw.url(bucket)))

    async def write(content: bytes) -> bytes | None:
        try:
            await obstore.put_async(store, "key", content * 50_000, mode="create")
        except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.GenericError):
            return None
        return content

    won = await asyncio.gather(*(write(bytes([number])) for number in range(16)))
    [winner] = [content for content in won if content is not None]
    assert bytes(await (await obstore.get_async(store, "key")).bytes_async()) == winner * 50_000


def data_of(server: S3Server) -> Path:
    """The folder whose folders are the buckets."""
    return Path(server.command[-1])
