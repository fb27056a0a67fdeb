"""Enforces quotas on clients.

Each broker counts its own requests, so a limit applies per broker, as in Kafka. A client over its
limit gets its reply at once, with a throttle time. Its connection is not read for this time, so
that a client which ignores the throttle time is slowed down too.

If no quota is set, a request costs only one look at ``active``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.broker.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Quotas,
    address_limits,
    client_limit,
    plain_address,
)
from headwater.broker.quotas.rates import SAMPLE_MS, WINDOW_SECONDS, RateWindow, TokenBucket
from headwater.errors import ThrottlingQuotaExceeded

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection without authentication."""

_MAX_CACHED: Final = 10_000
"""Most clients, rate windows and token buckets in memory, each."""

_SharedBy = tuple[str, str | None, str | None]
"""A quota's name, with the user and the client id that share one count."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """One rate limit of a client, with the window that all clients under this quota share."""

    limit: float
    window: RateWindow


@dataclass(frozen=True, slots=True)
class _ClientLimits:
    produce: _Rate | None
    fetch: _Rate | None
    time: _Rate | None
    mutations: TokenBucket | None


class ClientQuotas:
    """Counts what clients use, and computes throttle times.

    ``now`` is the monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._quotas: Mapping[Entity, Quotas] = {}
        self._addresses: dict[str | None, float] = {}
        self._clients: dict[str, _ClientLimits] = {}
        self._windows: dict[_SharedBy, RateWindow] = {}
        self._buckets: dict[_SharedBy, TokenBucket] = {}
        self.active = False
        """Whether a client has a quota."""
        self.timed = False
        """Whether a client has a quota on processing time (``request_percentage``)."""
        self.counts_connections = False
        """Whether an address has a quota on new connections."""

    def change(self, quotas: Mapping[Entity, Quotas]) -> None:
        """Replace the quotas; the counts stay."""
        self._quotas = quotas
        self._addresses = address_limits(quotas)
        self._clients.clear()
        self.counts_connections = bool(self._addresses)
        limits = {name for entity in quotas.values() for name in entity}
        self.timed = REQUEST_PERCENTAGE in limits
        self.active = bool(
            limits
            & {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
        )

    def charge_produce(self, client_id: str | None, size: int) -> int:
        """Count a Produce request of this size; returns the throttle time in ms."""
        return self._count(self._limits(client_id).produce, size)

    def charge_fetch(self, client_id: str | None, size: int) -> int:
        """Count a Fetch reply of this size; returns the throttle time in ms.

        If it is not 0, the reply is not counted and must not be sent.
        """
        rate = self._limits(client_id).fetch
        throttle = self._count(rate, size)
        if throttle and rate is not None:
            rate.window.record(-size, self._now_ms())
        return throttle

    def max_fetch_bytes(self, client_id: str | None) -> int | None:
        """Most bytes of a Fetch reply that can stay below the quota; None without a quota."""
        rate = self._limits(client_id).fetch
        return None if rate is None else int(rate.limit * WINDOW_SECONDS)

    def charge_time(self, client_id: str | None, seconds: float) -> None:
        """Count the time for which the event loop worked for a client."""
        rate = self._limits(client_id).time
        if rate is not None:
            rate.window.record(seconds * 100, self._now_ms())

    def time_throttle_ms(self, client_id: str | None) -> int:
        """The throttle time in ms of a client over its quota on processing time; 0 if below it."""
        rate = self._limits(client_id).time
        if rate is None:
            return 0
        return min(SAMPLE_MS, rate.window.throttle_ms(rate.limit, self._now_ms()))

    def mutations(self, client_id: str | None, *, strict: bool) -> "MutationQuota":
        """The quota for the partitions that one request creates or deletes."""
        bucket = self._limits(client_id).mutations if self.active else None
        return MutationQuota(bucket, self._now_ms, strict=strict)

    def charge_connection(self, address: str) -> int:
        """Count a new connection; returns the throttle time in ms.

        If it is not 0, the connection is not counted and must be closed after this time.
        """
        try:
            name = plain_address(address)
        except ValueError:
            return 0  # a unix socket has no address
        limit = self._addresses.get(name, self._addresses.get(None))
        if limit is None:
            return 0
        window, now = self._window(("ip", name, None)), self._now_ms()
        window.record(1, now)
        throttle = min(SAMPLE_MS, window.throttle_ms(limit, now))
        if throttle:
            window.record(-1, now)
        return throttle

    def _count(self, rate: _Rate | None, amount: float) -> int:
        if rate is None:
            return 0
        now = self._now_ms()
        rate.window.record(amount, now)
        return rate.window.throttle_ms(rate.limit, now)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def _limits(self, client_id: str | None) -> _ClientLimits:
        name = client_id or ""
        limits = self._clients.get(name)
        if limits is None:
            if len(self._clients) >= _MAX_CACHED:
                self._clients.clear()
            limits = self._clients[name] = self._look_up(name)
        return limits

    def _look_up(self, client_id: str) -> _ClientLimits:
        return _ClientLimits(
            self._rate(PRODUCER_BYTE_RATE, client_id),
            self._rate(CONSUMER_BYTE_RATE, client_id),
            self._rate(REQUEST_PERCENTAGE, client_id),
            self._mutations(client_id),
        )

    def _rate(self, key: str, client_id: str) -> _Rate | None:
        quota = client_limit(self._quotas, key, ANONYMOUS, client_id)
        if quota is None:
            return None
        return _Rate(quota.limit, self._window((key, *quota.shared_by)))

    def _mutations(self, client_id: str) -> TokenBucket | None:
        key = CONTROLLER_MUTATION_RATE
        quota = client_limit(self._quotas, key, ANONYMOUS, client_id)
        if quota is None:
            return None
        now, name = self._now_ms(), (key, *quota.shared_by)
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= _MAX_CACHED:
                self._clients.clear()
                self._buckets = {n: b for n, b in self._buckets.items() if not b.is_idle(now)}
            bucket = self._buckets[name] = TokenBucket(quota.limit, now)
        bucket.change_limit(quota.limit, now)
        return bucket

    def _window(self, name: _SharedBy) -> RateWindow:
        window = self._windows.get(name)
        if window is None:
            if len(self._windows) >= _MAX_CACHED:
                now = self._now_ms()
                self._clients.clear()  # they refer to windows that may be dropped here
                self._windows = {n: w for n, w in self._windows.items() if not w.is_idle(now)}
            window = self._windows[name] = RateWindow()
        return window


class MutationQuota:
    """The quota for the partitions that one request creates or deletes.

    ``throttle_ms`` goes into the reply. A strict quota refuses further topics when it is
    exhausted. Old versions of the requests have no error for that: they are served, and the client
    is throttled afterwards.
    """

    __slots__ = ("_bucket", "_now_ms", "_strict", "throttle_ms")

    def __init__(
        self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, strict: bool
    ) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._strict = strict
        self.throttle_ms = 0

    def take(self, partitions: int) -> None:
        """Count the partitions of one topic.

        Raises ``ThrottlingQuotaExceeded`` if the quota is strict and exhausted.
        """
        if self._bucket is None:
            return
        now = self._now_ms()
        if self._strict and (wait := self._bucket.throttle_ms(now)):
            self.throttle_ms = max(self.throttle_ms, wait)
            raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
        self._bucket.take(partitions, now)
        if not self._strict:
            self.throttle_ms = self._bucket.throttle_ms(now)
