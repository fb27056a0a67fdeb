"""The object store that a URL names."""

from concurrent.futures import Executor
from pathlib import Path
from random import Random
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.clock import Clock
from headwater.errors import ConfigurationError
from headwater.objects.local import LocalDirectory
from headwater.objects.memory import MemoryObjects
from headwater.objects.retrying import RetryingObjects
from headwater.objects.store import ObjectStore


def open_objects(url: str, *, clock: Clock, random: Random, executor: Executor) -> ObjectStore:
    """Open ``file:///directory``, ``memory://`` or ``s3://bucket/prefix?...``.

    Blocks for some milliseconds where a directory must be created and proven writable; sends
    nothing over the network. Raises ``ConfigurationError``.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is not an object store's URL: {error}") from error
    match parts.scheme:
        case "file":
            return LocalDirectory(_path(parts), executor=executor)
        case "memory":
            return MemoryObjects(clock=clock)
        case "s3":
            from headwater.objects.s3 import open_s3  # obstore takes its time to import

            return RetryingObjects(open_s3(parts), random=random)
        case _:
            raise ConfigurationError(
                f"{url!r} is not an object store's URL: it starts with file:///, memory:// or s3://"
            )


def _path(url: SplitResult) -> Path:
    if url.netloc not in ("", "localhost") or not url.path or url.query or url.fragment:
        raise ConfigurationError(
            f"{url.geturl()!r} is not a directory's URL: it is file:// and an absolute path"
        )
    return Path(unquote(url.path))
