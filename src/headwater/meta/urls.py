"""Picking a metadata store by its URL."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.clock import Clock
from headwater.errors import ConfigurationError
from headwater.meta.store import MetadataStore

KNOWN = "sqlite:///relative/path, sqlite:////absolute/path, memory://"


async def open_store(url: str, clock: Clock) -> MetadataStore:
    """Open the store that ``url`` names; the caller closes it.

    Raises ``ConfigurationError`` for a URL that names none, and what the backend's own opening
    raises.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            from headwater.meta.memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from headwater.meta.sqlite import SqliteStore

            return await SqliteStore.open(_file(url), clock)
        case _:
            raise ConfigurationError(f"no metadata store is known for {url!r}; known are: {KNOWN}")


def _file(url: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise ConfigurationError(
            f"{url!r} names no file: write sqlite:///relative/path or sqlite:////absolute/path"
        )
    return Path(path)
