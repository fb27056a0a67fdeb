"""Opens the metadata store that a URL names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.clock import Clock
from headwater.errors import ConfigurationError
from headwater.extras import install_command
from headwater.meta.store import MetadataStore

KNOWN_URLS = (
    "sqlite:///relative/path, sqlite:////absolute/path, memory://, "
    "etcd://host:2379,host:2379/prefix (etcds:// for TLS), postgres://user@host:5432/database, "
    "oxia://host:6648/namespace/prefix"
)


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

            return await SqliteStore.open(sqlite_file(url), clock)
        case "etcd" | "etcds":
            with _extra("etcd", url):
                from headwater.meta.etcd import EtcdStore
                from headwater.meta.etcd.address import parse_etcd_address

            return await EtcdStore.open(parse_etcd_address(url))
        case "postgres" | "postgresql":
            with _extra("postgres", url):
                from headwater.meta.postgres import PostgresStore

            return await PostgresStore.open(url)
        case "oxia":
            with _extra("oxia", url):
                from headwater.meta.oxia import OxiaStore
                from headwater.meta.oxia.address import parse_oxia_address

            return await OxiaStore.open(parse_oxia_address(url))
        case _:
            raise ConfigurationError(
                f"no metadata store is known for {without_password(url)!r}; known are: {KNOWN_URLS}"
            )


def is_embedded(url: str) -> bool:
    """Whether the store runs in this process, and not in a server that may be unreachable.

    >>> is_embedded("sqlite:///metadata.db"), is_embedded("etcd://host:2379/prefix")
    (True, False)
    """
    return urlsplit(url).scheme in ("memory", "sqlite")


def without_password(url: str) -> str:
    """The URL for messages and logs: without its password.

    >>> without_password("postgres://me:secret@db/streams")
    'postgres://me@db/streams'
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return parts._replace(netloc=user.partition(":")[0] + at + hosts).geturl() if at else url


@contextmanager
def _extra(name: str, url: str) -> Iterator[None]:
    """Raise ``ConfigurationError`` with the install command if an optional library is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{without_password(url)!r} needs the extra `{name}` ({error.name} is missing): "
            f"{install_command(name)} adds it"
        ) from error


def sqlite_file(url: str) -> Path:
    """The file that a SQLite store's URL names; raises ``ConfigurationError``."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise ConfigurationError(
            f"{url!r} names no file: write sqlite:///relative/path or sqlite:////absolute/path"
        )
    return Path(path)
