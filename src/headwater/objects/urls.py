"""Opens the object store that a URL names."""

from concurrent.futures import Executor
from pathlib import Path
from random import Random
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.clock import Clock
from headwater.errors import ConfigurationError
from headwater.objects.health import StoreHealth
from headwater.objects.local.store import LocalDirectory
from headwater.objects.memory import MemoryObjects
from headwater.objects.retrying import RetryingObjects
from headwater.objects.store import DeletableObjects


def open_objects(
    url: str,
    *,
    clock: Clock,
    random: Random,
    executor: Executor,
    health: StoreHealth | None = None,
) -> DeletableObjects:
    """Open ``file:///directory``, ``memory://``, ``s3://…``, ``gs://…`` or ``az://…``.

    For a directory, this blocks for some milliseconds to create it and to test that it is
    writable. For a bucket, no request is sent. Only buckets report to ``health``. Raises
    ``ConfigurationError``.
    """
    parts = _split(url)
    match parts.scheme:
        case "file":
            return LocalDirectory(_path(parts), executor=executor)
        case "memory":
            return MemoryObjects(clock=clock)
        case "s3" | "gs" | "az":
            return RetryingObjects(_bucket(parts, health), random=random)
        case _:
            raise ConfigurationError(
                f"{url!r} is not an object store's URL: "
                "it starts with file:///, memory://, s3://, gs:// or az://"
            )


def local_directory(url: str) -> Path | None:
    """The directory of a ``file://`` URL, None for others; raises ``ConfigurationError``.

    >>> local_directory("file:///var/lib/headwater%20data/objects").as_posix()
    '/var/lib/headwater data/objects'
    """
    parts = _split(url)
    return _path(parts) if parts.scheme == "file" else None


def is_remote(url: str) -> bool:
    """Whether requests to the store go over the network."""
    return not url.startswith(("file:", "memory:"))


def shown_url(url: str) -> str:
    """A store's URL without credentials and options, for clients.

    >>> shown_url("s3://key:secret@bucket/prefix?region=eu-west-1")
    's3://bucket/prefix'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is not an object store's URL: {error}") from error


def _bucket(url: SplitResult, health: StoreHealth | None) -> DeletableObjects:
    """Open a bucket; imports obstore, which takes long, only here."""
    match url.scheme:
        case "s3":
            from headwater.objects.remote.s3 import open_s3

            return open_s3(url, health=health)
        case "gs":
            from headwater.objects.remote.gcs import open_gcs

            return open_gcs(url, health=health)
        case _:
            from headwater.objects.remote.azure import open_azure

            return open_azure(url, health=health)


def _path(url: SplitResult) -> Path:
    if url.netloc not in ("", "localhost") or not url.path or url.query or url.fragment:
        raise ConfigurationError(
            f"{url.geturl()!r} is not the URL of a directory: write file:// and an absolute path"
        )
    return Path(unquote(url.path))
