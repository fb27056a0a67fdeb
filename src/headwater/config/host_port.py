"""HOST:PORT."""

from dataclasses import dataclass
from ipaddress import ip_address

from headwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class HostPort:
    """The value of a ``HOST:PORT`` setting."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "HostPort":
        """Read ``HOST:PORT``; brackets enclose an IPv6 host.

        >>> HostPort.parse("[::1]:9092")
        HostPort(host='::1', port=9092)
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{text!r} is not an address; expected HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_wildcard(self) -> bool:
        """Whether this is a wildcard such as ``0.0.0.0``, which clients cannot connect to."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return self.host == "0"

    def reachable_at(self, host: str) -> "HostPort":
        """The address for other hosts: ``host`` replaces a wildcard.

        >>> str(HostPort("0.0.0.0", 9404).reachable_at("broker.example"))
        'broker.example:9404'
        """
        return HostPort(host, self.port) if self.is_wildcard else self

    def shifted(self, by: int) -> "HostPort":
        """The address with a port ``by`` higher; port 0 (any free port) stays."""
        return HostPort(self.host, self.port + by if self.port else 0)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
