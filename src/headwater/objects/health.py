"""Whether an object store is healthy, degraded or unavailable, and which requests may be sent.

The state is computed from the requests that ended in the last ``window_seconds``: from the fraction
that failed and from their mean duration. A request that is still running counts too once it takes
longer than in a healthy store. The time to transfer its bytes over a slow network is subtracted.

While a store is unavailable, one request per ``probe_interval_seconds`` is sent as a probe and all
others fail at once. Producers then get a retriable error before their own timeout, and a store that
throttles gets no further load. A probe that succeeds in time makes the store healthy again.

Nothing here waits or reads a clock: callers pass the time.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from headwater.errors import ObjectStoreUnavailable


class HealthState(IntEnum):
    """The state of an object store. The numbers are the values of the metric."""

    HEALTHY = 0
    DEGRADED = 1
    UNAVAILABLE = 2


class StoreSuspended(ObjectStoreUnavailable):
    """Raised without sending a request, because the store is unavailable."""


@dataclass(frozen=True, slots=True)
class HealthThresholds:
    """Limits of the states, as fractions of failed requests and mean seconds per request."""

    window_seconds: float = 10.0
    degraded_errors: float = 0.2
    unavailable_errors: float = 0.6
    degraded_seconds: float = 0.5
    unavailable_seconds: float = 5.0
    min_failures: int = 8
    """With fewer failures the fraction is ignored; retries cope with them."""
    probe_interval_seconds: float = 1.0
    slow_network_bytes_per_second: float = 4e6
    """Assumed transfer rate; the transfer time at this rate is subtracted from a request's."""


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """The requests that a state is computed from."""

    requests: int
    failures: int
    mean_seconds: float

    def state(self, limits: HealthThresholds) -> HealthState:
        """The worse of the states by error rate and by latency.

        >>> RequestSummary(20, 12, 0.1).state(HealthThresholds()).name
        'UNAVAILABLE'
        >>> RequestSummary(10, 0, 0.7).state(HealthThresholds()).name
        'DEGRADED'
        """
        share = self.failures / self.requests if self.failures >= limits.min_failures else 0.0
        if share >= limits.unavailable_errors or self.mean_seconds >= limits.unavailable_seconds:
            return HealthState.UNAVAILABLE
        if share >= limits.degraded_errors or self.mean_seconds >= limits.degraded_seconds:
            return HealthState.DEGRADED
        return HealthState.HEALTHY

    def __str__(self) -> str:
        return (
            f"{self.failures} of {self.requests} requests failed, "
            f"{self.mean_seconds:.1f} s each on average"
        )


@dataclass(slots=True)
class StoreHealth:
    """The health of one store as seen by this process. Times are the event loop's, in seconds."""

    limits: HealthThresholds = HealthThresholds()
    _ended: deque[tuple[float, float, bool]] = field(default_factory=deque)
    """By ended request: time of its end, seconds that it took, whether it failed."""
    _failures: int = 0
    _seconds: float = 0.0
    """Sums over ``_ended``."""
    _began: dict[int, float] = field(default_factory=dict)
    """By running request: the time of its start plus the transfer time of its bytes."""
    _next: int = 0
    _probe: int | None = None
    _probe_at: float = 0.0

    def begin(self, now: float, size: int = 0) -> int:
        """Register a request that transfers ``size`` bytes; returns its number for ``end``.

        Raises ``StoreSuspended`` if the store is unavailable and the next probe is not due.
        """
        found = self.summary(now)
        unavailable = found.state(self.limits) is HealthState.UNAVAILABLE
        if unavailable and (self._probe is not None or now < self._probe_at):
            raise StoreSuspended(
                f"the object store is unavailable ({found}); "
                f"a request is tried every {self.limits.probe_interval_seconds:g} s"
            )
        self._next += 1
        self._began[self._next] = now + size / self.limits.slow_network_bytes_per_second
        if unavailable:
            self._probe = self._next
            self._probe_at = now + self.limits.probe_interval_seconds
        return self._next

    def end(self, request: int, now: float, *, failed: bool) -> None:
        """The request was answered; ``failed`` says whether the store failed to serve it."""
        seconds = max(0.0, now - self._began.pop(request))
        if request == self._probe:
            self._probe = None
            if not failed and seconds < self.limits.unavailable_seconds:
                self._recovered(now)
        self._ended.append((now, seconds, failed))
        self._seconds += seconds
        self._failures += failed

    def forget(self, request: int) -> None:
        """The caller cancelled the request, so its duration says nothing about the store."""
        del self._began[request]
        if request == self._probe:
            self._probe = None

    def is_proven(self, now: float) -> bool:
        """Whether a request has succeeded within the window."""
        self.summary(now)
        return self._failures < len(self._ended)

    def state(self, now: float) -> HealthState:
        return self.summary(now).state(self.limits)

    def summary(self, now: float) -> RequestSummary:
        while self._ended and self._ended[0][0] < now - self.limits.window_seconds:
            _, seconds, failed = self._ended.popleft()
            self._seconds -= seconds
            self._failures -= failed
        waits = [now - began for began in self._began.values()]
        slow = [seconds for seconds in waits if seconds > self.limits.degraded_seconds]
        requests = len(self._ended) + len(slow)
        mean = (self._seconds + sum(slow)) / requests if requests else 0.0
        return RequestSummary(requests, self._failures, mean)

    def _recovered(self, now: float) -> None:
        """Reset: requests that began during the outage do not count against the store."""
        self._ended.clear()
        self._failures, self._seconds = 0, 0.0
        for request, began in self._began.items():
            self._began[request] = max(began, now)
