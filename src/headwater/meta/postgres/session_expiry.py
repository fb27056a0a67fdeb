"""Detects sessions that were not renewed within their ttl, by this process's own clock.

PostgreSQL's clock is not used, because it can be set. Every renewal updates the session's row and
so gives it a new version (``xmin``). If a broker has read the same version for ``ttl`` seconds, the
session was last renewed before that time. Its owner counts the ttl from the start of that renewal
and treats the session as lost by then. The statement that ends the session compares the version
again, so that a renewal at the same time wins.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session's row; ``version`` changes with each renewal."""

    id: str
    version: str
    ttl: float


class SessionExpiry:
    """Compares each read of the sessions with the last one.

    ``now`` is a clock that does not stop while the machine is suspended.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[tuple[str, str], float] = {}

    def expired(self, sessions: Iterable[SessionRow]) -> list[SessionRow]:
        """Take all current sessions; returns the expired ones."""
        now = self._now()
        since: dict[tuple[str, str], float] = {}
        expired = []
        for session in sessions:
            key = session.id, session.version
            since[key] = self._since.get(key, now)
            if now - since[key] > session.ttl:
                expired.append(session)
        self._since = since
        return expired
