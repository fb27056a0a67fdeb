"""Whether an object store is healthy, degraded or unavailable, and what then passes.

The state follows from the requests that ended in the last ``window`` seconds: the share that
failed and the mean time they took, where one that is still under way counts once it has taken
longer than a healthy store's would. The time that many bytes take on a slow network does not
count.

An unavailable store is asked once a second by whichever request comes then; the others fail at
once, so that producers get their retriable error while they can still use it, and a store that is
throttled is not pressed. The first request that succeeds in good time ends that.

Nothing here waits or looks at a clock: callers bring the time.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from headwater.errors import ObjectStoreUnavailable


class State(IntEnum):
    """What can be expected of the store. The numbers are those of the metric."""

    HEALTHY = 0
    DEGRADED = 1
    UNAVAILABLE = 2


class StoreSuspended(ObjectStoreUnavailable):
    """Raised instead of a request to a store that is unavailable; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares from 0 to 1 and seconds; a value that is reached counts."""

    window: float = 10.0
    degraded_errors: float = 0.2
    unavailable_errors: float = 0.6
    degraded_seconds: float = 0.5
    unavailable_seconds: float = 5.0
    least_failures: int = 8
    """So many failures make a share of them mean something; retries outlast fewer."""
    probe_interval: float = 1.0
    slow_network: float = 4e6
    """Bytes a second; the time that a request's bytes take at that is not the store's."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The requests that a state was judged by."""

    requests: int
    failures: int
    mean_seconds: float

    def state(self, limits: Thresholds) -> State:
        """The worst that the error rate or the latency says.

        >>> Summary(20, 12, 0.1).state(Thresholds()).name
        'UNAVAILABLE'
        >>> Summary(10, 0, 0.7).state(Thresholds()).name
        'DEGRADED'
        """
        share = self.failures / self.requests if self.failures >= limits.least_failures else 0.0
        if share >= limits.unavailable_errors or self.mean_seconds >= limits.unavailable_seconds:
            return State.UNAVAILABLE
        if share >= limits.degraded_errors or self.mean_seconds >= limits.degraded_seconds:
            return State.DEGRADED
        return State.HEALTHY

    def __str__(self) -> str:
        return (
            f"{self.failures} of {self.requests} requests failed, "
            f"{self.mean_seconds:.1f} s each on average"
        )


@dataclass(slots=True)
class StoreHealth:
    """The health of one store as one process sees it. Times are the event loop's, in seconds."""

    limits: Thresholds = Thresholds()
    _ended: deque[tuple[float, float, bool]] = field(default_factory=deque)
    """When each ended, how long it took, whether it failed."""
    _failures: int = 0
    _seconds: float = 0.0
    """Totals of what is in ``_ended``."""
    _began: dict[int, float] = field(default_factory=dict)
    """When each request that is under way began, and the network was done with its bytes."""
    _next: int = 0
    _probe: int | None = None
    _probe_at: float = 0.0

    def begin(self, now: float, size: int = 0) -> int:
        """A request that moves ``size`` bytes is about to be sent; ``end`` takes what this returns.

        Raises ``StoreSuspended`` where the store is unavailable and is not to be tried yet.
        """
        found = self.summary(now)
        unavailable = found.state(self.limits) is State.UNAVAILABLE
        if unavailable and (self._probe is not None or now < self._probe_at):
            raise StoreSuspended(
                f"the object store is unavailable ({found}); "
                f"it is tried again every {self.limits.probe_interval:g} s"
            )
        self._next += 1
        self._began[self._next] = now + size / self.limits.slow_network
        if unavailable:
            self._probe = self._next
            self._probe_at = now + self.limits.probe_interval
        return self._next

    def end(self, request: int, now: float, *, failed: bool) -> None:
        """The request was answered; ``failed`` where the store did not do what it should."""
        seconds = max(0.0, now - self._began.pop(request))
        if request == self._probe:
            self._probe = None
            if not failed and seconds < self.limits.unavailable_seconds:
                self._recovered(now)
        self._ended.append((now, seconds, failed))
        self._seconds += seconds
        self._failures += failed

    def forget(self, request: int) -> None:
        """Nobody waited for the answer: it says nothing about the store."""
        del self._began[request]
        if request == self._probe:
            self._probe = None

    def is_proven(self, now: float) -> bool:
        """Whether a request succeeded within the window; too few failures make no state."""
        self.summary(now)
        return self._failures < len(self._ended)

    def state(self, now: float) -> State:
        return self.summary(now).state(self.limits)

    def summary(self, now: float) -> Summary:
        while self._ended and self._ended[0][0] < now - self.limits.window:
            _, seconds, failed = self._ended.popleft()
            self._seconds -= seconds
            self._failures -= failed
        waits = [now - began for began in self._began.values()]
        slow = [seconds for seconds in waits if seconds > self.limits.degraded_seconds]
        requests = len(self._ended) + len(slow)
        mean = (self._seconds + sum(slow)) / requests if requests else 0.0
        return Summary(requests, self._failures, mean)

    def _recovered(self, now: float) -> None:
        """Begin again: what the outage left under way is not held against the store."""
        self._ended.clear()
        self._failures, self._seconds = 0, 0.0
        for request, began in self._began.items():
            self._began[request] = max(began, now)
