"""What the options of a bucket's URL put into its requests, seen from the server's side."""

from concurrent.futures import Executor
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.objects.store import DeletableObjects
from headwater.objects.urls import open_objects
from tests.support.objects.canned import canned

pytestmark = pytest.mark.usefixtures("s3_credentials")


def opened(url: str, executor: Executor) -> DeletableObjects:
    return open_objects(url, clock=SystemClock(), random=Random(0), executor=executor)


async def put_head(options: str, executor: Executor) -> str:
    """The head of a put's request, in lower case."""
    async with canned() as (server, url):
        await opened(url + options, executor).put("key", [b"1"])
        return server.heads[0]


SIGNED = ["x-amz-content-sha256: 6b86b273ff"]
CYCLIC = ["x-amz-checksum-crc64nvme: ", "x-amz-content-sha256: unsigned-payload"]


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ("", ["put /bucket/key http", "if-none-match: *", *SIGNED]),
        ("&checksum=none", SIGNED),
        ("&encryption=AES256", ["x-amz-server-side-encryption: aes256"]),
        (
            "&encryption=aws:kms&kms_key=arn:aws:kms:eu-central-1:1:key/2",
            [
                "x-amz-server-side-encryption: aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id: arn:aws:kms:eu-central-1:1:key/2",
            ],
        ),
        ("&encryption=aws:kms:dsse", ["x-amz-server-side-encryption: aws:kms:dsse"]),
        (
            "&checksum=SHA256",
            ["x-amz-checksum-sha256: a4ayc/80/ogda4bo/1o/v0etpoqilx1jwb5s3behw0s="],
        ),
        ("&checksum=CRC64NVME", CYCLIC),
    ],
)
async def test_every_put_carries_the_option(
    options: str, headers: list[str], executor: Executor
) -> None:
    head = await put_head(options, executor)
    for header in headers:
        assert header in head


async def test_a_server_that_verifies_checksums_gets_unsigned_content(executor: Executor) -> None:
    async with canned() as (server, url):
        store = opened(url, executor)
        server.answers = [
            (200, ""), (503, "SlowDown"), (200, ""), (400, "BadDigest"), (200, "")
        ]  # fmt: skip
        for key in ("a", "b", "c", "d"):
            await store.put(key, [b"1"])
        first, asked, second, asked_again, *last = server.heads
    for head in (first, second):
        assert SIGNED[0] in head
        assert "x-amz-checksum" not in head
    for head in (asked, asked_again):
        assert "put /bucket/check/" in head
        assert "x-amz-checksum-crc64nvme: aaaaaaaaaaa=" in head
    assert len(last) == 2
    for head in last:
        assert all(line in head for line in CYCLIC)


@pytest.mark.parametrize("answer", [(200, ""), (403, "AccessDenied"), (501, "NotImplemented")])
async def test_a_server_that_does_not_verify_checksums_gets_signed_content(
    answer: tuple[int, str], executor: Executor
) -> None:
    async with canned() as (server, url):
        store = opened(url, executor)
        server.answers = [(200, ""), answer, (200, "")]
        for key in ("a", "b"):
            await store.put(key, [b"1"])
    assert server.requests.count("POST") == (answer[0] == 200), "what it took is taken away"
    assert "put /bucket/b http" in server.heads[-1]
    assert SIGNED[0] in server.heads[-1]


async def test_without_a_checksum_the_content_is_signed(executor: Executor) -> None:
    assert "x-amz-checksum" not in await put_head("&checksum=none", executor)


async def test_a_variable_names_the_checksum_where_the_url_does_not(
    monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    monkeypatch.setenv("AWS_CHECKSUM_ALGORITHM", "sha256")
    assert "x-amz-checksum-sha256: " in await put_head("", executor)
    assert CYCLIC[0] in await put_head("&checksum=CRC64NVME", executor)
    with pytest.raises(ConfigurationError, match="unset one of them"):
        await put_head("&checksum=none", executor)


async def test_a_session_token_goes_with_every_request(
    monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
    assert "x-amz-security-token: temporary" in await put_head("", executor)


async def test_buckets_of_google_and_azure_write_conditionally(
    monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    async with canned() as (server, url):
        endpoint = url.partition("endpoint=")[2].partition("&")[0]
        google = opened(f"gs://bucket/p?endpoint={endpoint}", executor)
        azure = opened(f"az://container/p?account=me&endpoint={endpoint}", executor)
        await google.put("key", [b"1"])
        await azure.put("key", [b"1"])
        first, second = server.heads
    assert (google.id, azure.id) == ("gcs", "azure")
    assert "put /bucket/p%2fkey http" in first
    assert "x-goog-if-generation-match: 0" in first
    assert "put /container/p/key http" in second
    assert "if-none-match: *" in second


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket?checksum=md5", "checksum is one of CRC64NVME, SHA256, none, not 'md5'"),
        ("s3://bucket?encryption=rot13", "encryption is one of AES256"),
        ("s3://bucket?kms_key=x", "kms_key needs encryption=aws:kms"),
        ("s3://bucket?kms_key=x&encryption=AES256", "kms_key needs encryption=aws:kms"),
        ("s3://bucket?ca=/nowhere.pem", "ca=/nowhere.pem cannot be read"),
        ("gs://bucket?region=eu", "a gs:// URL has no option region; it has endpoint, ca"),
        ("gs://", "write a bucket's URL as gs://bucket/prefix"),
        ("az://me@container", "write a bucket's URL as az://bucket/prefix"),
        ("az://container?sas=secret", "it has account, endpoint, ca"),
        ("az://container", "cannot use az://container/"),
    ],
)
def test_a_wrong_option_is_a_one_line_error(url: str, said: str, executor: Executor) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opened(url, executor)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
