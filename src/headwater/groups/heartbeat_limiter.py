"""Limits the rate of heartbeats of each member of a consumer group.

A healthy member sends one heartbeat per interval, and a few in quick succession while it moves to
another assignment. Java's client sends thousands per second while its assignment contains a topic
id whose name it cannot look up.
"""

import logging
from typing import Final

from cachetools import LRUCache

logger = logging.getLogger(__name__)

RATE: Final = 5
"""Heartbeats of one member per second that are answered without delay, after its burst."""
BURST: Final = 20
MAX_DELAY: Final = 1.0
"""Longest delay of an answer, in seconds; delays later requests of the connection too."""
MAX_MEMBERS: Final = 10_000
"""Members that are remembered; the least recent ones are dropped first."""
WARN_SECONDS: Final = 60.0
MAX_LOGGED_CHARS: Final = 100


class HeartbeatLimiter:
    """Delays the answers to members that send too many heartbeats, on the event loop's clock."""

    def __init__(self) -> None:
        self._due: LRUCache[tuple[str, str], float] = LRUCache(MAX_MEMBERS)
        """By member: the time of its last heartbeat if it had kept to the rate."""
        self._warned = -WARN_SECONDS

    def delay(self, group: str, member_id: str, now: float) -> float:
        """Count a heartbeat; returns the seconds to delay its answer."""
        if not member_id:
            return 0.0  # its first heartbeat: the coordinator will assign its id
        member = (group, member_id)
        due = max(self._due.get(member, now), now) + 1 / RATE
        delay = min(due - now - BURST / RATE, MAX_DELAY)
        if delay > 0:
            due = min(due, now + BURST / RATE + MAX_DELAY)
            self._warn(group, member_id, now)
        self._due[member] = due
        return max(delay, 0.0)

    def _warn(self, group: str, member_id: str, now: float) -> None:
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            # Java's client does this while it cannot look up the name of an assigned topic.
            logger.warning(
                "A member sends too many heartbeats; its answers are delayed",
                extra={
                    "group": group[:MAX_LOGGED_CHARS],
                    "member": member_id[:MAX_LOGGED_CHARS],
                    "max_heartbeats_per_second": RATE,
                },
            )
