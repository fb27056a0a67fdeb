"""The requests of one connection that have no answer yet, and how many of them there may be."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headwater.broker.network.pending_request import PendingRequest
from headwater.broker.settings import BrokerSettings

MOST_WAITING: Final = 128
"""Requests whose turn has not come: parsed, some take many times their bytes."""


class Backlog:
    """Requests in order of arrival: those that wait for their turn, and those taken up.

    ``share`` is how many bytes of those taken up there may be.
    """

    def __init__(self, settings: BrokerSettings, share: int) -> None:
        self._settings = settings
        self._share = share
        self.waiting: deque[PendingRequest] = deque()
        self.unanswered: deque[PendingRequest] = deque()
        self._waiting_bytes = 0
        self._unanswered_bytes = 0

    @property
    def empty(self) -> bool:
        return not self.waiting and not self.unanswered

    @property
    def full(self) -> bool:
        """Whether no more are to be read."""
        settings = self._settings
        return (
            self._waiting_bytes >= settings.max_queued_bytes
            or len(self.waiting) >= min(MOST_WAITING, settings.max_queued_requests)
            or len(self.unanswered) >= settings.max_queued_requests
            or self._unanswered_bytes >= self._share
        )

    def arrived(self, request: PendingRequest) -> None:
        self.waiting.append(request)
        self._waiting_bytes += request.size

    def take_up(self) -> None:
        """The turn of the next one that waits has come."""
        request = self.waiting.popleft()
        self._waiting_bytes -= request.size
        self.unanswered.append(request)
        self._unanswered_bytes += request.size

    def answered(self) -> Iterator[PendingRequest]:
        """Take out those that have a reply, up to the first that has none."""
        unanswered = self.unanswered
        while unanswered and unanswered[0].reply is not None:
            request = unanswered.popleft()
            self._unanswered_bytes -= request.size
            yield request

    def keep_waiting(self, kept: Iterable[PendingRequest]) -> None:
        """Forget all others that wait."""
        self.waiting = deque(kept)
        self._waiting_bytes = sum(request.size for request in self.waiting)

    def clear(self) -> None:
        self.waiting.clear()
        self.unanswered.clear()
