"""The session of one connection: listener, principal, expiry and size limit.

A client may send requests right behind the one that signs it in. So a request is checked against
the session when it is started, not when it arrives.
"""

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple


class Principal(NamedTuple):
    """The authenticated user of a connection, in Kafka's form: ``User:alice``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of every client on a listener without authentication."""


@dataclass(slots=True)
class ClientSession:
    """What a broker knows of one connection. A handler reaches it through its ``RequestContext``
    and may change it.
    """

    listener: str
    """The name of the listener that the client connected to."""
    max_request_bytes: int
    """A larger request closes the connection."""
    peer: str = "?"
    """The client's own address, as HOST:PORT."""
    principal: Principal = ANONYMOUS
    expires_at: float = inf
    """When the session expires, by the event loop's clock. A request after it closes the
    connection."""

    def refusal(self, size: int, now: float) -> str | None:
        """Why a request of ``size`` bytes must not be started at ``now``; None if it may start."""
        if size > self.max_request_bytes:
            return f"a request has {size} bytes; 1 to {self.max_request_bytes} are allowed"
        if now >= self.expires_at:
            return f"the session of {self.principal} has expired"
        return None
