"""A bucket of S3, or of a server that speaks its protocol, from a URL.

``s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-central-1&path_style=true``

What the URL leaves out comes from the usual variables: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and so on. Secrets are
not taken from a URL, because URLs end up in logs and process lists.
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
from headwater.objects.remote.buckets import (
    bucket_name,
    bucket_prefix,
    client_options,
    one_line_errors,
    retry_config,
    url_options,
)
from headwater.objects.remote.errors import S3_ACCESS, arrived_changed, remote_error
from headwater.objects.remote.store import CONCURRENCY, RemoteObjects
from headwater.objects.retrying import TransientFailure

if TYPE_CHECKING:  # obstore has this in its type stubs only
    from obstore.store import S3Config

OPTIONS = ("endpoint", "region", "path_style", "ca", "encryption", "kms_key", "checksum")
_ALLOWED = {
    "path_style": ("true", "false"),
    "encryption": ("AES256", "aws:kms", "aws:kms:dsse"),
    "checksum": ("CRC64NVME", "SHA256", "none"),
}
_CYCLIC = "CRC64NVME"
_WRONG_SUM = {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA="}


def open_s3(
    url: SplitResult, *, concurrency: int = CONCURRENCY, health: StoreHealth | None = None
) -> RemoteObjects:
    """The bucket that a URL names. Nothing is sent yet. Raises ``ConfigurationError``.

    Where no checksum is named, puts are signed over their content until the server has shown that
    it checks a CRC64NVME. That takes its place then: to hash four megabytes takes the broker as
    long as to send them, and the server as long again. Amazon's own is known to check it.
    """
    options = s3_options(url.query)
    named = _checksum(options)
    cyclic = named is None and _endpoint(options) is None

    async def quicker() -> S3Store | None:
        return open_bucket(url, checksum=_CYCLIC) if await _checks_sums(url) else None

    return RemoteObjects(
        open_bucket(url, checksum=_CYCLIC if cyclic else None),
        id="s3",
        where=f"s3://{url.netloc}/{bucket_prefix(url)}",
        access=S3_ACCESS,
        concurrency=concurrency,
        health=health,
        quicker=quicker if named is None and not cyclic else None,
    )


def open_bucket(
    url: SplitResult,
    *,
    retries: int = 0,
    checksum: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> S3Store:
    """The same as obstore has it, for what blocks and runs outside a broker's loop.

    ``checksum`` goes with every object where neither URL nor variable names one; beside a
    CRC64NVME requests are not signed over their content. ``headers`` go with every request.
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
    if checksum == _CYCLIC or headers:
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


async def _checks_sums(url: SplitResult) -> bool:
    """Whether the server refuses an object whose CRC64NVME is wrong, for that reason.

    Raises ``TransientFailure`` where it does not say at the moment.
    """
    bucket = open_bucket(url, headers=_WRONG_SUM)
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
    with suppress(BaseError, FileNotFoundError):  # the next check sees to what is left behind
        await obstore.delete_async(bucket, key)
    return False


def _endpoint(options: Mapping[str, str]) -> str | None:
    return options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL")


def _checksum(options: Mapping[str, str]) -> str | None:
    """What URL or variable names. Raises ``ConfigurationError`` where they contradict."""
    named, variable = options.get("checksum"), os.environ.get("AWS_CHECKSUM_ALGORITHM")
    if named == "none" and variable:
        raise ConfigurationError(
            f"checksum=none, but AWS_CHECKSUM_ALGORITHM is {variable}; unset one of them"
        )
    return named or (variable.upper() if variable else None)


def s3_options(query: str) -> dict[str, str]:
    """What stands after the question mark, checked. Raises ``ConfigurationError``."""
    options = url_options("s3", query, OPTIONS)
    for name, allowed in _ALLOWED.items():
        if name in options and options[name] not in allowed:
            raise ConfigurationError(
                f"{name} is one of {', '.join(allowed)}, not {options[name]!r}"
            )
    if "kms_key" in options and options.get("encryption") not in ("aws:kms", "aws:kms:dsse"):
        raise ConfigurationError("kms_key needs encryption=aws:kms or encryption=aws:kms:dsse")
    return options


def _with_bucket(endpoint: str, bucket: str) -> str:
    """Where a bucket with a host name of its own is reached.

    >>> _with_bucket("https://s3.example.com:9000", "logs")
    'https://logs.s3.example.com:9000'
    """
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()
