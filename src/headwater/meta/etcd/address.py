"""The URL of an etcd store: ``etcd://user:password@host:2379,host:2379/prefix``.

``etcds://`` connects over TLS. ``?ca=FILE`` names the certificate authority of the members, and
``?cert=FILE&key=FILE`` the client certificate of this process. ``?max-txn-ops=N`` must be the
value of ``--max-txn-ops`` with which every member is started.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.errors import ConfigurationError
from headwater.meta.urls import without_password

PORT = 2379
PREFIX = "headwater"
FORM = "etcd://host:2379,host:2379/prefix"
MAX_TXN_OPS = 128
"""etcd's default of ``--max-txn-ops``: operations per transaction."""
FILES = ("ca", "cert", "key")
OPERATIONS = "max-txn-ops"


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Contents of PEM files. Without ``ca``, the system's certificate authorities are trusted."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """The cluster and the prefix of a store: all of its keys begin with ``prefix`` and a slash."""

    members: tuple[str, ...]
    prefix: str
    user: str | None = None
    password: str = ""
    tls: EtcdTls | None = None
    max_txn_ops: int = MAX_TXN_OPS


def parse_etcd_address(url: str) -> EtcdAddress:
    """Raises ``ConfigurationError`` if the URL is not valid."""
    parts = urlsplit(url)
    url = without_password(url)
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
            f"{url!r}: the prefix {prefix!r} contains '!', which Headwater's internal keys use"
        )
    return EtcdAddress(
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
        raise ConfigurationError(f"{url!r}: {OPERATIONS} must be a number, at least {MAX_TXN_OPS}")
    return int(given)


def _tls(url: str, scheme: str, files: Mapping[str, str]) -> EtcdTls | None:
    if scheme == "etcds":
        if ("cert" in files) != ("key" in files):
            raise ConfigurationError(f"{url!r} names only one of cert and key; both are needed")
        return EtcdTls(**{name: _read(url, path) for name, path in files.items()})
    if files:
        raise ConfigurationError(f"{url!r} has TLS options; write etcds:// to use TLS")
    return None


def _read(url: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{url!r} names {path}, which cannot be read: {error}") from error
