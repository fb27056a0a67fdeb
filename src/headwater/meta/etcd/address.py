"""The URL of an etcd store: ``etcd://user:password@host:2379,host:2379/prefix``.

``etcds://`` is the same over TLS; ``?ca=FILE`` names who signed the members' certificates, and
``?cert=FILE&key=FILE`` the certificate that this process shows.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headwater.errors import ConfigurationError

PORT = 2379
PREFIX = "headwater"
FORM = "etcd://host:2379,host:2379/prefix"
FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files' contents; None where the system's own certificates do, or none is shown."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store's keys are. Every key stands below ``prefix`` and a slash."""

    members: tuple[str, ...]
    prefix: str
    user: str | None = None
    password: str = ""
    tls: Tls | None = None


def parse_address(url: str) -> Address:
    """Raises ``ConfigurationError`` with one line for a URL that cannot be meant."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    members = tuple(_member(url, host) for host in hosts.split(","))
    user, _, password = credentials.partition(":")
    return Address(
        members,
        unquote(parts.path).strip("/") or PREFIX,
        unquote(user) or None,
        unquote(password),
        _tls(url, parts),
    )


def _member(url: str, host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(PORT)
    if not name or not port.isdigit():
        raise ConfigurationError(f"{url!r} names no etcd member in {host!r}: write {FORM}")
    return f"{name}:{port}"


def _tls(url: str, parts: SplitResult) -> Tls | None:
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - set(FILES):
        raise ConfigurationError(
            f"{url!r} has an unknown option {min(unknown)!r}; known are: {', '.join(FILES)}"
        )
    if parts.scheme == "etcds":
        if ("cert" in options) != ("key" in options):
            raise ConfigurationError(f"{url!r} names one of cert and key: both are needed")
        return Tls(**{name: _read(url, path) for name, path in options.items()})
    if options:
        raise ConfigurationError(f"{url!r} has options of TLS: write etcds:// in front")
    return None


def _read(url: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{url!r} names {path}, which cannot be read: {error}") from error
