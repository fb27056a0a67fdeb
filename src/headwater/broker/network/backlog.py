"""The requests of one connection that are not answered yet, and how many there may be."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headwater.broker.network.pending_request import PendingRequest
from headwater.broker.settings import BrokerSettings

MAX_WAITING_REQUESTS: Final = 128
"""Most requests that wait to be started: a parsed request may take many times its bytes."""


class Backlog:
    """A connection's requests in order of arrival: waiting, or started and unanswered.

    ``max_unanswered_bytes`` bounds the bytes of the started requests that have no reply.
    """

    def __init__(self, settings: BrokerSettings, max_unanswered_bytes: int) -> None:
        self._settings = settings
        self._max_unanswered_bytes = max_unanswered_bytes
        self.waiting: deque[PendingRequest] = deque()
        self.unanswered: deque[PendingRequest] = deque()
        self._waiting_bytes = 0
        self._unanswered_bytes = 0

    @property
    def empty(self) -> bool:
        return not self.waiting and not self.unanswered

    @property
    def full(self) -> bool:
        """Whether no more requests may be read."""
        settings = self._settings
        return (
            self._waiting_bytes >= settings.max_queued_bytes
            or len(self.waiting) >= min(MAX_WAITING_REQUESTS, settings.max_queued_requests)
            or len(self.unanswered) >= settings.max_queued_requests
            or self._unanswered_bytes >= self._max_unanswered_bytes
        )

    def add(self, request: PendingRequest) -> None:
        """Queue a request that has arrived."""
        self.waiting.append(request)
        self._waiting_bytes += request.size

    def start_next(self) -> None:
        """Move the oldest waiting request to the unanswered ones."""
        request = self.waiting.popleft()
        self._waiting_bytes -= request.size
        self.unanswered.append(request)
        self._unanswered_bytes += request.size

    def pop_answered(self) -> Iterator[PendingRequest]:
        """Remove the requests that have a reply, up to the first one without."""
        unanswered = self.unanswered
        while unanswered and unanswered[0].reply is not None:
            request = unanswered.popleft()
            self._unanswered_bytes -= request.size
            yield request

    def drop_waiting(self, kept: Iterable[PendingRequest]) -> None:
        """Drop all waiting requests except ``kept``."""
        self.waiting = deque(kept)
        self._waiting_bytes = sum(request.size for request in self.waiting)

    def clear(self) -> None:
        self.waiting.clear()
        self.unanswered.clear()
