"""What the URLs of all buckets have in common: a name, a prefix, options, and time limits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote

from obstore.exceptions import BaseError

from headwater.errors import ConfigurationError
from headwater.objects.names import is_key

if TYPE_CHECKING:  # obstore has these in its type stubs only
    from obstore.store import ClientConfig, RetryConfig

REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=5)


def bucket_name(url: SplitResult) -> str:
    """The bucket that a URL names. Raises ``ConfigurationError``."""
    if not url.netloc or "@" in url.netloc:
        raise ConfigurationError(
            f"a bucket's URL is {url.scheme}://bucket/prefix, and credentials stand in variables"
        )
    return url.netloc


def bucket_prefix(url: SplitResult) -> str:
    """What stands before every key, without slashes around it. Raises ``ConfigurationError``."""
    prefix = unquote(url.path).strip("/")
    if prefix and not is_key(prefix):
        raise ConfigurationError(f"{prefix!r} is not a legal prefix of a {url.scheme}:// URL")
    return prefix


def url_options(scheme: str, query: str, known: Sequence[str]) -> dict[str, str]:
    """What stands after the question mark. Raises ``ConfigurationError`` for one not ``known``."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - set(known):
        raise ConfigurationError(
            f"a {scheme}:// URL has no option {', '.join(sorted(unknown))}; "
            f"it has {', '.join(known)}"
        )
    endpoint = options.get("endpoint")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(f"endpoint is an http:// or https:// address, not {endpoint!r}")
    return options


def client_options(options: dict[str, str], endpoint: str | None) -> "ClientConfig":
    """Time limits, plain HTTP where the ``endpoint`` is that, and an authority of one's own."""
    client: ClientConfig = {"timeout": REQUEST_TIMEOUT, "connect_timeout": CONNECT_TIMEOUT}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True
    if file := options.get("ca"):
        try:
            client["root_certificate"] = Path(file).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"ca={file} cannot be read: {error.strerror}; name a PEM file of certificates"
            ) from error
    return client


def retry_config(count: int) -> "RetryConfig":
    return {"max_retries": count, "retry_timeout": REQUEST_TIMEOUT}


@contextmanager
def one_line_errors(where: str) -> Iterator[None]:
    """What obstore refuses to be configured with becomes a ``ConfigurationError``."""
    try:
        yield
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"cannot use {where}: {reason}") from error
