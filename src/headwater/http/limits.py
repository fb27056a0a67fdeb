"""What one client may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds of one server. A mount bounds the bodies of its requests."""

    head_bytes: int = 32 * 1024
    """Request line and headers together."""
    headers: int = 100
    connections: int = 64
    keep_alive: bool = True
    """Whether a connection serves more than one request."""
    idle_s: float = 60.0
    """How long a connection may be silent between requests."""
    receive_s: float = 20.0
    """How long one request may take to arrive, and how long one reply may take to leave."""
    stop_s: float = 5.0
    """How long requests in flight may take when the server closes."""
