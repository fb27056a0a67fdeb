"""The host names that a server answers to.

A web page can make a browser send requests to any address: its own domain name resolves to that
address after the page has loaded (DNS rebinding). The browser sends that name as ``Host``, so a
server that answers to its own names only is out of reach of such pages.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

SETTING = "http.allowed_hosts"
ANY = "*"


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Loopback names and literal IP addresses are always allowed, and ``names`` besides."""

    names: frozenset[str] = frozenset()
    """In lower case; ``*`` allows every name."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Of names as people write them; empty ones do not count.

        >>> sorted(AllowedHosts.of(["Lake.Example.", ""]).names)
        ['lake.example']
        """
        return cls(frozenset(filter(None, map(_normal, names))))

    def allow(self, header: str) -> bool:
        """Whether the value of a ``Host`` header is allowed.

        >>> hosts = AllowedHosts.of(["lake.example"])
        >>> [hosts.allow(h) for h in ("[::1]:80", "10.0.0.1", "LOCALHOST:1", "lake.example:8181")]
        [True, True, True, True]
        >>> [hosts.allow(h) for h in ("evil.example", "lake.example.evil", "a@localhost", "")]
        [False, False, False, False]
        """
        name = host_name(header)
        return bool(name) and (
            ANY in self.names or name in self.names or _is_loopback_name(name) or _is_address(name)
        )


def host_name(header: str) -> str:
    """The name or address in a ``Host`` header, without the port; empty if there is none.

    >>> host_name("[::1]:8181"), host_name("Lake.example.:80"), host_name("a:b")
    ('::1', 'lake.example', '')
    """
    if header.startswith("["):
        name, bracket, port = header[1:].partition("]")
        is_valid = bool(bracket) and (not port or port.startswith(":"))
        port = port.removeprefix(":")
    else:
        name, _, port = header.partition(":")
        is_valid = True
    return _normal(name) if is_valid and (not port or port.isdecimal()) else ""


def _normal(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_loopback_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
