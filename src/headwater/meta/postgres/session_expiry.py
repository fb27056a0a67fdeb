"""Which sessions have not been renewed for their time to live, by this process's own clock.

PostgreSQL's clock can be set, and has no part in it. Every renewal writes a session's row anew,
and so gives it another version. A session whose version a broker has seen for ``ttl`` was last
renewed before that: its owner, which counts from the start of that renewal, takes it for lost by
then. The version is compared again as the session is ended, so that a renewal always wins.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session's row as it was read: ``version`` is another after each renewal."""

    id: str
    version: str
    ttl: float


class SessionExpiry:
    """Compares what is read with what was read before; ``now`` counts a suspended machine."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[tuple[str, str], float] = {}

    def look(self, sessions: Iterable[SessionRow]) -> list[SessionRow]:
        """All sessions that there are; returns those that are to be ended."""
        now = self._now()
        since: dict[tuple[str, str], float] = {}
        silent = []
        for session in sessions:
            key = session.id, session.version
            since[key] = self._since.get(key, now)
            if now - since[key] > session.ttl:
                silent.append(session)
        self._since = since
        return silent
