"""The parts that the URLs of all buckets share: a name, a prefix, options and timeouts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote

from obstore.exceptions import BaseError

from headwater.errors import ConfigurationError
from headwater.objects.object_keys import is_key

if TYPE_CHECKING:  # obstore has these in its type stubs only
    from obstore.store import ClientConfig, RetryConfig

REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=5)


def bucket_name(url: SplitResult) -> str:
    """The bucket that a URL names. Raises ``ConfigurationError``."""
    if not url.netloc or "@" in url.netloc:
        raise ConfigurationError(
            f"write a bucket's URL as {url.scheme}://bucket/prefix, with credentials in variables"
        )
    return url.netloc


def bucket_prefix(url: SplitResult) -> str:
    """The prefix of all keys, without outer slashes. Raises ``ConfigurationError``."""
    prefix = unquote(url.path).strip("/")
    if prefix and not is_key(prefix):
        raise ConfigurationError(f"{prefix!r} is not a legal prefix of a {url.scheme}:// URL")
    return prefix


def url_options(scheme: str, query: str, known: Sequence[str]) -> dict[str, str]:
    """The options of a query. Raises ``ConfigurationError`` for an option not in ``known``."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := options.keys() - set(known):
        raise ConfigurationError(
            f"a {scheme}:// URL has no option {', '.join(sorted(unknown))}; "
            f"it has {', '.join(known)}"
        )
    endpoint = options.get("endpoint")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(f"endpoint must begin with http:// or https://, not {endpoint!r}")
    return options


def client_options(options: dict[str, str], endpoint: str | None) -> "ClientConfig":
    """Timeouts, plain HTTP if the ``endpoint`` uses it, and a certificate authority from ``ca``."""
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
    """Raise ``ConfigurationError`` with one line if obstore refuses its configuration."""
    try:
        yield
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"cannot use {where}: {reason}") from error
