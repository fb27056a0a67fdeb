"""How often one member of a consumer group is answered.

A healthy member reports once in each heartbeat interval, and a few times at once while it moves
to another assignment. Java's client reports without any pause while its assignment names a topic
whose name it cannot find out: thousands of times a second, until it can.
"""

import logging
from collections import OrderedDict
from typing import Final

logger = logging.getLogger(__name__)

RATE: Final = 5
"""Heartbeats of one member that are answered in a second, once it has used up its burst."""
BURST: Final = 20
MAX_DELAY: Final = 1.0
"""Seconds; other requests of the same connection wait as long."""
MAX_MEMBERS: Final = 10_000
"""Members that are remembered, those that were heard of last."""
WARN_SECONDS: Final = 60.0


class HeartbeatPace:
    """Delays the answers to members that report too often; times are the event loop's."""

    def __init__(self) -> None:
        self._due: OrderedDict[tuple[str, str], float] = OrderedDict()
        """When each member would have sent its last heartbeat at the rate that is allowed."""
        self._warned = -WARN_SECONDS

    def delay(self, group: str, member_id: str, now: float) -> float:
        """Count a heartbeat; the seconds that its answer has to wait."""
        if not member_id:
            return 0.0  # a coordinator makes its id, so that it can only be its first
        member = (group, member_id)
        due = max(self._due.get(member, now), now) + 1 / RATE
        delay = min(due - now - BURST / RATE, MAX_DELAY)
        if delay > 0:
            due = min(due, now + BURST / RATE + MAX_DELAY)
            self._warn(group, member_id, now)
        self._due[member] = due
        self._due.move_to_end(member)
        if len(self._due) > MAX_MEMBERS:
            self._due.popitem(last=False)
        return max(delay, 0.0)

    def _warn(self, group: str, member_id: str, now: float) -> None:
        if now - self._warned >= WARN_SECONDS:
            self._warned = now
            logger.warning(
                "member %.100s of group %.100s reports more than %d times a second; it is slowed "
                "down. Java's client does so while a topic that it was assigned has no name for it",
                member_id, group, RATE,
            )  # fmt: skip
