"""The URL of an etcd store: ``etcd://user:password@host:2379,host:2379/prefix``.

``etcds://`` is the same over TLS; ``?ca=FILE`` names who signed the members' certificates, and
``?cert=FILE&key=FILE`` the certificate that this process shows. ``?max-txn-ops=N`` says that every
member is started with that ``--max-txn-ops``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.errors import ConfigurationError
from headwater.meta.urls import shown

PORT = 2379
PREFIX = "headwater"
FORM = "etcd://host:2379,host:2379/prefix"
MAX_TXN_OPS = 128
"""What one transaction of etcd holds unless it is started with another ``--max-txn-ops``."""
FILES = ("ca", "cert", "key")
OPERATIONS = "max-txn-ops"


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
    max_txn_ops: int = MAX_TXN_OPS


def parse_address(url: str) -> Address:
    """Raises ``ConfigurationError`` with one line for a URL that cannot be meant."""
    parts = urlsplit(url)
    url = shown(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - {*FILES, OPERATIONS}:
        known = ", ".join((*FILES, OPERATIONS))
        raise ConfigurationError(
            f"{url!r} has an unknown option {min(unknown)!r}; known are: {known}"
        )
    prefix = unquote(parts.path).strip("/") or PREFIX
    if "!" in prefix:
        raise ConfigurationError(
            f"{url!r}: the prefix {prefix!r} has a '!', behind which Headwater keeps its own keys"
        )
    return Address(
        members=tuple(_member(url, host) for host in hosts.split(",")),
        prefix=prefix,
        user=unquote(user) or None,
        password=unquote(password),
        max_txn_ops=_operations(url, options.pop(OPERATIONS, None)),
        tls=_tls(url, parts.scheme, options),
    )


def _member(url: str, host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(PORT)
    if not name or not port.isdigit():
        raise ConfigurationError(f"{url!r} names no etcd member in {host!r}: write {FORM}")
    return f"{name}:{port}"


def _operations(url: str, given: str | None) -> int:
    if given is None:
        return MAX_TXN_OPS
    if not given.isdigit() or int(given) < MAX_TXN_OPS:
        raise ConfigurationError(f"{url!r}: {OPERATIONS} is a number from {MAX_TXN_OPS} up")
    return int(given)


def _tls(url: str, scheme: str, files: Mapping[str, str]) -> Tls | None:
    if scheme == "etcds":
        if ("cert" in files) != ("key" in files):
            raise ConfigurationError(f"{url!r} names one of cert and key: both are needed")
        return Tls(**{name: _read(url, path) for name, path in files.items()})
    if files:
        raise ConfigurationError(f"{url!r} has options of TLS: write etcds:// in front")
    return None


def _read(url: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{url!r} names {path}, which cannot be read: {error}") from error
