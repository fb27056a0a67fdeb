"""A bucket of S3, or of a server that speaks its protocol, from a URL.

``s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-central-1&path_style=true``

What the URL leaves out comes from the usual variables: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL and so on. Secrets are
not taken from a URL, because URLs end up in logs and process lists.
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote

from obstore.exceptions import BaseError
from obstore.store import S3Store

from headwater.errors import ConfigurationError
from headwater.objects.names import is_key
from headwater.objects.remote import RemoteObjects

if TYPE_CHECKING:  # obstore has these in its type stubs only
    from obstore.store import ClientConfig, S3Config

_OPTIONS = ("endpoint", "region", "path_style")
_REQUEST_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=5)


def open_s3(url: SplitResult, *, concurrency: int = 64) -> RemoteObjects:
    """The bucket that a URL names. Nothing is sent yet. Raises ``ConfigurationError``."""
    where = f"s3://{url.netloc}/{_prefix(url)}"
    return RemoteObjects(open_bucket(url), id="s3", where=where, concurrency=concurrency)


def open_bucket(url: SplitResult, *, retries: int = 0) -> S3Store:
    """The same as obstore has it, for what blocks and runs outside a broker's loop."""
    bucket, prefix = url.netloc, _prefix(url)
    if not bucket or "@" in bucket:
        raise ConfigurationError("an S3 URL is s3://bucket/prefix, and credentials stand in AWS_*")
    if prefix and not is_key(prefix):
        raise ConfigurationError(f"{prefix!r} is not a legal prefix of an S3 URL")
    options = s3_options(url.query)
    config: S3Config = {}
    client: ClientConfig = {"timeout": _REQUEST_TIMEOUT, "connect_timeout": _CONNECT_TIMEOUT}
    if region := options.get("region"):
        config["region"] = region
    endpoint = options.get("endpoint")
    if endpoint:
        config["endpoint"] = endpoint
    if (endpoint or os.environ.get("AWS_ENDPOINT_URL", "")).startswith("http://"):
        client["allow_http"] = True
    if "path_style" in options:
        config["virtual_hosted_style_request"] = options["path_style"] != "true"
    try:
        return S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options=client,
            retry_config={"max_retries": retries, "retry_timeout": _REQUEST_TIMEOUT},
        )
    except (BaseError, ValueError) as error:
        raise ConfigurationError(
            f"cannot use s3://{bucket}: {str(error).partition(chr(10))[0]}"
        ) from error


def _prefix(url: SplitResult) -> str:
    return unquote(url.path).strip("/")


def s3_options(query: str) -> dict[str, str]:
    """What stands after the question mark, checked. Raises ``ConfigurationError``."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - set(_OPTIONS):
        raise ConfigurationError(
            f"an S3 URL has no option {', '.join(sorted(unknown))}; it has {', '.join(_OPTIONS)}"
        )
    if options.get("path_style", "true") not in ("true", "false"):
        raise ConfigurationError(f"path_style is true or false, not {options['path_style']!r}")
    endpoint = options.get("endpoint")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(f"endpoint is an http:// or https:// address, not {endpoint!r}")
    return options
