"""HOST:PORT."""

from dataclasses import dataclass
from ipaddress import ip_address

from headwater.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, as they stand in a ``HOST:PORT`` setting."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``HOST:PORT``; an IPv6 host stands in brackets.

        >>> Address.parse("[::1]:9092")
        Address(host='::1', port=9092)
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{text!r} is not an address; expected HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_everywhere(self) -> bool:
        """Whether a listener has every address of its host, so that none can be told to others."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return self.host == "0"

    def seen_from_afar(self, host: str) -> "Address":
        """Where others reach this listener, whose host they know as ``host``.

        >>> str(Address("0.0.0.0", 9404).seen_from_afar("broker.example"))
        'broker.example:9404'
        """
        return Address(host, self.port) if self.is_everywhere else self

    def shifted(self, by: int) -> "Address":
        """The address ``by`` ports further on; port 0, any free one, stays."""
        return Address(self.host, self.port + by if self.port else 0)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
