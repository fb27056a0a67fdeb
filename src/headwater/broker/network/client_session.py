"""Who a connection belongs to and what it may send, as it stands when a request is started.

A client may send requests behind the one that changes its session. They are judged by what the
session has become when their turn comes, not by what it was when they arrived.
"""

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Whom a connection belongs to, in Kafka's form: ``User:alice``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever connects where nobody has to sign in."""


@dataclass(slots=True)
class ClientSession:
    """The state of one connection. Handlers find it at ``Call.session`` and may change it."""

    listener: str
    """The name of the listener that the client came by."""
    max_request_bytes: int
    """A longer request closes the connection."""
    peer: str = "?"
    """The client's own address, as HOST:PORT."""
    principal: Principal = ANONYMOUS
    expires_at: float = inf
    """When the sign-in ends, by the event loop's clock: a later request closes the connection."""

    def refusal(self, size: int, now: float) -> str | None:
        """Why a request of ``size`` bytes must not be started at ``now``; None if it may be."""
        if size > self.max_request_bytes:
            return f"a request of {size} bytes, where 1 to {self.max_request_bytes} are allowed"
        if now >= self.expires_at:
            return f"the session of {self.principal} has expired"
        return None
