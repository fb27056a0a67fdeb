"""Opens a bucket of S3, or of a server that implements its protocol, from a URL.

``s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-central-1&path_style=true``

Options that the URL does not have come from the usual environment variables: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and so on. Secrets in a URL
are refused, because URLs appear in logs and process lists.
"""

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from headwater.errors import ConfigurationError
from headwater.objects.health import StoreHealth
from headwater.objects.remote.bucket_urls import (
    bucket_name,
    bucket_prefix,
    client_options,
    one_line_errors,
    retry_config,
    url_options,
)
from headwater.objects.remote.errors import S3_ACCESS, arrived_changed, remote_error
from headwater.objects.remote.store import MAX_REQUESTS_IN_FLIGHT, RemoteObjects
from headwater.objects.retrying import TransientFailure

if TYPE_CHECKING:  # obstore has this in its type stubs only
    from obstore.store import S3Config

OPTIONS = ("endpoint", "region", "path_style", "ca", "encryption", "kms_key", "checksum")
_ALLOWED_VALUES = {
    "path_style": ("true", "false"),
    "encryption": ("AES256", "aws:kms", "aws:kms:dsse"),
    "checksum": ("CRC64NVME", "SHA256", "none"),
}
_CRC64NVME = "CRC64NVME"
_WRONG_CHECKSUM_HEADER = {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}


def open_s3(
    url: SplitResult,
    *,
    concurrency: int = MAX_REQUESTS_IN_FLIGHT,
    health: StoreHealth | None = None,
) -> RemoteObjects:
    """Open the bucket of a URL, without a request. Raises ``ConfigurationError``.

    If no checksum is configured, the first put carries a signed SHA-256 of its content. Then a put
    with a wrong CRC64NVME tests whether the server verifies that checksum. If it does, later puts
    use it instead, because hashing 4 MB takes as long as sending them, on both sides. Amazon S3 is
    known to verify it.
    """
    options = s3_options(url.query)
    named = _checksum(options)
    uses_crc = named is None and _endpoint(options) is None

    async def faster_bucket() -> S3Store | None:
        return open_bucket(url, checksum=_CRC64NVME) if await _verifies_crc(url) else None

    return RemoteObjects(
        open_bucket(url, checksum=_CRC64NVME if uses_crc else None),
        id="s3",
        where=f"s3://{url.netloc}/{bucket_prefix(url)}",
        access=S3_ACCESS,
        concurrency=concurrency,
        health=health,
        faster_bucket=faster_bucket if named is None and not uses_crc else None,
    )


def open_bucket(
    url: SplitResult,
    *,
    retries: int = 0,
    checksum: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> S3Store:
    """Open the bucket of a URL as an obstore bucket, which also has blocking calls.

    ``checksum`` is the algorithm if neither the URL nor a variable names one. With CRC64NVME the
    signature of a request does not cover its content. ``headers`` are sent with every request.
    """
    bucket, prefix = bucket_name(url), bucket_prefix(url)
    options = s3_options(url.query)
    config: S3Config = {}
    endpoint = _endpoint(options)
    if endpoint:
        config["endpoint"] = endpoint
    if region := options.get("region"):
        config["region"] = region
    if "path_style" in options:
        config["virtual_hosted_style_request"] = options["path_style"] != "true"
        if endpoint and options["path_style"] != "true":
            config["endpoint"] = _with_bucket(endpoint, bucket)
    if encryption := options.get("encryption"):
        config["server_side_encryption"] = encryption
    if kms_key := options.get("kms_key"):
        config["sse_kms_key_id"] = kms_key
    checksum = _checksum(options) or checksum
    if checksum is not None and checksum != "none":
        config["checksum_algorithm"] = checksum
    if checksum == _CRC64NVME or headers:
        config["unsigned_payload"] = True
    client = client_options(options, endpoint)
    if headers:
        client["default_headers"] = dict(headers)
    with one_line_errors(f"s3://{bucket}"):
        return S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options=client,
            retry_config=retry_config(retries),
        )


async def _verifies_crc(url: SplitResult) -> bool:
    """Whether the server refuses an object with a wrong CRC64NVME because of the checksum.

    Raises ``TransientFailure`` if the server does not answer at the moment.
    """
    bucket = open_bucket(url, headers=_WRONG_CHECKSUM_HEADER)
    key = f"check/{uuid.uuid4().hex}/sum"
    try:
        await obstore.put_async(bucket, key, b"not this sum", use_multipart=False)
    except (BaseError, FileNotFoundError) as error:
        if arrived_changed(error):
            return True
        failure = remote_error(error, f"writing {key}", f"s3://{url.netloc}")
        if isinstance(failure, TransientFailure):
            raise failure from error
        return False
    with suppress(BaseError, FileNotFoundError):  # the next compatibility check deletes it
        await obstore.delete_async(bucket, key)
    return False


def _endpoint(options: Mapping[str, str]) -> str | None:
    return options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL")


def _checksum(options: Mapping[str, str]) -> str | None:
    """The checksum of the URL or the variable; ``ConfigurationError`` if they contradict."""
    named, variable = options.get("checksum"), os.environ.get("AWS_CHECKSUM_ALGORITHM")
    if named == "none" and variable:
        raise ConfigurationError(
            f"checksum=none, but AWS_CHECKSUM_ALGORITHM is {variable}; unset one of them"
        )
    return named or (variable.upper() if variable else None)


def s3_options(query: str) -> dict[str, str]:
    """The options of a URL's query, checked. Raises ``ConfigurationError``."""
    options = url_options("s3", query, OPTIONS)
    for name, allowed in _ALLOWED_VALUES.items():
        if name in options and options[name] not in allowed:
            raise ConfigurationError(
                f"{name} is one of {', '.join(allowed)}, not {options[name]!r}"
            )
    if "kms_key" in options and options.get("encryption") not in ("aws:kms", "aws:kms:dsse"):
        raise ConfigurationError("kms_key needs encryption=aws:kms or encryption=aws:kms:dsse")
    return options


def _with_bucket(endpoint: str, bucket: str) -> str:
    """The endpoint of a bucket that has its own host name.

    >>> _with_bucket("https://s3.example.com:9000", "logs")
    'https://logs.s3.example.com:9000'
    """
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()
