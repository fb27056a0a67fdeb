"""The URL of an Oxia store: ``oxia://host:6648,host:6648/namespace/prefix``."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headwater.errors import ConfigurationError

PORT = 6648
NAMESPACE = "default"
PREFIX = "headwater"
FORM = "oxia://host:6648,host:6648/namespace/prefix"


@dataclass(frozen=True, slots=True)
class OxiaAddress:
    """Some servers of a cluster, and the namespace and prefix of a store.

    All keys of one ``prefix`` are in one shard of the ``namespace``.
    """

    servers: tuple[str, ...]
    namespace: str
    prefix: str


def parse_oxia_address(url: str) -> OxiaAddress:
    """Raises ``ConfigurationError`` if the URL is not valid."""
    parts = urlsplit(url)
    servers = tuple(_server(url, host) for host in parts.netloc.split(","))
    namespace, _, prefix = unquote(parts.path).strip("/").partition("/")
    prefix = prefix or PREFIX
    if parts.query:
        raise ConfigurationError(f"{url!r} has options, but an Oxia URL takes none: write {FORM}")
    if not re.fullmatch(r"[\w./-]+", prefix, re.ASCII):
        raise ConfigurationError(
            f"{url!r}: the prefix {prefix!r} may only have letters, digits and ._/-"
        )
    return OxiaAddress(servers, namespace or NAMESPACE, prefix)


def _server(url: str, host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(PORT)
    if not name or not port.isdigit():
        raise ConfigurationError(f"{url!r} names no Oxia server in {host!r}: write {FORM}")
    return f"{name}:{port}"
